#include "calls/preload/large_buffers.hpp"

#include <algorithm>
#include <limits>

#include <sys/syscall.h>

#include "base/clock.hpp"
#include "base/page_bytes.hpp"
#include "calls/preload/always_unusual.hpp"
#include "calls/preload/process.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::calls {

constinit LargeBuffers large_buffers;

namespace {

using choice::LargePages;
using choice::Operation;
using engine::raw_syscall;

constexpr uint32_t kSecondUse = 2;
constexpr uint32_t kUsesOfOneLook = 64;
constexpr uint32_t kMostProbes = 8;
constexpr uint64_t kMostPages = config::RunConfig::kMostLargePageBytes / 4096;

uint64_t extent_bytes() noexcept {
  return process.config().large_page_bytes;
}

Operation operation_of(const Transfer& transfer) noexcept {
  return transfer.op == engine::Op::write ? Operation::write : Operation::read;
}

/// Returns false, without calling `use`, while another thread has it.
template <class Use>
bool use_trial(Use use) noexcept {
  stats::Segment* const segment = process.segment();
  if (segment == nullptr) return false;
  stats::LargePagesRecord& record = segment->large_pages;
  if (record.taken.exchange(1, std::memory_order_acquire) != 0) return false;
  use(record.trial);
  record.taken.store(0, std::memory_order_release);
  return true;
}

/// Whether all pages of an extent are there.
bool is_resident(uint64_t address) noexcept {
  unsigned char pages[kMostPages];
  const uint64_t count = extent_bytes() / page_bytes();
  if (raw_syscall(SYS_mincore, address, extent_bytes(), pages) != 0) return false;
  for (uint64_t i = 0; i < count; ++i) {
    if ((pages[i] & 1) == 0) return false;
  }
  return true;
}

/// Returns false if the kernel refused, or cannot.
bool lay_in_large_page(uint64_t address) noexcept {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE
  return is_resident(address) && raw_syscall(SYS_madvise, address, extent_bytes(), kCollapse) == 0;
}

}  // namespace

LargeBuffers::Extent LargeBuffers::unpacked(uint64_t word) noexcept {
  return {word >> 16, static_cast<Extent::State>(word >> 8 & 0xff),
          static_cast<uint32_t>(word & 0xff)};
}

uint64_t LargeBuffers::packed(const Extent& extent) noexcept {
  return extent.number << 16 | static_cast<uint64_t>(extent.state) << 8 | extent.uses;
}

/// Returns the word of an extent; null if there is no room for it.
std::atomic<uint64_t>* LargeBuffers::find(uint64_t number) noexcept {
  constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  uint64_t at = number * kSpread >> 32;
  for (uint32_t i = 0; i < kMostProbes; ++i, ++at) {
    std::atomic<uint64_t>& word = extents_[at % kExtents];
    uint64_t found = word.load(std::memory_order_relaxed);
    if (found == 0 &&
        word.compare_exchange_strong(found, packed({number}), std::memory_order_relaxed)) {
      return &word;
    }
    if (unpacked(found).number == number) return &word;
  }
  return nullptr;
}

bool LargeBuffers::may_help(const Transfer& transfer) noexcept {
  return (transfer.op == engine::Op::read || transfer.op == engine::Op::write) &&
         transfer.bytes >= (kIsAlwaysUnusual ? 1 : choice::kLeastLargeBytes) && extent_bytes() != 0;
}

uint64_t LargeBuffers::prepare(const Transfer& transfer) noexcept {
  const Operation operation = operation_of(transfer);
  const size_t size_class = choice::class_of(transfer.bytes);
  uint64_t allowed_ns = kIsAlwaysUnusual ? std::numeric_limits<uint64_t>::max() : 0;
  use_trial([&](const LargePages& trial) {
    allowed_ns = std::max(allowed_ns, trial.allowance_ns(operation, size_class));
  });
  const auto begin = reinterpret_cast<uint64_t>(transfer.buffer);
  uint64_t end = 0;
  if (__builtin_add_overflow(begin, transfer.bytes, &end)) return 0;
  uint64_t large_bytes = 0;
  uint64_t converted_bytes = 0;
  uint64_t spent_ns = 0;
  for (uint64_t number = begin / extent_bytes(); number <= (end - 1) / extent_bytes(); ++number) {
    std::atomic<uint64_t>* const word = find(number);
    if (word == nullptr) continue;
    Extent extent = unpacked(word->load(std::memory_order_relaxed));
    if (extent.number != number) continue;
    const uint64_t address = number * extent_bytes();
    const uint32_t enough = extent.state == Extent::State::small ? kSecondUse : kUsesOfOneLook;
    extent.uses = std::min(extent.uses + 1, enough);
    if (extent.uses == enough && spent_ns < allowed_ns) {
      const uint64_t begin_ns = now_ns();
      const bool is_large = lay_in_large_page(address);
      spent_ns += now_ns() - begin_ns;
      if (is_large && extent.state != Extent::State::large) converted_bytes += extent_bytes();
      extent = {number, is_large ? Extent::State::large : Extent::State::refused, 0};
    }
    word->store(packed(extent), std::memory_order_relaxed);
    if (extent.state == Extent::State::large) {
      large_bytes += std::min(end, address + extent_bytes()) - std::max(begin, address);
    }
  }
  if (spent_ns > 0) {
    use_trial([=](LargePages& trial) { trial.note_conversion(converted_bytes, spent_ns); });
  }
  return large_bytes;
}

void LargeBuffers::note(const Transfer& transfer, uint64_t bytes, uint64_t large_bytes,
                        uint64_t ns) noexcept {
  use_trial([&](LargePages& trial) {
    trial.note_transfer(operation_of(transfer), choice::class_of(transfer.bytes), bytes,
                        large_bytes, ns);
  });
}

}  // namespace ioweave::calls
