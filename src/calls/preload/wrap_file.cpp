// Calls that open, close, position, flush and share descriptors.

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include <fcntl.h>
#include <sys/mman.h>

#include "base/private_descriptors.hpp"
#include "calls/libc/real.hpp"
#include "calls/libc/wrap.hpp"
#include "calls/preload/observe.hpp"
#include "calls/preload/release.hpp"

namespace ioweave::calls {
namespace {

using stats::CallClass;

/// The C library reads and writes the standard descriptors by itself.
void keep_standard_plain(int fd) noexcept {
  if (fd <= STDERR_FILENO && write_behind.is_wanted()) {
    write_behind.keep_plain(fd);
  }
}

/// Tracks what a successful open returned; errno stays as it is.
int track_opened(int fd, const char* path, int flags, uint64_t begin) noexcept {
  if (fd >= 0) {
    const int saved = errno;
    table.opened(fd, path, flags, call_ticks() - begin);
    keep_standard_plain(fd);
    errno = saved;
  }
  return fd;
}

/// Before an open that may cut a file, or make one that others wait for.
void come_after_writes_if_cut(int flags) {
  if ((flags & (O_TRUNC | O_CREAT)) != 0) {
    come_after_writes();
  }
}

bool needs_mode(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): `mode` is a declaration.
// NOLINTBEGIN(clang-analyzer-valist.Uninitialized): it does not see va_start in the macro.
// The mode is an argument only where a file may be created.
#define IOWEAVE_OPTIONAL_MODE(flags, mode)              \
  mode_t mode = 0;                                      \
  if (needs_mode(flags)) {                              \
    va_list arguments;                                  \
    va_start(arguments, flags);                         \
    mode = static_cast<mode_t>(va_arg(arguments, int)); \
    va_end(arguments);                                  \
  }

// ---- Open ---------------------------------------------------------------------------------------

IOWEAVE_WRAP(int, open, (const char* path, int flags, ...)) {
  IOWEAVE_OPTIONAL_MODE(flags, mode)
  come_after_writes_if_cut(flags);
  const uint64_t begin = call_ticks();
  return track_opened(real::open(path, flags, mode), path, flags, begin);
}

IOWEAVE_WRAP(int, openat, (int dir, const char* path, int flags, ...)) {
  IOWEAVE_OPTIONAL_MODE(flags, mode)
  come_after_writes_if_cut(flags);
  const uint64_t begin = call_ticks();
  return track_opened(real::openat(dir, path, flags, mode), path, flags, begin);
}

// NOLINTEND(clang-analyzer-valist.Uninitialized)
// NOLINTEND(bugprone-macro-parentheses)

IOWEAVE_WRAP(int, creat, (const char* path, mode_t mode)) {
  come_after_writes();
  const uint64_t begin = call_ticks();
  return track_opened(real::creat(path, mode), path, O_CREAT | O_WRONLY | O_TRUNC, begin);
}

// These abort where a mode is missing.
IOWEAVE_WRAP(int, __open_2, (const char* path, int flags)) {
  come_after_writes_if_cut(flags);
  const uint64_t begin = call_ticks();
  return track_opened(real::__open_2(path, flags), path, flags, begin);
}

IOWEAVE_WRAP(int, __openat_2, (int dir, const char* path, int flags)) {
  come_after_writes_if_cut(flags);
  const uint64_t begin = call_ticks();
  return track_opened(real::__openat_2(dir, path, flags), path, flags, begin);
}

namespace {

/// A file with a name that the C library makes up.
template <class Call>
int open_temporary(char* path, int flags, Call real_call) {
  come_after_writes();
  const uint64_t begin = call_ticks();
  return track_opened(real_call(), path, flags | O_RDWR | O_CREAT | O_EXCL, begin);
}

}  // namespace

IOWEAVE_WRAP(int, mkstemp, (char* path)) {
  return open_temporary(path, 0, [=] { return real::mkstemp(path); });
}
IOWEAVE_WRAP(int, mkostemp, (char* path, int flags)) {
  return open_temporary(path, flags, [=] { return real::mkostemp(path, flags); });
}
IOWEAVE_WRAP(int, mkstemps, (char* path, int suffix)) {
  return open_temporary(path, 0, [=] { return real::mkstemps(path, suffix); });
}
IOWEAVE_WRAP(int, mkostemps, (char* path, int suffix, int flags)) {
  return open_temporary(path, flags, [=] { return real::mkostemps(path, suffix, flags); });
}
IOWEAVE_VARIANTS(IOWEAVE_OPENS)

// ---- Close --------------------------------------------------------------------------------------

namespace {

/// Before a descriptor is closed: the end of a pipe, a socket or a lock tells others something.
void come_after_writes_if_told(const stats::FileRecord* record) {
  if (record == nullptr || uses_file_locks.load(std::memory_order_relaxed)) {
    come_after_writes();
  }
}

/// Before a descriptor of the file is closed. Returns what close(2) is to return, as errno.
int end_writes_of(const stats::FileRecord& record, int fd) {
  if (!write_behind.is_wanted()) [[likely]] {
    return 0;
  }
  int error = 0;
  call_uncancelled([&] {
    write_behind.let_go(record, fd);
    error = write_behind.take_error(record);
  });
  return error;
}

void end_all_writes() {
  if (write_behind.is_wanted()) {
    call_uncancelled([] { write_behind.let_go_all(); });
  }
}

/// Before dup2(2) closes a descriptor, and says nothing of it.
void close_by_duplicate(int fd) {
  const stats::FileRecord* const record = table.closing(fd);
  come_after_writes_if_told(record);
  if (record != nullptr) {
    (void)end_writes_of(*record, fd);
  }
}

/// Closes a range around the descriptors that the engine keeps in this process: the program does
/// not know them, and what it does not know must look closed to it.
template <class CloseRange>
int close_around_private(unsigned first, unsigned last, CloseRange close_range) {
  unsigned from = first;
  for (unsigned fd = first; fd < kPrivateDescriptorEnd && fd <= last; ++fd) {
    if (is_private_descriptor(static_cast<int>(fd))) {
      if (fd > from && close_range(from, fd - 1) != 0) {
        return -1;
      }
      from = fd + 1;
    }
  }
  return from <= last ? close_range(from, last) : 0;
}

}  // namespace

IOWEAVE_WRAP(int, close, (int fd)) {
  if (is_private_descriptor(fd) && !process.is_visitor()) [[unlikely]] {
    errno = EBADF;
    return -1;
  }
  // Forgotten before the call: afterwards another thread may have the number.
  stats::FileRecord* const record = table.closing(fd);
  come_after_writes_if_told(record);
  if (record == nullptr) {
    return real::close(fd);
  }
  const uint64_t begin = call_ticks();
  const int error = end_writes_of(*record, fd);
  int result = real::close(fd);
  if (error != 0) [[unlikely]] {
    errno = error;
    result = -1;
  }
  count_call(*record, CallClass::other, result, call_ticks() - begin);
  return result;
}

IOWEAVE_WRAP(int, close_range, (unsigned first, unsigned last, int flags)) {
  if ((static_cast<unsigned>(flags) & CLOSE_RANGE_UNSHARE) != 0) {
    stop_holding_writes();
  }
  if ((static_cast<unsigned>(flags) & CLOSE_RANGE_CLOEXEC) != 0 || first > last) {
    return real::close_range(first, last, flags);
  }
  end_all_writes();
  table.closing_range(first, last);
  return close_around_private(
      first, last, [=](unsigned from, unsigned to) { return real::close_range(from, to, flags); });
}

IOWEAVE_WRAP(void, closefrom, (int first)) {
  const unsigned from = first > 0 ? static_cast<unsigned>(first) : 0;
  end_all_writes();
  table.closing_range(from, ~0u);
  if (close_around_private(from, ~0u, [](unsigned begin, unsigned end) {
        return real::close_range(begin, end, 0);
      }) != 0) {
    real::closefrom(first);  // a kernel without close_range(2), before 5.9
  }
}

// ---- Position and size --------------------------------------------------------------------------

IOWEAVE_WRAP(off_t, lseek, (int fd, off_t offset, int whence)) {
  Entry* const entry = table.find(fd);
  if (whence != SEEK_SET && whence != SEEK_CUR) {
    come_after_writes_of(entry, fd);
  }
  if (entry == nullptr) {
    return real::lseek(fd, offset, whence);
  }
  const off_t result = real::lseek(fd, offset, whence);
  stats::FileRecord* const record = entry->record.load(std::memory_order_relaxed);
  if (record == nullptr) [[unlikely]] {
    return result;  // closed meanwhile
  }
  count_call(*record, CallClass::other, result < 0 ? -1 : 0, 0);
  const bool is_question = whence == SEEK_CUR && offset == 0;
  if (result < 0 || is_question || process.left_alone()) {
    return result;
  }
  if (entry->has(Entry::places)) {
    stats::note_place(*record, static_cast<uint64_t>(result), 0);
  }
  if (stats::FileSeries* const series = records.series_of(*record, call_ticks())) {
    stats::note_offset(*series, static_cast<uint64_t>(result), 0);
  }
  return result;
}

IOWEAVE_WRAP(int, ftruncate, (int fd, off_t bytes)) {
  return make_counted_call(fd, CallClass::other, [=] { return real::ftruncate(fd, bytes); });
}
IOWEAVE_VARIANTS(IOWEAVE_POSITIONS)

// ---- Flush --------------------------------------------------------------------------------------

IOWEAVE_WRAP(int, fsync, (int fd)) {
  return make_durable(fd, [=] { return real::fsync(fd); });
}

IOWEAVE_WRAP(int, fdatasync, (int fd)) {
  return make_durable(fd, [=] { return real::fdatasync(fd); });
}

IOWEAVE_WRAP(int, sync_file_range, (int fd, off_t offset, off_t bytes, unsigned flags)) {
  return make_durable(fd, [=] { return real::sync_file_range(fd, offset, bytes, flags); });
}

// ---- Sharing ------------------------------------------------------------------------------------

namespace {

int track_duplicate(int from, int to) noexcept {
  if (to >= 0) {
    table.duplicated(from, to);
    keep_standard_plain(to);
  }
  return to;
}

}  // namespace

IOWEAVE_WRAP(int, dup, (int fd)) {
  return track_duplicate(fd, real::dup(fd));
}

IOWEAVE_WRAP(int, dup2, (int fd, int to)) {
  if (fd != to) {
    close_by_duplicate(to);
  }
  return track_duplicate(fd, real::dup2(fd, to));
}

IOWEAVE_WRAP(int, dup3, (int fd, int to, int flags)) {
  if (fd != to) {
    close_by_duplicate(to);
  }
  return track_duplicate(fd, real::dup3(fd, to, flags));
}

// The third argument is an int or a pointer or missing; a pointer's worth carries each of them, as
// in the C library's own fcntl.
IOWEAVE_WRAP(int, fcntl, (int fd, int command, ...)) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const bool changes_nothing = command == F_GETFD || command == F_SETFD || command == F_GETFL ||
                               command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  if (!changes_nothing) {
    come_after_writes();
    uses_file_locks.store(true, std::memory_order_relaxed);
  }
  const auto call = [=] { return real::fcntl(fd, command, argument); };
  // One for reading is in nobody's way.
  const bool is_alone = command == F_SETLEASE && reinterpret_cast<intptr_t>(argument) == F_WRLCK;
  const int result = is_alone ? call_past_release(EAGAIN, call) : call();
  if (result < 0) {
    return result;
  }
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
    return track_duplicate(fd, result);
  }
  if (command == F_SETFL) {
    table.flags_changed(fd, static_cast<int>(reinterpret_cast<intptr_t>(argument)));
  }
  return result;
}

IOWEAVE_WRAP(FILE*, fdopen, (int fd, const char* mode)) {
  FILE* const file = real::fdopen(fd, mode);
  if (file != nullptr) {
    // The C library reads, and closes, behind our back from here on.
    const int saved = errno;
    write_behind.keep_plain(fd);
    table.degraded(fd, stats::Degrade::stream);
    (void)table.closing(fd);
    errno = saved;
  }
  return file;
}

IOWEAVE_WRAP(void*, mmap,
             (void* address, size_t bytes, int protection, int flags, int fd, off_t offset)) {
  if (fd >= 0 && (flags & MAP_ANONYMOUS) == 0) {
    table.degraded(fd, stats::Degrade::mapped);
    write_behind.keep_plain(fd);
  }
  // MAP_SHARED_VALIDATE has the bit, too. mprotect(2) may follow, if the descriptor allows writing.
  if ((flags & MAP_SHARED) != 0 && write_behind.is_wanted() &&
      (fd < 0 || (real::fcntl(fd, F_GETFL, nullptr) & O_ACCMODE) != O_RDONLY)) {
    share_memory();
  }
  return real::mmap(address, bytes, protection, flags, fd, offset);
}
IOWEAVE_VARIANTS(IOWEAVE_SHARES)

}  // namespace ioweave::calls
