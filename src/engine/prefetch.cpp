#include "engine/prefetch.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#include "base/append_number.hpp"
#include "base/page_bytes.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::engine {
namespace {

constexpr uint64_t kPage = 4096;  // a lower bound is enough: it only aligns the pieces

/// No device has a smaller window unless it was switched off.
constexpr uint64_t kSmallStep = 32 << 10;

/// cachestat(2), Linux 6.5; absent from the headers of Debian 12. The same number everywhere.
constexpr long kCachestatCall = 451;
struct CachestatRange {
  uint64_t offset;
  uint64_t length;
};
struct Cachestat {
  uint64_t cached;
  uint64_t dirty;
  uint64_t writeback;
  uint64_t evicted;
  uint64_t recently_evicted;
};

std::optional<Cachestat> ask_cache(int fd, uint64_t offset, uint64_t bytes) noexcept {
  const CachestatRange range{offset, bytes};
  Cachestat answer{};
  if (raw_syscall(kCachestatCall, fd, &range, &answer, 0) != 0) return std::nullopt;
  return answer;
}

struct Piece {
  int64_t begin;
  int64_t end;
};

/// A number in a file of sysfs, or -1.
long read_number(const char* path) noexcept {
  const long fd = raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return -1;
  char text[24] = {};
  const long length = raw_syscall(SYS_read, fd, text, sizeof text - 1);
  raw_syscall(SYS_close, fd);
  return length > 0 ? std::strtol(text, nullptr, 10) : -1;
}

/// The device's read_ahead_kb, or -1. A partition has its queue one level up; file systems without
/// a block device of their own (NFS, FUSE) have a bdi only.
long read_ahead_kb(dev_t device) noexcept {
  static constexpr const char* kPlaces[][2] = {
      {"/sys/class/bdi/", "/read_ahead_kb"},
      {"/sys/dev/block/", "/queue/read_ahead_kb"},
      {"/sys/dev/block/", "/../queue/read_ahead_kb"},
  };
  for (const auto& [folder, name] : kPlaces) {
    char path[96];
    char* at = append_number(stpcpy(path, folder), major(device));
    *at++ = ':';
    stpcpy(append_number(at, minor(device)), name);
    const long value = read_number(path);
    if (value >= 0) return value;
  }
  return -1;
}

/// Where the file ends, or -errno.
int64_t end_of(int fd, const struct stat& status) noexcept {
  if (S_ISREG(status.st_mode)) return status.st_size;
  if (S_ISDIR(status.st_mode)) return -EISDIR;
  if (!S_ISBLK(status.st_mode)) return -ESPIPE;
  uint64_t bytes = 0;
  const long error = raw_syscall(SYS_ioctl, fd, BLKGETSIZE64, &bytes);
  return error < 0 ? error : static_cast<int64_t>(bytes);
}

/// What a prefetch covers of a file.
struct Target {
  int64_t begin = 0;
  int64_t end = 0;  ///< at most the end of the file
  dev_t device = 0;
};

/// 0 or -errno.
int64_t find_target(int fd, int64_t offset, uint64_t length, Target& target) noexcept {
  const long flags = raw_syscall(SYS_fcntl, fd, F_GETFL, 0);
  if (flags < 0) return flags;
  if ((flags & O_ACCMODE) == O_WRONLY || (flags & O_PATH) != 0) return -EBADF;
  if ((flags & O_DIRECT) != 0 || offset < 0) return -EINVAL;
  struct stat status {};
  if (const long error = raw_syscall(SYS_fstat, fd, &status)) return error;
  const int64_t file_end = end_of(fd, status);
  if (file_end < 0) return file_end;
  const auto room = static_cast<uint64_t>(std::max<int64_t>(0, file_end - offset));
  target.begin = offset;
  target.end = offset + static_cast<int64_t>(std::min(length, room));
  target.device = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
  return 0;
}

/// Reads one byte, which waits until its page is up to date. 1, 0 at the end of the file, -errno.
long read_byte(int fd, int64_t offset, int flags) noexcept {
  char byte;
  const iovec one{&byte, 1};
  return raw_syscall(SYS_preadv2, fd, &one, 1, offset, 0, flags);
}

bool piece_is_resident(int fd, const Piece& piece) noexcept {
  return is_resident(fd, static_cast<uint64_t>(piece.begin),
                     static_cast<uint64_t>(piece.end - piece.begin));
}

/// Calls visit(piece) for each piece until it returns non-zero, and returns that.
template <typename Visit>
int64_t for_each_piece(int64_t begin, int64_t end, uint64_t window, Visit visit) {
  while (begin < end) {
    // Pieces end on multiples of the window: ranges that touch share no piece.
    const auto step = static_cast<int64_t>(window - static_cast<uint64_t>(begin) % window);
    const Piece piece{begin, std::min(end, begin + step)};
    if (const int64_t stop = visit(piece)) return stop;
    begin = piece.end;
  }
  return 0;
}

long advise(int fd, const Piece& piece) noexcept {
  return raw_syscall(SYS_fadvise64, fd, piece.begin, piece.end - piece.begin, POSIX_FADV_WILLNEED);
}

/// Asks for everything, so that the device sees depth. `missing`: some of it was not in the cache,
/// nor on its way there.
int64_t ask_for(int fd, const Target& target, uint64_t window, const std::atomic<bool>& cancelled,
                bool& missing) noexcept {
  return for_each_piece(target.begin, target.end, window, [&](const Piece& piece) -> int64_t {
    if (cancelled.load(std::memory_order_relaxed)) return -ECANCELED;  // orders nothing
    if (piece_is_resident(fd, piece)) return 0;
    missing = true;
    return advise(fd, piece);
  });
}

/// Waits until the piece is there, and looks whether all of it is where it was `advised`. 1 at the
/// end of a file that was truncated underneath.
int64_t await_piece(int fd, const Piece& piece, bool advised) noexcept {
  const long got = read_byte(fd, piece.end - 1, 0);
  if (got != 1) return got < 0 ? got : 1;
  if (!advised || piece_is_resident(fd, piece)) return 0;
  // The kernel cut the request short: the window has shrunk since it was read. Once more in small
  // steps; what is missing after that has been evicted again, and is not worth a fight.
  return for_each_piece(piece.begin, piece.end, kSmallStep, [&](const Piece& step) -> int64_t {
    (void)advise(fd, step);
    return std::min(read_byte(fd, step.end - 1, 0), 0L);
  });
}

/// The bytes that are there, or -errno.
int64_t await(int fd, const Target& target, uint64_t window, const std::atomic<bool>& cancelled,
              bool missing) noexcept {
  int64_t there = target.begin;
  const int64_t stopped =
      for_each_piece(target.begin, target.end, window, [&](const Piece& piece) -> int64_t {
        if (cancelled.load(std::memory_order_relaxed)) return -ECANCELED;  // orders nothing
        const int64_t status = await_piece(fd, piece, missing);
        if (status == 0) there = piece.end;
        return status;
      });
  return stopped < 0 ? stopped : there - target.begin;
}

}  // namespace

uint64_t read_ahead_window_bytes(dev_t device) noexcept {
  const long kib = read_ahead_kb(device);
  // With read-ahead off the kernel still honours WILLNEED up to the device's largest transfer.
  const uint64_t bytes = kib > 0 ? static_cast<uint64_t>(kib) << 10 : kDefaultReadAheadBytes;
  return std::max(bytes / kPage * kPage, kPage);
}

uint64_t read_ahead_bytes(dev_t device) noexcept {
  return std::min(read_ahead_window_bytes(device), kMostReadAheadBytes);
}

uint64_t ReadAheadWindows::bytes(dev_t device) noexcept {
  const std::lock_guard guard(lock_);
  for (const Entry& entry : entries_) {
    if (entry.bytes != 0 && entry.device == device) return entry.bytes;
  }
  const uint64_t bytes = read_ahead_bytes(device);
  entries_[next_] = {device, bytes};
  next_ = (next_ + 1) % kEntries;
  return bytes;
}

std::optional<uint64_t> cached_bytes(int fd, uint64_t offset, uint64_t bytes) noexcept {
  const std::optional<Cachestat> answer = ask_cache(fd, offset, bytes);
  return answer ? std::optional(answer->cached * page_bytes()) : std::nullopt;
}

std::optional<bool> is_known_resident(int fd, uint64_t offset, uint64_t bytes) noexcept {
  const std::optional<uint64_t> cached = cached_bytes(fd, offset, bytes);
  if (!cached) return std::nullopt;
  const uint64_t first = offset / page_bytes();
  const uint64_t last = (offset + bytes - 1) / page_bytes();
  return *cached >= (last - first + 1) * page_bytes();
}

std::optional<uint64_t> unwritten_bytes(int fd, uint64_t offset, uint64_t bytes) noexcept {
  const std::optional<Cachestat> answer = ask_cache(fd, offset, bytes);
  if (!answer) return std::nullopt;
  // A page that is changed again while it is being written counts twice.
  return std::min((answer->dirty + answer->writeback) * page_bytes(), bytes);
}

bool is_resident(int fd, uint64_t offset, uint64_t bytes) noexcept {
  if (const std::optional<bool> known = is_known_resident(fd, offset, bytes)) return *known;
  return read_byte(fd, static_cast<int64_t>(offset), RWF_NOWAIT) == 1 &&
         read_byte(fd, static_cast<int64_t>(offset + bytes - 1), RWF_NOWAIT) == 1;
}

bool is_ready(int fd, uint64_t offset) noexcept {
  return read_byte(fd, static_cast<int64_t>(offset), RWF_NOWAIT) >= 0;
}

std::optional<bool> has_arrived(int fd, uint64_t offset) noexcept {
  struct stat status {};
  if (raw_syscall(SYS_fstat, fd, &status) != 0) return std::nullopt;
  const uid_t me = ::geteuid();
  if (me != 0 && me != status.st_uid) return std::nullopt;  // then mincore(2) calls all of it there
  const uint64_t page = page_bytes();
  void* const mapped =
      ::mmap(nullptr, page, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset / page * page));
  if (mapped == MAP_FAILED) return std::nullopt;
  unsigned char there = 0;
  const int error = ::mincore(mapped, page, &there);
  ::munmap(mapped, page);
  return error == 0 ? std::optional((there & 1) != 0) : std::nullopt;
}

int64_t prefetch(int fd, int64_t offset, uint64_t length, ReadAheadWindows& windows,
                 const std::atomic<bool>& cancelled) noexcept {
  Target target;
  if (const int64_t error = find_target(fd, offset, length, target)) return error;
  const uint64_t window = windows.bytes(target.device);
  bool missing = false;
  if (const int64_t error = ask_for(fd, target, window, cancelled, missing)) return error;
  return await(fd, target, window, cancelled, missing);
}

}  // namespace ioweave::engine
