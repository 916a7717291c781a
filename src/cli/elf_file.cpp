#include "cli/elf_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <elf.h>
#include <link.h>

namespace ioweave::cli {
namespace {

using Header = ElfW(Ehdr);
using ProgramHeader = ElfW(Phdr);
using NoteHeader = ElfW(Nhdr);
using DynamicEntry = ElfW(Dyn);
using Symbol = ElfW(Sym);

constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
constexpr unsigned char kByteOrder =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
constexpr size_t kMostNoteBytes = size_t{64} << 10;
constexpr size_t kMostPathBytes = 4096;
constexpr uint64_t kMostCodeBytes = uint64_t{256} << 20;
constexpr size_t kMostProgramHeaders = 512;
/// How much of a script the kernel reads (BINPRM_BUF_SIZE).
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

  /// Reads up to `bytes` bytes at `offset`; fewer at the end of the file or on an error.
  [[nodiscard]] std::string read(size_t bytes, uint64_t offset) const {
    bytes = std::min(bytes, static_cast<size_t>(size()));  // of what a header claims
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
  [[nodiscard]] uint64_t size() const noexcept {
    struct stat status {};
    return fstat(fd_, &status) == 0 && status.st_size > 0 ? static_cast<uint64_t>(status.st_size)
                                                          : 0;
  }

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

std::vector<ProgramHeader> segments_of(const File& file, const Header& header) {
  std::vector<ProgramHeader> segments;
  if (header.e_phentsize != sizeof(ProgramHeader)) return segments;
  const size_t count = std::min<size_t>(header.e_phnum, kMostProgramHeaders);
  const std::string table = file.read(count * sizeof(ProgramHeader), header.e_phoff);
  ProgramHeader segment{};
  while (segments.size() < count && take(table, segments.size() * sizeof segment, segment)) {
    segments.push_back(segment);
  }
  return segments;
}

void read_segments(const File& file, const Header& header, ElfFacts& facts) {
  for (const ProgramHeader& segment : segments_of(file, header)) {
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

/// Returns true if `head`, the file's first bytes, is the header of an ELF file for this machine.
bool take_header(std::string_view head, Header& header) {
  return head.starts_with(ELFMAG) && take(head, 0, header) && header.e_ident[EI_CLASS] == kClass &&
         header.e_ident[EI_DATA] == kByteOrder && header.e_machine == kMachine;
}

/// The dynamic section of a file and the tables that it points to, by address.
class DynamicSection {
 public:
  DynamicSection(const File& file, const Header& header)
      : file_(file), segments_(segments_of(file, header)) {
    for (const ProgramHeader& segment : segments_) {
      if (segment.p_type != PT_DYNAMIC) continue;
      const std::string table =
          file.read(std::min<size_t>(segment.p_filesz, kMostDynamicBytes), segment.p_offset);
      DynamicEntry entry{};
      for (size_t at = 0; take(table, at, entry) && entry.d_tag != DT_NULL; at += sizeof entry) {
        entries_.push_back(entry);
      }
      break;
    }
    strings_ = at(value(DT_STRTAB), std::min<uint64_t>(value(DT_STRSZ), kMostTableBytes));
  }

  /// Returns the value of the first entry with this tag, or 0.
  [[nodiscard]] uint64_t value(int64_t tag) const {
    const auto found = std::ranges::find(entries_, tag, &DynamicEntry::d_tag);
    return found != entries_.end() ? found->d_un.d_val : 0;
  }
  [[nodiscard]] std::string text(int64_t tag) const {
    return std::string(string(value(tag)));  // the table's first string is the empty one
  }
  [[nodiscard]] std::vector<std::string> texts(int64_t tag) const {
    std::vector<std::string> found;
    for (const DynamicEntry& entry : entries_) {
      if (entry.d_tag == tag) found.emplace_back(string(entry.d_un.d_val));
    }
    return found;
  }

  /// Returns the names of the symbols that the file itself defines, or of those that it does not.
  [[nodiscard]] std::vector<std::string> symbol_names(bool defined) const {
    std::vector<std::string> found;
    const uint64_t bytes = std::min(symbols(), kMostTableBytes / sizeof(Symbol)) * sizeof(Symbol);
    const std::string table = at(value(DT_SYMTAB), bytes);
    Symbol symbol{};
    for (size_t at = 0; take(table, at, symbol); at += sizeof symbol) {
      const std::string_view name = string(symbol.st_name);
      if ((symbol.st_shndx != SHN_UNDEF) == defined && !name.empty()) found.emplace_back(name);
    }
    return found;
  }

 private:
  /// Reads bytes by the address that they will have; fewer, or none, if the file holds no more.
  [[nodiscard]] std::string at(uint64_t address, uint64_t bytes) const {
    for (const ProgramHeader& segment : segments_) {
      const uint64_t begin = segment.p_vaddr;
      if (segment.p_type != PT_LOAD || address < begin || address - begin >= segment.p_filesz) {
        continue;
      }
      return file_.read(std::min<uint64_t>(bytes, segment.p_filesz - (address - begin)),
                        segment.p_offset + (address - begin));
    }
    return {};
  }
  [[nodiscard]] std::string_view string(uint64_t offset) const {
    if (offset >= strings_.size()) return {};
    const std::string_view rest = std::string_view(strings_).substr(offset);
    return rest.substr(0, rest.find('\0'));
  }

  /// Returns the number of symbols, which only the hash tables tell.
  [[nodiscard]] uint64_t symbols() const {
    if (const uint64_t table = value(DT_HASH); table != 0) {
      uint32_t chains = 0;  // one for each symbol
      return take(at(table, 8), 4, chains) ? chains : 0;
    }
    const uint64_t table = value(DT_GNU_HASH);
    std::array<uint32_t, 4> head{};  // buckets, first symbol in them, words of the filter, shift
    if (table == 0 || !take(at(table, sizeof head), 0, head)) return 0;
    const uint64_t buckets_at = table + sizeof head + head[2] * uint64_t{sizeof(void*)};
    const std::string buckets =
        at(buckets_at, std::min<uint64_t>(head[0] * uint64_t{4}, kMostTableBytes));
    uint32_t last = 0;
    uint32_t bucket = 0;
    for (size_t i = 0; take(buckets, i, bucket); i += sizeof bucket) last = std::max(last, bucket);
    if (last < head[1]) {  // nothing is defined here, so nothing is in the buckets
      // GNU ld then writes 1 there for any number; its table of strings follows the symbols.
      const uint64_t begin = value(DT_SYMTAB);
      const uint64_t end = value(DT_STRTAB);
      return head[1] <= 1 && end > begin ? (end - begin) / sizeof(Symbol) : head[1];
    }
    const std::string chain =
        at(buckets_at + head[0] * uint64_t{4} + (last - head[1]) * uint64_t{4}, kMostChainBytes);
    uint32_t hash = 0;
    for (size_t i = 0; take(chain, i, hash); i += sizeof hash) {
      ++last;
      if ((hash & 1) != 0) break;  // the end of the last chain
    }
    return last;
  }

  static constexpr size_t kMostDynamicBytes = size_t{64} << 10;
  static constexpr uint64_t kMostTableBytes = uint64_t{64} << 20;
  static constexpr uint64_t kMostChainBytes = uint64_t{64} << 10;

  const File& file_;
  std::vector<ProgramHeader> segments_;
  std::vector<DynamicEntry> entries_;
  std::string strings_;
};

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
  if (!take_header(head, header)) return facts;
  facts.kind = ElfFacts::Kind::elf;
  facts.is_shared = header.e_type == ET_DYN;
  read_segments(file, header, facts);
  facts.is_program = header.e_type == ET_EXEC || !facts.loader.empty();
  return facts;
}

ElfDynamic read_elf_dynamic(const std::string& path, Imports imports) {
  ElfDynamic dynamic;
  const File file(path);
  Header header{};
  if (!file.is_open() || !take_header(file.read(sizeof header, 0), header)) return dynamic;
  const DynamicSection section(file, header);
  dynamic.soname = section.text(DT_SONAME);
  dynamic.rpath = section.text(DT_RPATH);
  dynamic.runpath = section.text(DT_RUNPATH);
  dynamic.needed = section.texts(DT_NEEDED);
  if (imports == Imports::read) dynamic.imports = section.symbol_names(false);
  return dynamic;
}

std::vector<std::string> read_elf_exports(const std::string& path) {
  const File file(path);
  Header header{};
  if (!file.is_open() || !take_header(file.read(sizeof header, 0), header)) return {};
  return DynamicSection(file, header).symbol_names(true);
}

std::vector<std::string> read_elf_code(const std::string& path) {
  const File file(path);
  Header header{};
  std::vector<std::string> code;
  if (!file.is_open() || !take_header(file.read(sizeof header, 0), header)) return code;
  for (const ProgramHeader& segment : segments_of(file, header)) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    code.push_back(file.read(std::min(segment.p_filesz, kMostCodeBytes), segment.p_offset));
  }
  return code;
}

}  // namespace ioweave::cli
