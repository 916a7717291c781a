#pragma once

// Can a program be followed? LD_PRELOAD works where the C library's dynamic loader starts the
// program and the program makes its system calls through the C library. This is found out from the
// file, before it runs: scripts are followed to their interpreter, ELF headers are read.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ioweave::cli {

enum class Followable : uint8_t {
  yes,
  static_program,   ///< no dynamic loader
  go_program,       ///< makes its system calls itself
  setuid,           ///< gains rights: the loader ignores LD_PRELOAD
  capabilities,     ///< the same, by file capabilities
  other_class,      ///< 32-bit, or for another processor
  other_c_library,  ///< musl or another loader that cannot load a glibc library
  not_executable,
  missing,
  unknown,  ///< neither a script nor an ELF program: whatever the kernel makes of it
};

struct Program {
  std::string path;         ///< the file that exec would start; empty where missing
  std::string interpreter;  ///< what really runs, where `path` is a script
  Followable followable = Followable::yes;
  int error = 0;  ///< errno that exec would give, where it would fail

  [[nodiscard]] const std::string& runs() const noexcept {
    return interpreter.empty() ? path : interpreter;
  }
};

/// Resolves a name as execvp(3) does, by PATH unless it holds a slash, and inspects what it finds.
[[nodiscard]] Program inspect_program(std::string_view name, std::string_view search_path);

/// What keeps Ioweave from following it, as a sentence for the summary; empty for `yes`.
[[nodiscard]] std::string explanation(const Program& program);
/// What can be done about it and by whom; empty where nothing needs to be.
[[nodiscard]] std::string remedy(const Program& program);

/// True where LD_PRELOAD would disturb the program itself (a message of its loader, or a failure to
/// start). Elsewhere it is set even for programs that cannot be followed: their children may be.
[[nodiscard]] bool preload_would_disturb(Followable followable) noexcept;

/// True for a shared object that this machine's loader can load into programs like this command.
[[nodiscard]] bool is_loadable_library(const std::string& path, std::string& why);

}  // namespace ioweave::cli
