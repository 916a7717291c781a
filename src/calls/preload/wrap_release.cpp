// Calls that an open descriptor of the command's would disturb.

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string_view>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <dirent.h>

#include "base/clock.hpp"
#include "base/file_system_kind.hpp"
#include "calls/libc/real.hpp"
#include "calls/libc/wrap.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/release.hpp"
#include "calls/preload/write_behind.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::calls {
namespace {

using engine::raw_syscall;

// Some file systems keep a removed file under another name while somebody has it open: libfuse's
// high-level interface and NFS. The command's descriptor then keeps a directory from being empty.

/// In which such a file goes, for what the command asked for must have arrived before.
constexpr uint64_t kMostRemovalNs = 1'000'000'000;
constexpr long kBetweenTriesNs = 2'000'000;

bool is_kept_or_dots(const char* name) noexcept {
  constexpr std::string_view kFuse = ".fuse_hidden";
  constexpr std::string_view kNfs = ".nfs";
  const std::string_view entry(name);
  return entry.starts_with(kFuse) || entry.starts_with(kNfs) || entry == "." || entry == "..";
}

/// Whether a path leads to such a file system. Nobody hears of it.
bool keeps_removed_files(int dir, const char* path) noexcept {
  struct statfs status {};
  const bool known =
      (dir == AT_FDCWD || path[0] == '/' ? statfs(path, &status) : fstatfs(dir, &status)) == 0;
  return known && may_keep_removed_files(static_cast<unsigned long>(status.f_type));
}

bool has_kept_files_only(int dir, const char* path) noexcept {
  const auto fd = static_cast<int>(
      raw_syscall(SYS_openat, dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME, 0));
  if (fd < 0) return false;
  alignas(dirent64) char entries[4096] = {};
  bool only = true;
  long bytes = 0;
  while (only && (bytes = raw_syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
    for (long at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries + at);
      only = only && is_kept_or_dots(entry->d_name);
      at += entry->d_reclen;
    }
  }
  raw_syscall(SYS_close, fd);
  return only && bytes == 0;
}

/// Somebody else's kept file was waited for in vain: not again.
constinit std::atomic<bool> waited_in_vain{false};

/// Whether the command may be why a directory is not empty; by now it has closed what it had open.
bool was_held_by_command(int dir, const char* path) noexcept {
  if (!had_kept_files() || waited_in_vain.load(std::memory_order_relaxed)) {
    return false;
  }
  const int saved = errno;
  const bool was = keeps_removed_files(dir, path) && has_kept_files_only(dir, path);
  if (was) {
    (void)ask_for_release(Asks::once);
  }
  errno = saved;
  return was;
}

/// Removes a directory.
template <class Call>
int remove_directory(int dir, const char* path, Call call) {
  const int saved = errno;
  int result = call();
  if (result != -1 || errno != ENOTEMPTY || !was_held_by_command(dir, path)) {
    return result;
  }
  const uint64_t begin = now_ns();
  do {
    const timespec wait{0, kBetweenTriesNs};
    (void)raw_syscall(SYS_nanosleep, &wait, nullptr);
    result = call();
  } while (result == -1 && errno == ENOTEMPTY && now_ns() - begin < kMostRemovalNs);
  if (result != -1) {
    errno = saved;
  } else if (errno == ENOTEMPTY && !process.is_visitor()) {
    waited_in_vain.store(true, std::memory_order_relaxed);
  }
  return result;
}

/// Who hears of files being opened must not hear of the command's.
int announce_listener(int fd) noexcept {
  if (fd >= 0) {
    stop_holding_writes();  // it would hear of writes later, and of fewer
    (void)ask_for_release(Asks::forever);
  }
  return fd;
}

}  // namespace

IOWEAVE_WRAP(int, umount2, (const char* target, int flags)) {
  return call_past_release(EBUSY, [=] { return real::umount2(target, flags); });
}
IOWEAVE_WRAP(int, umount, (const char* target)) {
  return call_past_release(EBUSY, [=] { return real::umount(target); });
}

IOWEAVE_WRAP(int, rmdir, (const char* path)) {
  come_after_writes();
  return remove_directory(AT_FDCWD, path, [=] { return real::rmdir(path); });
}
IOWEAVE_WRAP(int, unlinkat, (int dir, const char* path, int flags)) {
  come_after_writes();
  return remove_directory(dir, path, [=] { return real::unlinkat(dir, path, flags); });
}
IOWEAVE_WRAP(int, remove, (const char* path)) {
  come_after_writes();
  return remove_directory(AT_FDCWD, path, [=] { return real::remove(path); });
}

IOWEAVE_WRAP(int, inotify_init1, (int flags)) {
  return announce_listener(real::inotify_init1(flags));
}
IOWEAVE_WRAP(int, inotify_init, ()) {
  return announce_listener(real::inotify_init());
}
IOWEAVE_WRAP(int, fanotify_init, (unsigned flags, unsigned event_flags)) {
  return announce_listener(real::fanotify_init(flags, event_flags));
}

}  // namespace ioweave::calls
