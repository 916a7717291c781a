#pragma once

// The libraries that the dynamic loader would load for a program, in the order in which it looks
// symbols up, found out from the files: as ldd(1), which runs the loader and, so, code of others.
// A library that the program opens by itself is not among them.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/elf_file.hpp"

namespace ioweave::cli {

struct LoadedFile {
  std::string name;  ///< as the program, LD_PRELOAD or DT_NEEDED has it
  std::string path;  ///< empty: not found
  ElfDynamic dynamic;
  size_t loaded_by = 0;  ///< index in the scope; of the program, and what is preloaded, 0
  std::vector<std::string> raw_calls = {};  ///< raw_calls_of() it; lookup_scope() leaves it empty

  /// The name without folders.
  [[nodiscard]] std::string_view base() const noexcept {
    return std::string_view(name).substr(name.rfind('/') + 1);
  }
  [[nodiscard]] bool imports(std::string_view symbol) const noexcept;
  /// Whether it is a part of the C library, which makes the calls for others, or of Ioweave.
  [[nodiscard]] bool is_c_library_or_ours() const noexcept;
};

/// Variables of the program's environment that the loader heeds.
struct LoaderVariables {
  std::string preload = {};       ///< LD_PRELOAD
  std::string library_path = {};  ///< LD_LIBRARY_PATH
  std::string cache = "/etc/ld.so.cache";

  [[nodiscard]] static LoaderVariables of_this_process();
};

/// The program first. Folders for certain processors (glibc-hwcaps) are not looked into.
[[nodiscard]] std::vector<LoadedFile> lookup_scope(const std::string& program,
                                                   const LoaderVariables& variables,
                                                   Imports imports = Imports::read);

/// The scope of the program in a file, in the environment of this process. Nothing if no library
/// can be loaded into it, because it is missing, static, a Go program or setuid.
[[nodiscard]] std::optional<std::vector<LoadedFile>> scope_of_program(const std::string& path);

}  // namespace ioweave::cli
