#include "buffers.hpp"

#include <cstdlib>
#include <string>

#include <sys/mman.h>

#include "error.hpp"

namespace cube {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
/// What malloc puts before each block, and so what keeps its blocks from beginning at a page.
constexpr size_t kMallocHeader = 16;

size_t round_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Memory that begins at a huge page, for which the kernel is asked for such. `bytes`: whole pages.
std::byte* map_huge(size_t bytes) {
  const size_t mapped = bytes + kHugePageBytes;
  void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(memory);
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const size_t before = round_up(address, kHugePageBytes) - address;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + bytes, kHugePageBytes - before);
  // Where they are switched off this fails, and small pages do.
  static_cast<void>(madvise(begin + before, bytes, MADV_HUGEPAGE));
  return begin + before;
}

}  // namespace

Buffers::Buffers(const BufferOptions& options) : options_(options) {
  if (options_.is_huge) options_.bytes = round_up(options_.bytes, kPageBytes);
  if (options_.is_pooled) make_pool();
}

Buffers::~Buffers() {
  if (slab_ == nullptr) return;
  if (options_.is_huge) {
    munmap(slab_, slab_bytes_);
  } else {
    std::free(slab_);
  }
}

void Buffers::make_pool() {
  // Without alignment buffers share cache lines at their ends, as those of malloc may.
  const size_t gap = options_.is_aligned ? 0 : kMallocHeader;
  const size_t stride = options_.bytes + gap;
  slab_bytes_ = round_up(stride * options_.count, kPageBytes);
  slab_ = options_.is_huge ? map_huge(slab_bytes_)
                           : static_cast<std::byte*>(std::aligned_alloc(kPageBytes, slab_bytes_));
  if (slab_ == nullptr) {
    throw CubeError("no memory for " + std::to_string(options_.count) + " buffers of " +
                    std::to_string(options_.bytes) + " bytes");
  }
  for (size_t i = options_.count; i-- > 0;) pool_.push_back(slab_ + i * stride + gap);
}

std::byte* Buffers::allocate() const {
  if (options_.is_huge) return map_huge(options_.bytes);
  return static_cast<std::byte*>(options_.is_aligned
                                     ? std::aligned_alloc(kPageBytes, options_.bytes)
                                     : std::malloc(options_.bytes));
}

void Buffers::release(std::byte* buffer) const {
  if (options_.is_huge) {
    munmap(buffer, options_.bytes);
  } else {
    std::free(buffer);
  }
}

std::byte* Buffers::take() {
  {
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [this] { return out_ < options_.count; });
    ++out_;
    if (options_.is_pooled) {
      std::byte* const buffer = pool_.back();
      pool_.pop_back();
      return buffer;
    }
  }
  std::byte* const buffer = allocate();
  if (buffer != nullptr) return buffer;
  {
    const std::lock_guard lock(mutex_);
    --out_;
  }
  returned_.notify_one();
  throw CubeError("no memory for a buffer of " + std::to_string(options_.bytes) + " bytes");
}

void Buffers::give_back(std::byte* buffer) {
  if (!options_.is_pooled) release(buffer);
  {
    const std::lock_guard lock(mutex_);
    if (options_.is_pooled) pool_.push_back(buffer);
    --out_;
  }
  returned_.notify_one();
}

}  // namespace cube
