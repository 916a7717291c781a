#include "stream/write/buffer_pool.hpp"

#include <cerrno>

#include <sys/mman.h>

namespace ioweave::stream {
namespace {

constexpr uint64_t kHugePageBytes = 2 << 20;

}  // namespace

int BufferPool::map(uint64_t buffer_bytes, uint32_t count, bool huge_pages) noexcept {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(buffer_bytes, uint64_t{count}, &bytes) ||
      __builtin_add_overflow(bytes, kHugePageBytes, &mapped_bytes_)) {
    return -ENOMEM;
  }
  void* const mapping = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return -ENOMEM;
  }
  mapping_ = mapping;
  const auto address = reinterpret_cast<uintptr_t>(mapping);
  base_ = static_cast<std::byte*>(mapping) + (-address & (kHugePageBytes - 1));
  buffer_bytes_ = buffer_bytes;
  // Not for less than a huge page: the kernel would hand out one all the same.
  has_huge_pages_ =
      huge_pages && bytes >= kHugePageBytes && ::madvise(base_, bytes, MADV_HUGEPAGE) == 0;
  if (!huge_pages) {
    ::madvise(base_, bytes, MADV_NOHUGEPAGE);  // best effort
  }
  return 0;
}

BufferPool::~BufferPool() {
  if (mapping_ != nullptr) {
    ::munmap(mapping_, mapped_bytes_);
  }
}

}  // namespace ioweave::stream
