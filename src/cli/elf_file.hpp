#pragma once

// Reads a program's first bytes and ELF headers. The file may be damaged or hostile, so every
// offset and length is checked against what was read.

#include <cstdint>
#include <string>
#include <vector>

namespace ioweave::cli {

struct ElfFacts {
  enum class Kind : uint8_t { unreadable, other, script, elf, foreign_elf };

  Kind kind = Kind::unreadable;  ///< foreign_elf: another class, byte order or machine
  std::string script_line;       ///< the line behind "#!" of a script
  std::string loader;            ///< PT_INTERP; empty in a static program
  bool is_go = false;
  bool is_program = false;  ///< ET_EXEC, or it names a loader: neither library nor object file
  bool is_shared = false;   ///< ET_DYN: a library or a position-independent program
};

[[nodiscard]] ElfFacts read_elf_facts(const std::string& path);

/// What a program or library tells the dynamic loader.
struct ElfDynamic {
  std::string soname;
  std::string rpath;                ///< DT_RPATH and DT_RUNPATH as they are written, with "$ORIGIN"
  std::string runpath;              ///< if there is one, the loader ignores rpath
  std::vector<std::string> needed;  ///< DT_NEEDED, in order
  std::vector<std::string> imports;  ///< symbols that others define
};

/// Reading the imports takes several times as long as all else.
enum class Imports : uint8_t { leave_out, read };

/// Returns an empty result if the file is not for this machine, or has no dynamic section.
[[nodiscard]] ElfDynamic read_elf_dynamic(const std::string& path, Imports imports = Imports::read);

/// Returns the symbols that a library defines for others; none where it is no library of this
/// machine.
[[nodiscard]] std::vector<std::string> read_elf_exports(const std::string& path);

/// Returns the machine code of a program or library of this machine, segment by segment.
[[nodiscard]] std::vector<std::string> read_elf_code(const std::string& path);

}  // namespace ioweave::cli
