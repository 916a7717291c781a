#pragma once

// What a program's first bytes and ELF headers say. The file may be damaged or hostile: every
// offset and length is checked against what was read.

#include <cstdint>
#include <string>
#include <vector>

namespace ioweave::cli {

struct ElfFacts {
  enum class Kind : uint8_t { unreadable, other, script, elf, foreign_elf };

  Kind kind = Kind::unreadable;  ///< foreign_elf: another class, byte order or machine
  std::string script_line;       ///< of a script: the line behind "#!"
  std::string loader;            ///< PT_INTERP, empty in a static program
  bool is_go = false;
  bool is_program = false;  ///< ET_EXEC, or names a loader: neither library nor object file
  bool is_shared = false;   ///< ET_DYN: a library or a position-independent program
};

[[nodiscard]] ElfFacts read_elf_facts(const std::string& path);

/// What a program or library tells the dynamic loader.
struct ElfDynamic {
  std::string soname;
  std::string rpath;    ///< DT_RPATH and DT_RUNPATH as they are written, "$ORIGIN" and all
  std::string runpath;  ///< where there is one, the loader ignores rpath
  std::vector<std::string> needed;   ///< DT_NEEDED, in order
  std::vector<std::string> imports;  ///< symbols that others define
};

/// Empty where the file is not of this machine, or has nothing of the kind.
[[nodiscard]] ElfDynamic read_elf_dynamic(const std::string& path);

}  // namespace ioweave::cli
