#include "calls/preload/shared_file.hpp"

#include <cerrno>
#include <cstdint>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "calls/libc/real.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::calls {

void* map_new_file(const char* path, size_t bytes) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < bytes) {
    errno = EFBIG;
    return nullptr;
  }
  const int fd = real::open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) {
    return nullptr;
  }
  void* mapped = MAP_FAILED;
  if (real::ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  const int error = errno == EEXIST ? EIO : errno;
  real::close(fd);
  errno = error;
  return mapped == MAP_FAILED ? nullptr : mapped;
}

bool make_sure_of_memory(void* begin, size_t bytes) noexcept {
  const auto page = static_cast<uintptr_t>(getpagesize());
  const auto first = reinterpret_cast<uintptr_t>(begin) & ~(page - 1);
  const auto last = reinterpret_cast<uintptr_t>(begin) + bytes;
  // Past what others have hooked, who would come back to us: locks of ours may be held.
  const long error = engine::raw_syscall(SYS_madvise, first, last - first, MADV_POPULATE_WRITE);
  // EINVAL: a kernel before 5.14 cannot; then we take the risk that every mapping of a file has.
  return error == 0 || error == -EINVAL;
}

}  // namespace ioweave::calls
