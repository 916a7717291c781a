#include "cli/elf_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <elf.h>
#include <link.h>

namespace ioweave::cli {
namespace {

using Header = ElfW(Ehdr);
using ProgramHeader = ElfW(Phdr);
using NoteHeader = ElfW(Nhdr);

constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
constexpr unsigned char kByteOrder =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
constexpr size_t kMostNoteBytes = size_t{64} << 10;
constexpr size_t kMostPathBytes = 4096;
constexpr size_t kMostProgramHeaders = 512;
/// The kernel looks at this much of a script (BINPRM_BUF_SIZE).
constexpr size_t kScriptBytes = 256;

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr uint16_t kMachine = EM_RISCV;
#elif defined(__powerpc64__)
constexpr uint16_t kMachine = EM_PPC64;
#else
#error "name this processor's ELF machine"
#endif

class File {
 public:
  explicit File(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }

  /// Up to `bytes` bytes at `offset`; fewer at the end of the file or on an error.
  [[nodiscard]] std::string read(size_t bytes, uint64_t offset) const {
    std::string data(bytes, '\0');
    size_t filled = 0;
    while (filled < bytes) {
      const ssize_t got =
          pread(fd_, data.data() + filled, bytes - filled, static_cast<off_t>(offset + filled));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      filled += static_cast<size_t>(got);
    }
    data.resize(filled);
    return data;
  }

 private:
  int fd_;
};

/// Copies a structure out of bytes that may be too short for it.
template <typename T>
bool take(std::string_view bytes, size_t offset, T& value) {
  if (bytes.size() < sizeof(T) || offset > bytes.size() - sizeof(T)) return false;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return true;
}

/// Go's linker leaves a note named "Go" with the build id; it survives strip(1).
bool has_go_note(std::string_view notes) {
  size_t at = 0;
  NoteHeader note{};
  while (take(notes, at, note)) {
    const uint64_t name_bytes = (uint64_t{note.n_namesz} + 3) & ~uint64_t{3};
    const uint64_t value_bytes = (uint64_t{note.n_descsz} + 3) & ~uint64_t{3};
    at += sizeof(NoteHeader);
    if (at > notes.size() || name_bytes > notes.size() - at) return false;
    if (notes.substr(at, note.n_namesz) == std::string_view("Go\0\0", 4)) return true;
    if (value_bytes > notes.size() - at - name_bytes) return false;
    at += name_bytes + value_bytes;
  }
  return false;
}

void read_segments(const File& file, const Header& header, ElfFacts& facts) {
  if (header.e_phentsize != sizeof(ProgramHeader)) return;
  const size_t count = std::min<size_t>(header.e_phnum, kMostProgramHeaders);
  const std::string table = file.read(count * sizeof(ProgramHeader), header.e_phoff);
  for (size_t i = 0; i < count; ++i) {
    ProgramHeader segment{};
    if (!take(table, i * sizeof(ProgramHeader), segment)) return;
    if (segment.p_type == PT_INTERP) {
      facts.loader =
          file.read(std::min<size_t>(segment.p_filesz, kMostPathBytes), segment.p_offset);
      facts.loader.resize(std::min(facts.loader.find('\0'), facts.loader.size()));
    } else if (segment.p_type == PT_NOTE) {
      facts.is_go =
          facts.is_go || has_go_note(file.read(std::min<size_t>(segment.p_filesz, kMostNoteBytes),
                                               segment.p_offset));
    }
  }
}

}  // namespace

ElfFacts read_elf_facts(const std::string& path) {
  ElfFacts facts;
  const File file(path);
  if (!file.is_open()) return facts;
  const std::string head = file.read(std::max(kScriptBytes, sizeof(Header)), 0);
  facts.kind = ElfFacts::Kind::other;
  if (head.starts_with("#!")) {
    facts.kind = ElfFacts::Kind::script;
    facts.script_line = head.substr(
        2, head.find('\n') == std::string::npos ? std::string::npos : head.find('\n') - 2);
    return facts;
  }
  if (!head.starts_with(ELFMAG)) return facts;
  facts.kind = ElfFacts::Kind::foreign_elf;
  Header header{};
  if (!take(head, 0, header) || header.e_ident[EI_CLASS] != kClass ||
      header.e_ident[EI_DATA] != kByteOrder || header.e_machine != kMachine) {
    return facts;
  }
  facts.kind = ElfFacts::Kind::elf;
  facts.is_shared = header.e_type == ET_DYN;
  read_segments(file, header, facts);
  facts.is_program = header.e_type == ET_EXEC || !facts.loader.empty();
  return facts;
}

}  // namespace ioweave::cli
