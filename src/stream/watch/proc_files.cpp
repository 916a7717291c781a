#include "stream/watch/proc_files.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <dirent.h>

#include "base/file_system_kind.hpp"
#include "base/page_bytes.hpp"

namespace ioweave::stream {
namespace {

constexpr size_t kTextBytes = 4096;
constexpr size_t kMostMapsBytes = 256 << 10;
constexpr char kUninterruptible = 'D';
constexpr char kRunning = 'R';
constexpr const char* kDigits = "0123456789";
constexpr unsigned kMostThreads = 16;  // of a process that are read

std::string proc_path(pid_t process, const char* rest) {
  return "/proc/" + std::to_string(process) + "/" + rest;
}

/// Reads the first bytes of an open file of /proc, null-terminated; empty if that fails.
std::string_view text_of(int fd, char (&buffer)[kTextBytes]) {
  const ssize_t length = pread(fd, buffer, kTextBytes - 1, 0);
  if (length <= 0) return {};
  buffer[length] = '\0';
  return {buffer, static_cast<size_t>(length)};
}

/// Returns what a link of /proc points to, or an empty path.
std::string target_of(const std::string& link) {
  std::string path(kTextBytes, '\0');
  const ssize_t length = readlink(link.c_str(), path.data(), path.size());
  path.resize(static_cast<size_t>(std::max<ssize_t>(0, length)));
  return path;
}

struct FileStatus {
  mode_t mode = 0;
  FileId id;
  uint64_t bytes = 0;
  uint32_t links = 0;
};

/// Reads the attributes as they are known here: it does not ask a server, and NFS writes nothing
/// back for the answer.
std::optional<FileStatus> status_of(int directory, const char* path) {
  struct statx status {};
  if (statx(directory, path, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO | STATX_SIZE | STATX_NLINK,
            &status) != 0) {
    return std::nullopt;
  }
  const FileId id{makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino};
  return FileStatus{status.stx_mode, id, status.stx_size, status.stx_nlink};
}

/// Returns the number behind `label` in a text of "label: number" lines.
std::optional<uint64_t> number_after(std::string_view text, std::string_view label, int base) {
  size_t at = text.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  at = text.find_first_not_of(" \t", at + label.size());
  if (at == std::string_view::npos) return std::nullopt;
  uint64_t number = 0;
  const auto parsed = std::from_chars(text.data() + at, text.data() + text.size(), number, base);
  return parsed.ec == std::errc{} ? std::optional(number) : std::nullopt;
}

/// Calls visit(directory, name) for each entry of a directory whose name is a number. Paths that
/// begin at an open directory of /proc take the kernel less time.
template <class Visit>
void for_each_number(const std::string& path, Visit visit) {
  DIR* const directory = opendir(path.c_str());
  if (directory == nullptr) return;
  while (const dirent* const entry = readdir(directory)) {
    int number = 0;
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    const auto parsed = std::from_chars(entry->d_name, end, number);
    if (parsed.ec == std::errc{} && parsed.ptr == end) visit(dirfd(directory), entry->d_name);
  }
  closedir(directory);
}

void add_children(pid_t process, std::vector<pid_t>& family) {
  for_each_number(proc_path(process, "task"), [&](int tasks, const char* thread) {
    char buffer[kTextBytes];
    const std::string children = std::string(thread) + "/children";
    const Descriptor list(openat(tasks, children.c_str(), O_RDONLY | O_CLOEXEC));
    const std::string_view text = text_of(list.get(), buffer);
    for (size_t at = 0; at < text.size();) {
      pid_t child = 0;
      const auto parsed = std::from_chars(text.data() + at, text.data() + text.size(), child);
      // A space follows each number, so a number at the end of the buffer was cut.
      if (parsed.ec != std::errc{} || parsed.ptr == text.data() + text.size()) break;
      family.push_back(child);
      at = static_cast<size_t>(parsed.ptr - text.data()) + 1;
    }
  });
}

/// The facts of /proc/.../stat about a thread, or about a process and its first thread.
struct ThreadState {
  char state = '\0';
  uint64_t threads = 0;
};

ThreadState state_of(int directory, const std::string& path) {
  char buffer[kTextBytes];
  const Descriptor file(openat(directory, path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string_view text = text_of(file.get(), buffer);
  // "pid (name) state ...": the name may hold anything.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= text.size()) return {};
  ThreadState found{text[name_end + 2], 0};
  constexpr int kFieldsBetween = 17;  // the state is the 3rd, the threads the 20th
  size_t at = name_end + 2;
  for (int i = 0; i < kFieldsBetween && at != std::string_view::npos; ++i) {
    at = text.find(' ', at + 1);
  }
  if (at != std::string_view::npos) {
    std::from_chars(text.data() + at + 1, text.data() + text.size(), found.threads);
  }
  return found;
}

/// Opens the file at a path if it is the expected one. It is checked before it is opened, since
/// opening something else that is there by now, a pipe or a device, could be noticed.
int open_same(const std::string& path, const FileId& id) {
  const Descriptor found(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!found.is_open()) return -errno;
  struct stat status {};
  const bool same =
      fstat(found.get(), &status) == 0 && S_ISREG(status.st_mode) && FileId::of(status) == id;
  if (!same || is_memory_file_system(found.get())) return -ESTALE;
  const std::string again = proc_path(getpid(), ("fd/" + std::to_string(found.get())).c_str());
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  int fd = open(again.c_str(), kFlags | O_NOATIME);
  if (fd < 0 && errno == EPERM) fd = open(again.c_str(), kFlags);
  return fd < 0 ? -errno : fd;
}

/// Removes a number, and the character behind it, from the beginning of a text.
template <class Number>
bool take_number(std::string_view& text, Number& number, int base) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (parsed.ec != std::errc{} || parsed.ptr == text.data() + text.size()) return false;
  text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()) + 1);
  return true;
}

bool is_executed(std::string_view line) {
  const size_t modes = line.find(' ');
  return modes != std::string_view::npos && line.substr(modes).starts_with(" r-x");
}

/// One line of /proc/PROCESS/maps: "from-to rwxp offset major:minor inode   path".
std::optional<Mapping> mapping_of(std::string_view line, uint64_t least_bytes) {
  constexpr size_t kModes = 5;
  uint64_t end = 0;
  Mapping mapping;
  if (!take_number(line, mapping.address, 16) || !take_number(line, end, 16) ||
      end - mapping.address < least_bytes || line.size() < kModes) {
    return std::nullopt;
  }
  const bool is_read = line[0] == 'r' && line[2] != 'x';
  line.remove_prefix(kModes);
  unsigned major = 0;
  unsigned minor = 0;
  if (!is_read || !take_number(line, mapping.file_offset, 16) || !take_number(line, major, 16) ||
      !take_number(line, minor, 16) || !take_number(line, mapping.id.inode, 10)) {
    return std::nullopt;
  }
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  // A name with a backslash may be one with a newline, which the kernel escapes.
  const bool is_named = line.starts_with('/') && !line.ends_with(" (deleted)") &&
                        line.find('\\') == std::string_view::npos;
  if (!is_named) return std::nullopt;
  mapping.bytes = end - mapping.address;
  mapping.id.device = makedev(major, minor);
  mapping.path = line;
  return mapping;
}

/// Returns the path where the file of a mapping may be. For a process that has changed its root but
/// not its name space, /proc shows paths of this process.
std::array<std::string, 2> paths_of(pid_t process, const std::string& path) {
  return {proc_path(process, "root") + path, path};
}

/// Returns false if its file is not found again.
bool find_bytes(pid_t process, Mapping& mapping) {
  for (const std::string& path : paths_of(process, mapping.path)) {
    const std::optional<FileStatus> status = status_of(AT_FDCWD, path.c_str());
    if (status && S_ISREG(status->mode) && status->id == mapping.id) {
      mapping.file_bytes = status->bytes;
      return true;
    }
  }
  return false;
}

}  // namespace

bool has_one_thread(pid_t process) {
  return state_of(AT_FDCWD, proc_path(process, "stat")).threads == 1;
}

bool waits_for_storage(pid_t process) {
  const ThreadState first = state_of(AT_FDCWD, proc_path(process, "stat"));
  if (first.threads <= 1 || first.state == kUninterruptible) return first.state == kUninterruptible;
  bool waits = false;
  unsigned looks = 0;
  for_each_number(proc_path(process, "task"), [&](int tasks, const char* thread) {
    if (waits || ++looks > kMostThreads) return;
    waits = state_of(tasks, std::string(thread) + "/stat").state == kUninterruptible;
  });
  return waits;
}

bool is_running(pid_t process) {
  return state_of(AT_FDCWD, proc_path(process, "stat")).state == kRunning;
}

std::vector<pid_t> family_of(pid_t root) {
  std::vector<pid_t> family{root};
  for (size_t i = 0; i < family.size(); ++i) add_children(family[i], family);
  return family;
}

OpenFiles open_files_of(pid_t process, uint64_t least_bytes) {
  OpenFiles found;
  for_each_number(proc_path(process, "fd"), [&](int descriptors, const char* link) {
    // Most open files are pipes, sockets and the like, which the name alone shows.
    char target[64];
    const ssize_t length = readlinkat(descriptors, link, target, sizeof target);
    const std::string_view name(target, static_cast<size_t>(std::max<ssize_t>(0, length)));
    found.hears_of_opens =
        found.hears_of_opens || name == "anon_inode:inotify" || name == "anon_inode:[fanotify]";
    found.has_io_uring = found.has_io_uring || name == "anon_inode:[io_uring]";
    if (!name.starts_with('/')) return;
    // The mode of the link itself shows how the file is open.
    struct stat opened {};
    if (fstatat(descriptors, link, &opened, AT_SYMLINK_NOFOLLOW) != 0) return;
    const bool is_read = (opened.st_mode & S_IRUSR) != 0;
    const bool is_written = (opened.st_mode & S_IWUSR) != 0;
    if (!is_read && !is_written) return;
    const std::optional<FileStatus> status = status_of(descriptors, link);
    if (!status || !S_ISREG(status->mode) || status->bytes < least_bytes) return;
    found.files.push_back({std::atoi(link), status->id, status->bytes, is_read, is_written});
  });
  return found;
}

Mappings mappings_of(pid_t process, uint64_t least_bytes) {
  Mappings found;
  const Descriptor maps(open(proc_path(process, "maps").c_str(), O_RDONLY | O_CLOEXEC));
  // Kept from scan to scan and never cleared, since most processes fill only a few pages of it.
  thread_local const auto text = std::make_unique_for_overwrite<char[]>(kMostMapsBytes);
  size_t length = 0;
  while (length < kMostMapsBytes) {
    const ssize_t got = read(maps.get(), text.get() + length, kMostMapsBytes - length);
    if (got <= 0) break;
    length += static_cast<size_t>(got);
  }
  if (length == kMostMapsBytes) return found;
  std::string_view rest(text.get(), length);
  std::set<std::string_view> programs;
  for (size_t end = 0; (end = rest.find('\n')) != std::string_view::npos;) {
    const std::string_view line = rest.substr(0, end);
    if (is_executed(line)) programs.insert(line.substr(std::min(line.find('/'), line.size())));
    if (auto mapping = mapping_of(line, least_bytes)) found.files.push_back(*std::move(mapping));
    found.has_aio = found.has_aio || line.ends_with(" /[aio] (deleted)");
    rest.remove_prefix(end + 1);
  }
  std::erase_if(found.files, [&](Mapping& mapping) {
    return programs.contains(mapping.path) || !find_bytes(process, mapping) ||
           mapping.file_bytes <= mapping.file_offset;
  });
  return found;
}

ProcFile ProcFile::of_position(pid_t process, int fd) {
  const std::string rest = "fdinfo/" + std::to_string(fd);
  return ProcFile(open(proc_path(process, rest.c_str()).c_str(), O_RDONLY | O_CLOEXEC));
}

ProcFile ProcFile::of_totals(pid_t process) {
  return ProcFile(open(proc_path(process, "io").c_str(), O_RDONLY | O_CLOEXEC));
}

ProcFile ProcFile::of_runs(pid_t process) {
  return ProcFile(open(proc_path(process, "schedstat").c_str(), O_RDONLY | O_CLOEXEC));
}

ProcFile ProcFile::of_pages(pid_t process) {
  return ProcFile(open(proc_path(process, "pagemap").c_str(), O_RDONLY | O_CLOEXEC));
}

ProcFile ProcFile::of_requests(dev_t device) {
  const std::string path = "/sys/dev/block/" + std::to_string(major(device)) + ":" +
                           std::to_string(minor(device)) + "/inflight";
  return ProcFile(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

std::optional<Position> ProcFile::position() const {
  char buffer[kTextBytes];
  const std::string_view text = text_of(file_.get(), buffer);
  const std::optional<uint64_t> offset = number_after(text, "pos:", 10);
  const std::optional<uint64_t> flags = number_after(text, "flags:", 8);
  if (!offset || !flags) return std::nullopt;
  const auto mode = static_cast<int>(*flags);
  constexpr int kWaits = O_DIRECT | O_SYNC | O_DSYNC;
  return Position{*offset, (mode & O_ACCMODE) != O_WRONLY && (mode & (O_DIRECT | O_PATH)) == 0,
                  (mode & O_ACCMODE) != O_RDONLY && (mode & (kWaits | O_PATH)) == 0,
                  text.find("LEASE") != std::string_view::npos,
                  static_cast<ino_t>(number_after(text, "ino:", 10).value_or(0))};
}

std::optional<IoTotals> ProcFile::totals() const {
  char buffer[kTextBytes];
  const std::string_view text = text_of(file_.get(), buffer);
  const std::optional<uint64_t> read = number_after(text, "rchar:", 10);
  const std::optional<uint64_t> calls = number_after(text, "syscr:", 10);
  const std::optional<uint64_t> written = number_after(text, "wchar:", 10);
  return read && calls && written ? std::optional(IoTotals{*read, *calls, *written}) : std::nullopt;
}

std::string ProcFile::runs() const {
  char buffer[kTextBytes];
  return std::string(text_of(file_.get(), buffer));
}

std::optional<uint64_t> ProcFile::requests() const {
  char buffer[kTextBytes];
  const std::string_view text = text_of(file_.get(), buffer);
  if (text.empty()) return std::nullopt;
  uint64_t sum = 0;  // of reads and writes
  for (size_t at = text.find_first_of(kDigits); at != std::string_view::npos;) {
    uint64_t number = 0;
    const auto parsed = std::from_chars(text.data() + at, text.data() + text.size(), number);
    sum += number;
    at = text.find_first_of(kDigits, static_cast<size_t>(parsed.ptr - text.data()));
  }
  return sum;
}

std::optional<uint64_t> ProcFile::touched_bytes(uint64_t address, uint64_t most_bytes) const {
  const uint64_t page = page_bytes();
  constexpr uint64_t kThere = 1ull << 63 | 1ull << 61;  // present, and of a file
  uint64_t entries[512];
  uint64_t touched = 0;
  uint64_t at_once = 1;  // most looks find that nothing has moved
  while (touched < most_bytes) {
    const uint64_t wanted = std::min(at_once, (most_bytes - touched) / page);
    at_once = std::size(entries);
    const auto place = static_cast<off_t>((address + touched) / page * sizeof entries[0]);
    const ssize_t got = pread(file_.get(), entries, wanted * sizeof entries[0], place);
    if (got <= 0) return touched > 0 ? std::optional(touched) : std::nullopt;
    const uint64_t* const first = entries;
    const uint64_t* const end = first + static_cast<size_t>(got) / sizeof entries[0];
    const uint64_t* const hole =
        std::find_if(first, end, [](uint64_t entry) { return (entry & kThere) != kThere; });
    touched += static_cast<uint64_t>(hole - first) * page;
    if (hole != end) break;
  }
  return touched;
}

std::string path_of(pid_t process, int fd) {
  return target_of(proc_path(process, "fd/") + std::to_string(fd));
}

std::string program_of(pid_t process) {
  return target_of(proc_path(process, "exe"));
}

std::optional<unsigned long> file_system_of(pid_t process, int fd) {
  const std::string link = proc_path(process, "fd/") + std::to_string(fd);
  struct statfs status {};
  if (statfs(link.c_str(), &status) != 0) return std::nullopt;
  return static_cast<unsigned long>(status.f_type);
}

std::optional<NamedBytes> bytes_of(pid_t process, const OpenFile& file) {
  const std::string link = proc_path(process, "fd/") + std::to_string(file.fd);
  const std::optional<FileStatus> status = status_of(AT_FDCWD, link.c_str());
  if (!status || !S_ISREG(status->mode) || status->id != file.id) {
    return std::nullopt;
  }
  return NamedBytes{status->bytes, status->links != 0};
}

int open_again(pid_t process, const OpenFile& file) {
  return open_same(proc_path(process, "fd/") + std::to_string(file.fd), file.id);
}

int open_again(pid_t process, const Mapping& mapping) {
  int fd = -ENOENT;
  for (const std::string& path : paths_of(process, mapping.path)) {
    fd = open_same(path, mapping.id);
    if (fd >= 0) break;
  }
  return fd;
}

}  // namespace ioweave::stream
