#include "calls/preload/residency.hpp"

#include <cerrno>

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "calls/preload/real.hpp"

namespace ioweave::calls {
namespace {

constexpr long kCachestat = 451;  // the same on all architectures; absent from older headers

struct CachestatRange {
  uint64_t offset;
  uint64_t bytes;
};
struct Cachestat {
  uint64_t cached_pages;
  uint64_t dirty_pages;
  uint64_t writeback_pages;
  uint64_t evicted_pages;
  uint64_t recently_evicted_pages;
};

bool byte_is_resident(int fd, uint64_t offset) {
  char byte = 0;
  const iovec vector{&byte, 1};
  return real::preadv2(fd, &vector, 1, static_cast<off_t>(offset), RWF_NOWAIT) == 1;
}

}  // namespace

bool is_resident(int fd, uint64_t offset, uint64_t bytes) noexcept {
  const auto page = static_cast<uint64_t>(getpagesize());
  const CachestatRange range{offset, bytes};
  Cachestat answer{};
  if (syscall(kCachestat, fd, &range, &answer, 0) == 0) {
    const uint64_t pages = (offset + bytes - 1) / page - offset / page + 1;
    return answer.cached_pages >= pages;
  }
  return byte_is_resident(fd, offset) && byte_is_resident(fd, offset + bytes - 1);
}

}  // namespace ioweave::calls
