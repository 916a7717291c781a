#include "engine/read_ahead_walk.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "engine/prefetch.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::engine {
namespace {

constexpr uint64_t kPage = 4096;  // at least; only places of marks depend on it

/// Address space that nothing can be written to: a read into it starts read-ahead and, should the
/// page have arrived meanwhile, copies nothing. Null where there is no room for it.
char* untouchable(uint64_t bytes) noexcept {
  constexpr uint64_t kBytes = 256u << 20;
  static void* const kMapping =
      ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return kMapping == MAP_FAILED || bytes > kBytes ? nullptr : static_cast<char*>(kMapping);
}

}  // namespace

ReadAheadWalk::ReadAheadWalk(int fd, uint64_t window_bytes) noexcept
    : fd_(fd), window_bytes_(window_bytes < kPage ? kPage : window_bytes) {
  // The kernel takes advice on these too, and nobody would read what it brings in.
  const long flags = raw_syscall(SYS_fcntl, fd, F_GETFL, 0);
  is_buffered_ =
      flags >= 0 && (flags & O_ACCMODE) != O_WRONLY && (flags & (O_DIRECT | O_PATH)) == 0;
}

/// Reads a byte without waiting. False where the file system cannot.
bool ReadAheadWalk::touch(uint64_t offset) const noexcept {
  char byte;
  const iovec one{&byte, 1};
  const long got = raw_syscall(SYS_preadv2, fd_, &one, 1, offset, 0, RWF_NOWAIT);
  return got >= 0 || got == -EAGAIN;
}

/// Starts a window at a page unless that is there. A read that is larger than the window counts as
/// the beginning of a sequential reader wherever it is.
ReadAheadWalk::Start ReadAheadWalk::start_at(uint64_t offset) const noexcept {
  const uint64_t bytes = window_bytes_ + kPage;
  char* const nowhere = untouchable(bytes);
  if (nowhere == nullptr) return Start::refused;
  const iovec all{nowhere, bytes};
  const long got = raw_syscall(SYS_preadv2, fd_, &all, 1, offset, 0, RWF_NOWAIT);
  if (got == -EAGAIN) return Start::begun;
  return got >= 0 || got == -EFAULT ? Start::there : Start::refused;
}

ReadAheadWalk::Answer ReadAheadWalk::advise(uint64_t offset, uint64_t bytes) noexcept {
  const long error = raw_syscall(SYS_fadvise64, fd_, offset, bytes, POSIX_FADV_WILLNEED);
  if (error != 0) return Answer::failed;
  window_begin_ = offset;
  next_ = offset + bytes;
  return Answer::asked;
}

/// Where nobody says what is in the cache.
ReadAheadWalk::Answer ReadAheadWalk::ask_unseen(uint64_t offset, uint64_t bytes) noexcept {
  const Start started = walks_ ? start_at(offset) : Start::refused;
  walks_ = started != Start::refused;
  if (!walks_) return advise(offset, bytes);
  window_begin_ = offset;
  next_ = offset + bytes;
  return started == Start::there ? Answer::cached : Answer::asked;
}

ReadAheadWalk::Answer ReadAheadWalk::ask(uint64_t offset, uint64_t bytes) noexcept {
  if (!is_buffered_) return Answer::failed;
  const std::optional<bool> known = bytes == 0 ? true : is_known_resident(fd_, offset, bytes);
  if (!known) return ask_unseen(offset, bytes);
  if (*known) {
    next_ = offset + bytes;
    return Answer::cached;
  }
  bool there = false;
  if (walks_ && next_ == offset && offset != 0) {
    // The mark is at the start of a window that was walked to, in the middle of one that was
    // started, and on its last page where the kernel took that for a stream it had lost.
    for (const uint64_t mark : {window_begin_, window_begin_ + window_bytes_ / 2, offset - kPage}) {
      walks_ = walks_ && touch(mark);
      there = walks_ && is_resident(fd_, offset, bytes);
      if (there || !walks_) break;
    }
  }
  if (walks_ && !there) {
    walks_ = start_at(offset) != Start::refused;
    there = walks_ && is_resident(fd_, offset, bytes);
  }
  if (!there) return advise(offset, bytes);
  window_begin_ = offset;
  next_ = offset + bytes;
  return Answer::asked;
}

ReadAheadWalk::Answer ReadAheadWalk::ask_only(uint64_t offset, uint64_t bytes) noexcept {
  if (!is_buffered_) return Answer::failed;
  if (bytes == 0 || is_known_resident(fd_, offset, bytes).value_or(false)) return Answer::cached;
  next_ = 0;
  const uint64_t end = offset + bytes;
  for (uint64_t at = offset; at < end;) {
    // The kernel cuts each request at the window.
    const uint64_t piece = std::min(end - at, window_bytes_);
    if (raw_syscall(SYS_fadvise64, fd_, at, piece, POSIX_FADV_WILLNEED) != 0) return Answer::failed;
    at += piece;
  }
  return Answer::asked;
}

}  // namespace ioweave::engine
