#pragma once

// Finds out whether a program can be observed. LD_PRELOAD works if the dynamic loader of the C
// library starts the program, and the program makes its system calls through the C library. The
// file tells this before it runs: this follows scripts to their interpreter and reads ELF headers.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ioweave::cli {

enum class Followable : uint8_t {
  yes,
  static_program,   ///< it has no dynamic loader
  go_program,       ///< it makes its system calls itself
  setuid,           ///< it gains rights, so the loader ignores LD_PRELOAD
  capabilities,     ///< the same, by file capabilities
  other_class,      ///< it is 32-bit, or for another processor
  other_c_library,  ///< musl or another loader that cannot load a glibc library
  not_executable,
  missing,
  unknown,  ///< neither a script nor an ELF program; the kernel decides what it is
};

struct Program {
  std::string path;         ///< the file that exec would start; empty if missing
  std::string interpreter;  ///< the program that really runs if `path` is a script
  Followable followable = Followable::yes;
  int error = 0;  ///< the errno of exec if it would fail

  [[nodiscard]] const std::string& runs() const noexcept {
    return interpreter.empty() ? path : interpreter;
  }
};

/// Resolves a name as execvp(3) does, by PATH unless it holds a slash, and inspects what it finds.
[[nodiscard]] Program inspect_program(std::string_view name, std::string_view search_path);

/// The same of a file: a name without a slash is one of the current folder.
[[nodiscard]] Program inspect_file(const std::string& path);

/// Says in a sentence why Ioweave cannot observe the program; empty for `yes`.
[[nodiscard]] std::string explanation(const Program& program);
/// Says what can be done about it and by whom; empty if nothing needs to be done.
[[nodiscard]] std::string remedy(const Program& program);

/// Returns true if LD_PRELOAD would disturb the program itself (a message of its loader, or a
/// failure to start). It is set for all other programs, because children may be observed even if
/// the program cannot.
[[nodiscard]] bool preload_would_disturb(Followable followable) noexcept;

/// Returns true for a shared object that this machine's loader can load into programs like this
/// one.
[[nodiscard]] bool is_loadable_library(const std::string& path, std::string& why);

}  // namespace ioweave::cli
