#include "stream/write/target_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/cancellation_off.hpp"
#include "base/file_id.hpp"
#include "base/file_system_kind.hpp"

namespace ioweave::stream {
namespace {

int fail(const std::string& path, const char* what, int error, std::string& why) {
  why = std::string("cannot ") + what + " '" + path + "': " + std::strerror(error);
  return -error;
}

}  // namespace

int open_direct(int fd, const std::string& path, int access) noexcept {
  char link[32];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const int flags = access | O_DIRECT | O_CLOEXEC;
  const int direct = ::open(link, flags);
  if (direct >= 0 || errno == EINVAL) {
    return direct;
  }
  // Without /proc: by name, if that still is the same file.
  Descriptor named(::open(path.c_str(), flags));
  struct stat one {};
  struct stat other {};
  const bool same = named.is_open() && ::fstat(fd, &one) == 0 &&
                    ::fstat(named.get(), &other) == 0 && FileId::of(one) == FileId::of(other);
  return same ? ::fcntl(named.get(), F_DUPFD_CLOEXEC, 0) : -1;
}

int TargetFile::open(const std::string& path, const iow_write_file_options& options,
                     iow_write_path way, std::string& why) {
  const CancellationOff uncancelled;  // opens files, and allocates
  path_ = path;
  const mode_t mode = options.mode != 0 ? options.mode : 0666;
  // Without O_TRUNC: what is no regular file must stay as it is. O_NONBLOCK: a FIFO must not wait.
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK;
  cached_ = Descriptor(::open(path.c_str(), flags | (options.exclusive != 0 ? O_EXCL : 0), mode));
  if (!cached_.is_open()) {
    return fail(path, "open", errno, why);
  }
  struct stat found {};
  if (::fstat(cached_.get(), &found) != 0) {
    return fail(path, "open", errno, why);
  }
  if (!S_ISREG(found.st_mode)) {
    why = "'" + path + "' is not a regular file: a write stream writes at offsets";
    return -EINVAL;
  }
  ::fcntl(cached_.get(), F_SETFL, flags & O_ACCMODE);  // io_uring would say EAGAIN
  is_on_fuse_ = is_fuse(cached_.get());
  kept_bytes_ = found.st_size;
  if (way != IOW_PATH_BUFFERED) {
    direct_ = Descriptor(open_direct(cached_.get(), path, O_WRONLY));
    if (!direct_.is_open() && way == IOW_PATH_DIRECT) {
      why = "'" + path +
            "' cannot be written past the page cache (O_DIRECT): " + std::strerror(errno) +
            "; use IOW_PATH_AUTO";
      return -EINVAL;
    }
  }
  // Before it is emptied: where there is no room the old bytes stay.
  int error = allocate(options.expected_bytes);
  if (error == 0 && options.keep == 0 && found.st_size != 0) {
    if (::ftruncate(cached_.get(), 0) != 0) {
      return fail(path, "empty", errno, why);
    }
    kept_bytes_ = 0;
    allocated_bytes_ = 0;
    error = allocate(options.expected_bytes);
  }
  return error == 0 ? 0 : fail(path, "allocate the expected size of", -error, why);
}

void TargetFile::close() noexcept {
  cached_ = Descriptor();
  direct_ = Descriptor();
}

int TargetFile::allocate(uint64_t bytes) noexcept {
  if (bytes > INT64_MAX) {
    return -EFBIG;
  }
  const auto wanted = static_cast<int64_t>(bytes);
  if (wanted <= kept_bytes_) {
    return 0;
  }
  int status = 0;
  do {
    status = ::fallocate(cached_.get(), 0, 0, wanted);
  } while (status != 0 && errno == EINTR);
  if (status == 0) {
    allocated_bytes_ = wanted;
    return 0;
  }
  const int error = errno;
  if (error == EOPNOTSUPP || error == ENOSYS) {
    return 0;  // an optimisation that this file system does not have
  }
  static_cast<void>(::ftruncate(cached_.get(), kept_bytes_));  // a part may have been allocated
  return -error;
}

int TargetFile::trim(int64_t end) noexcept {
  if (allocated_bytes_ <= std::max(end, kept_bytes_)) {
    return 0;
  }
  allocated_bytes_ = 0;
  return ::ftruncate(cached_.get(), std::max(end, kept_bytes_)) == 0 ? 0 : -errno;
}

}  // namespace ioweave::stream
