// Calls that an open descriptor of the command's would disturb.

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string_view>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <dirent.h>

#include "base/clock.hpp"
#include "calls/preload/real.hpp"
#include "calls/preload/release.hpp"
#include "calls/preload/wrap.hpp"
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

/// Whether nothing but kept files is in a directory of such a file system.
bool has_kept_files_only(int fd) noexcept {
  struct statfs status {};
  if (fstatfs(fd, &status) != 0 ||
      (status.f_type != FUSE_SUPER_MAGIC && status.f_type != NFS_SUPER_MAGIC)) {
    return false;
  }
  alignas(dirent64) char entries[4096];
  while (true) {
    const long bytes = raw_syscall(SYS_getdents64, fd, entries, sizeof entries);
    if (bytes <= 0) return bytes == 0;
    for (long at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries + at);
      if (!is_kept_or_dots(entry->d_name)) return false;
      at += entry->d_reclen;
    }
  }
}

/// Whether the command is why a directory is not empty; by now it has closed what it had open.
bool was_held(int dir, const char* path) noexcept {
  const int saved = errno;
  const auto fd = static_cast<int>(
      raw_syscall(SYS_openat, dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK, 0));
  if (fd < 0) return false;
  const bool is_kept = has_kept_files_only(fd);
  raw_syscall(SYS_close, fd);
  errno = saved;
  return is_kept && ask_for_release() == Released::closed;
}

/// Removes a directory.
template <class Call>
int removed(int dir, const char* path, Call call) {
  int result = call();
  if (result != -1 || errno != ENOTEMPTY || !was_held(dir, path)) {
    return result;
  }
  const uint64_t begin = now_ns();
  do {
    const timespec wait{0, kBetweenTriesNs};
    (void)raw_syscall(SYS_nanosleep, &wait, nullptr);
    result = call();
  } while (result == -1 && errno == ENOTEMPTY && now_ns() - begin < kMostRemovalNs);
  return result;
}

/// Who hears of files being opened must not hear of the command's.
int listening(int fd) noexcept {
  if (fd >= 0) {
    (void)ask_for_release();
  }
  return fd;
}

}  // namespace

IOWEAVE_WRAP(int, umount2, (const char* target, int flags)) {
  return past_release(EBUSY, [=] { return real::umount2(target, flags); });
}
IOWEAVE_WRAP(int, umount, (const char* target)) {
  return wrapped_umount2(target, 0);
}

IOWEAVE_WRAP(int, rmdir, (const char* path)) {
  return removed(AT_FDCWD, path, [=] { return real::rmdir(path); });
}
IOWEAVE_WRAP(int, unlinkat, (int dir, const char* path, int flags)) {
  return removed(dir, path, [=] { return real::unlinkat(dir, path, flags); });
}
IOWEAVE_WRAP(int, remove, (const char* path)) {
  return removed(AT_FDCWD, path, [=] { return real::remove(path); });
}

IOWEAVE_WRAP(int, inotify_init1, (int flags)) {
  return listening(real::inotify_init1(flags));
}
IOWEAVE_WRAP(int, inotify_init, ()) {
  return wrapped_inotify_init1(0);
}
IOWEAVE_WRAP(int, fanotify_init, (unsigned flags, unsigned event_flags)) {
  return listening(real::fanotify_init(flags, event_flags));
}

}  // namespace ioweave::calls
