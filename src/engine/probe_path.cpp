#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <dirent.h>

#include "engine/prefetch.hpp"
#include "engine/probe_parts.hpp"
#include "engine/raw_syscall.hpp"
#include "engine/system_facts.hpp"

// What a path can do. An existing file is only read. In a directory a file is made, unlinked at
// once, filled with 64 KiB and read; where none can be made, as in a read-only data set, a file
// that lies there is read. Each engine then reads through the path's own file system; IOPOLL in
// particular is set up anywhere and fails only at the first read.

namespace ioweave::engine {
namespace {

constexpr size_t kProbeBytes = 64 << 10;
/// Alignments that O_DIRECT is tried with where statx(2) does not tell.
constexpr std::array<uint32_t, 4> kTrials{512, 1024, 2048, 4096};
/// Memory aligned for every device there is.
constexpr size_t kMemoryAlignment = 4096;

struct Free {
  void operator()(void* memory) const noexcept { std::free(memory); }
};
using Memory = std::unique_ptr<char, Free>;

Memory probe_memory() {
  return Memory(static_cast<char*>(std::aligned_alloc(kMemoryAlignment, 2 * kProbeBytes)));
}

class File {
 public:
  explicit File(int fd) noexcept : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) raw_syscall(SYS_close, fd_);
  }
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool open() const noexcept { return fd_ >= 0; }

 private:
  int fd_;
};

int open_raw(const char* path, int flags, mode_t mode = 0) noexcept {
  return static_cast<int>(raw_syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode));
}

/// Another open file description of the same file, with flags of its own; -errno in fd().
File reopen(int fd, int flags) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return File(open_raw(path, flags));
}

Finding bad_path(const std::string& path, int64_t error, std::string cause, std::string remedy) {
  return {path, Usable::no, static_cast<int>(-error), {}, std::move(cause), std::move(remedy)};
}

Finding explain_path(const std::string& path, int64_t error) {
  const std::string words = error_words(error);
  switch (-error) {
    case ENOENT:
    case ENOTDIR:
      return bad_path(path, error, "there is no such file or directory: " + words,
                      "check the spelling, or create it");
    case EACCES:
    case EPERM:
      return bad_path(path, error, "you may not read it: " + words,
                      "its owner can grant access (chmod, setfacl)");
    case EIO:
    case ESTALE:
      return bad_path(path, error, "the storage behind it fails: " + words,
                      "the administrator finds the cause in the kernel's log (dmesg)");
    default:
      return bad_path(path, error, "it cannot be used: " + words,
                      "name a regular file or a directory on the storage in question");
  }
}

// ---- What it lies on ---------------------------------------------------------------------------

struct KnownFileSystem {
  unsigned magic;
  const char* name;
};
constexpr KnownFileSystem kFileSystems[] = {
    {EXT4_SUPER_MAGIC, "ext4"},   {XFS_SUPER_MAGIC, "xfs"},
    {BTRFS_SUPER_MAGIC, "btrfs"}, {F2FS_SUPER_MAGIC, "f2fs"},
    {0x2fc12fc1, "zfs"},          {TMPFS_MAGIC, "tmpfs"},
    {RAMFS_MAGIC, "ramfs"},       {HUGETLBFS_MAGIC, "hugetlbfs"},
    {NFS_SUPER_MAGIC, "nfs"},     {CIFS_SUPER_MAGIC, "cifs"},
    {SMB2_SUPER_MAGIC, "smb2"},   {FUSE_SUPER_MAGIC, "fuse"},
    {CEPH_SUPER_MAGIC, "ceph"},   {0x0bd00bd0, "lustre"},
    {0x47504653, "gpfs"},         {0x19830326, "beegfs"},
    {V9FS_MAGIC, "9p"},           {OVERLAYFS_SUPER_MAGIC, "overlayfs"},
    {MSDOS_SUPER_MAGIC, "vfat"},  {PROC_SUPER_MAGIC, "proc"},
    {SYSFS_MAGIC, "sysfs"},       {BDEVFS_MAGIC, "block device"},
};

bool lives_in_memory(unsigned magic) noexcept {
  return magic == TMPFS_MAGIC || magic == RAMFS_MAGIC || magic == HUGETLBFS_MAGIC;
}

unsigned file_system_magic(int fd) noexcept {
  struct statfs status {};
  return ::fstatfs(fd, &status) == 0 ? static_cast<unsigned>(status.f_type) : 0;
}

std::string file_system_name(unsigned magic) {
  for (const KnownFileSystem& known : kFileSystems) {
    if (known.magic == magic) return known.name;
  }
  char text[24];
  std::snprintf(text, sizeof text, "type 0x%x", magic);
  return text;
}

dev_t device_of(int fd) noexcept {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return 0;
  return S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
}

// ---- The file to probe with --------------------------------------------------------------------

/// A file in `directory` that nobody else can see; -errno in fd().
File make_hidden_file(const std::string& directory) {
  const int fd = open_raw(directory.c_str(), O_TMPFILE | O_RDWR, 0600);
  if (fd != -EOPNOTSUPP && fd != -EISDIR && fd != -EINVAL) return File(fd);
  std::string name = directory + "/.ioweave-probe-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named < 0) return File(-errno);
  ::unlink(name.c_str());
  return File(named);
}

int64_t fill(int fd) {
  const Memory memory = probe_memory();
  if (memory == nullptr) return -ENOMEM;
  std::memset(memory.get(), 'w', kProbeBytes);
  const long written = raw_syscall(SYS_pwrite64, fd, memory.get(), kProbeBytes, 0);
  if (written < 0) return written;
  if (written != static_cast<long>(kProbeBytes)) return -ENOSPC;
  return raw_syscall(SYS_fdatasync, fd);
}

/// A file that can be read, or -errno in fd().
struct Chosen {
  File file;
  std::string name;  ///< of one found in a directory; empty: it was made there, or named
  int error = 0;     ///< why none could be made there
};

/// Not so where the kernel makes up what is read: a read may do anything there.
bool holds_files(int directory) noexcept {
  const unsigned magic = file_system_magic(directory);
  return magic != PROC_SUPER_MAGIC && magic != SYSFS_MAGIC;
}

/// `name` in a directory, where it is a regular file that is not empty and may be read. A link is
/// not followed: it may lead to another file system.
File open_existing(int directory, const char* name) noexcept {
  struct stat status {};
  if (::fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return File(-errno);
  if (!S_ISREG(status.st_mode) || status.st_size == 0) return File(-ENOENT);
  const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  return File(static_cast<int>(raw_syscall(SYS_openat, directory, name, flags, 0)));
}

/// The first file of a directory that can be read, with its name; -ENOENT in fd() where none can.
File find_existing(const std::string& directory, std::string& name) {
  constexpr int kMostEntries = 4096;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(directory.c_str()), &::closedir);
  if (entries == nullptr) return File(-errno);
  const int fd = ::dirfd(entries.get());
  for (int i = 0; holds_files(fd) && i < kMostEntries; ++i) {
    const dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr) break;
    if (entry->d_type != DT_REG && entry->d_type != DT_UNKNOWN) continue;
    File file = open_existing(fd, entry->d_name);
    if (!file.open()) continue;
    name = entry->d_name;
    return file;
  }
  return File(-ENOENT);
}

Finding without_probe_file(const std::string& path, int64_t error) {
  return {path,
          Usable::degraded,
          static_cast<int>(-error),
          {},
          "could not create a probe file here: " + error_words(error) +
              "; and there is no file here to read in its place",
          "name an existing file to probe reading, or a writable directory"};
}

/// True where an error of making a file is not the file system's way of saying no.
bool is_out_of_reach(const std::string& directory, int64_t error) noexcept {
  return error == -EIO || error == -ESTALE ||
         ::faccessat(AT_FDCWD, directory.c_str(), X_OK, AT_EACCESS) != 0;
}

/// A file of our own in a directory, else one that lies there.
std::optional<Chosen> choose_in_directory(const std::string& path, Findings& findings) {
  File made = make_hidden_file(path);
  const int64_t error = made.open() ? fill(made.fd()) : made.fd();
  if (error >= 0) return Chosen{std::move(made), {}, 0};
  if (is_out_of_reach(path, error)) {
    findings.push_back(explain_path(path, error));
    return std::nullopt;
  }
  std::string name;
  File found = find_existing(path, name);
  if (found.open()) return Chosen{std::move(found), std::move(name), static_cast<int>(-error)};
  findings.push_back(without_probe_file(path, error));
  return std::nullopt;
}

/// The file to read, or nothing and a finding that says why.
std::optional<Chosen> choose_file(const std::string& path, Findings& findings) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    findings.push_back(explain_path(path, -errno));
    return std::nullopt;
  }
  if (S_ISDIR(status.st_mode)) return choose_in_directory(path, findings);
  if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) {
    findings.push_back(bad_path(path, -ESPIPE, "it is a pipe, socket or terminal, not storage",
                                "name a regular file, a block device or a directory"));
    return std::nullopt;
  }
  File file(open_raw(path.c_str(), O_RDONLY));
  if (file.open()) return Chosen{std::move(file), {}, 0};
  findings.push_back(explain_path(path, file.fd()));
  return std::nullopt;
}

// ---- The findings ------------------------------------------------------------------------------

/// Reads the first bytes of the file with one engine.
Finding probe_read(const BackendOptions& options, int fd, const std::string& what) {
  Finding finding;
  finding.subject = std::string(backend_name(options.kind, options.mode)) + " " + what;
  Refusal refusal;
  const auto backend = try_open_backend(options, refusal);
  const Memory memory = probe_memory();
  int64_t result = refusal.error;
  if (backend != nullptr && memory != nullptr) {
    Operation read;
    read.op = Op::read;
    read.fd = fd;
    read.buffer = memory.get();
    read.length = kProbeBytes;
    result = run_one(*backend, read);
  }
  if (result >= 0 && memory != nullptr) {
    finding.detail = "read " + std::to_string(result) + " bytes";
    return finding;
  }
  finding.usable = Usable::no;
  finding.error = static_cast<int>(-result);
  finding.cause =
      refusal.cause.empty() ? "a real read ended in " + error_words(result) : refusal.cause;
  finding.remedy = refusal.remedy.empty()
                       ? "another engine is used for this path; the administrator finds failures "
                         "of the device in the kernel's log (dmesg)"
                       : refusal.remedy;
  return finding;
}

Finding probe_direct(int fd, const std::string& where) {
  const DirectAlignment alignment = direct_alignment(fd);
  Finding finding;
  finding.subject = "O_DIRECT " + where;
  if (alignment.supported) {
    finding.detail = "memory aligned to " + std::to_string(alignment.memory_bytes) +
                     ", offset and length to " + std::to_string(alignment.offset_bytes) + " bytes";
    return finding;
  }
  finding.usable = Usable::degraded;
  finding.error = EINVAL;
  finding.cause = "this file system does not transfer past the page cache";
  finding.remedy = "use buffered I/O here, or storage on ext4, xfs or a parallel file system";
  return finding;
}

Finding probe_iopoll(int direct_fd, const std::string& where) {
  Finding finding;
  finding.subject = std::string(backend_name(Kind::uring, UringMode::iopoll)) + " " + where;
  const std::string polled = queue_setting(device_of(direct_fd), "io_poll");
  if (polled == "1") {
    return probe_read(small_backend(Kind::uring, UringMode::iopoll), direct_fd, where);
  }
  finding.usable = Usable::no;
  finding.error = EOPNOTSUPP;
  finding.cause = polled.empty() ? "this file system has no block device of its own to poll"
                                 : "the queues of this device are not polled (queue/io_poll=0)";
  finding.remedy = polled.empty() ? "use another mode here"
                                  : "on NVMe the administrator can boot with nvme.poll_queues=N";
  return finding;
}

bool is_dax(int fd) noexcept {
  struct statx status {};
  return raw_syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_DAX) != 0;
}

Finding probe_prefetch(int fd, const std::string& where) {
  Finding finding;
  finding.subject = "page-cache prefetch " + where;
  ReadAheadWindows windows;
  finding.detail = "pieces of " + in_bytes(windows.bytes(device_of(fd)));
  if (lives_in_memory(file_system_magic(fd)) || is_dax(fd)) {
    finding.usable = Usable::degraded;
    finding.cause = "the files here are in memory already, so there is nothing to bring there";
    finding.remedy = "nothing to mend: reads are as fast as they get";
    return finding;
  }
  const std::atomic<bool> never{false};
  const int64_t brought = prefetch(fd, 0, kProbeBytes, windows, never);
  char byte = 0;
  const iovec one{&byte, 1};
  const long cached = raw_syscall(SYS_preadv2, fd, &one, 1, 0, 0, RWF_NOWAIT);
  const bool kept = cached >= 0 || cached == -EOPNOTSUPP;  // or the file system does not tell
  if (brought >= 0 && kept) return finding;
  finding.usable = Usable::no;
  finding.error = static_cast<int>(-(brought < 0 ? brought : cached));
  finding.cause = brought < 0 ? "prefetching ended in " + error_words(brought)
                              : "this file system does not keep what is read in the page cache";
  finding.remedy =
      "reads cannot be overlapped by prefetch here; O_DIRECT and explicit "
      "asynchronous reads can";
  return finding;
}

void probe_direct_reads(int fd, const std::string& where, Findings& findings) {
  findings.push_back(probe_direct(fd, where));
  if (findings.back().usable != Usable::yes) return;
  const File direct = reopen(fd, O_RDONLY | O_DIRECT);
  if (!direct.open()) return;
  for (const Kind kind : {Kind::uring, Kind::aio}) {
    findings.push_back(probe_read(small_backend(kind), direct.fd(), "O_DIRECT read " + where));
  }
  findings.push_back(probe_iopoll(direct.fd(), where));
}

/// The smallest alignment of both memory and offset that a trial read accepts; 0: none.
uint32_t align_by_trial(int direct_fd) noexcept {
  const Memory memory = probe_memory();
  if (memory == nullptr) return 0;
  for (const uint32_t bytes : kTrials) {
    // Odd multiples, so that a coarser alignment is not met by accident.
    const long got =
        raw_syscall(SYS_pread64, direct_fd, memory.get() + bytes, bytes, int64_t{bytes});
    if (got >= 0) return bytes;
    if (got != -EINVAL) return 0;
  }
  return 0;
}

}  // namespace

DirectAlignment direct_alignment(int fd) noexcept {
  struct statx status {};
  const long told = raw_syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status);
  if (told == 0 && (status.stx_mask & STATX_DIOALIGN) != 0) {
    return {status.stx_dio_offset_align != 0, status.stx_dio_mem_align,
            status.stx_dio_offset_align};
  }
  const File direct = reopen(fd, O_RDONLY | O_DIRECT);
  if (!direct.open()) return {};
  const uint32_t bytes = align_by_trial(direct.fd());
  return {bytes != 0, bytes, bytes};
}

void probe_path(const std::string& path, Findings& findings) {
  const std::optional<Chosen> chosen = choose_file(path, findings);
  if (!chosen) return;
  const int fd = chosen->file.fd();
  Finding lies_on;
  lies_on.subject = path;
  lies_on.detail = "on " + file_system_name(file_system_magic(fd));
  if (!chosen->name.empty()) {
    lies_on.detail += "; no file can be created here (" + error_words(-chosen->error) + "), so '" +
                      chosen->name + "' was read";
  }
  findings.push_back(lies_on);
  const std::string where = "on " + path;
  for (const Kind kind : {Kind::uring, Kind::threads}) {
    findings.push_back(probe_read(small_backend(kind), fd, "read " + where));
  }
  probe_direct_reads(fd, where, findings);
  findings.push_back(probe_prefetch(fd, where));
}

}  // namespace ioweave::engine
