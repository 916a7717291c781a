#include "calls/preload/large_buffers.hpp"

#include <algorithm>
#include <limits>

#include <sys/syscall.h>

#include "base/clock.hpp"
#include "base/page_bytes.hpp"
#include "calls/libc/signal_context.hpp"
#include "calls/preload/always_unusual.hpp"
#include "calls/preload/engine_calls.hpp"
#include "calls/preload/process.hpp"
#include "engine/backends.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::calls {

constinit LargeBuffers large_buffers;

namespace {

using choice::LargePages;
using choice::Operation;
using engine::raw_syscall;

constexpr uint32_t kUsesOfOneLook = 64;
constexpr uint32_t kMostDoublings = 7;
constexpr uint32_t kMostProbes = 8;
constexpr uint64_t kSmallPage = 4096;
constexpr uint64_t kMostPages = config::RunConfig::kMostLargePageBytes / kSmallPage;
/// Less than it takes to copy an extent: it lay in a large page before.
constexpr uint64_t kLeastConversionNs = 20'000;

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
  unsigned char pages[kMostPages] = {};
  const uint64_t count = extent_bytes() / page_bytes();
  if (raw_syscall(SYS_mincore, address, extent_bytes(), pages) != 0) return false;
  return std::all_of(pages, pages + count, [](unsigned char page) { return (page & 1) != 0; });
}

/// Returns false if the kernel refused, or cannot.
bool lay_in_large_page(uint64_t address) noexcept {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE
  return is_resident(address) && raw_syscall(SYS_madvise, address, extent_bytes(), kCollapse) == 0;
}

}  // namespace

/// Extents of one buffer that are laid in large pages, as far as that is allowed.
class LargeBuffers::Conversion {
 public:
  Conversion(LargeBuffers& buffers, const Transfer& transfer) noexcept
      : buffers_(buffers),
        operation_(operation_of(transfer)),
        size_class_(choice::class_of(transfer.bytes)) {
    if (buffers_.is_converting_.exchange(1, std::memory_order_acquire) != 0) return;
    is_mine_ = true;
    if constexpr (kIsAlwaysUnusual) {
      allowed_ns_ = std::numeric_limits<uint64_t>::max();
    } else {
      use_trial([&](const LargePages& trial) {
        allowed_ns_ = trial.allowance_ns(operation_, size_class_);
      });
    }
  }
  ~Conversion() {
    if (!is_mine_) return;
    // The other users have it for a moment only. Without the note the allowance would not hold.
    constexpr int kTries = 1000;
    bool is_noted = spent_ns_ == 0;
    for (int i = 0; i < kTries && !is_noted; ++i) {
      is_noted = use_trial([this](LargePages& trial) {
        trial.note_conversion(operation_, size_class_, bytes_, spent_ns_);
      });
    }
    buffers_.is_converting_.store(0, std::memory_order_release);
  }
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;

  [[nodiscard]] bool is_allowed() const noexcept { return spent_ns_ < allowed_ns_; }
  void convert(Extent& extent) noexcept {
    const SignalsHeld held;  // no handler may jump away over it
    const uint64_t begin_ns = now_ns();
    const bool is_large = lay_in_large_page(extent.number * extent_bytes());
    const uint64_t ns = now_ns() - begin_ns;
    spent_ns_ += ns;
    if (is_large && ns > kLeastConversionNs) bytes_ += extent_bytes();
    extent.state = is_large ? State::large : State::refused;
    extent.looks = std::min(extent.looks + 1, kMostDoublings);
    extent.uses = 0;
  }

 private:
  LargeBuffers& buffers_;
  Operation operation_;
  size_t size_class_;
  bool is_mine_ = false;
  uint64_t allowed_ns_ = 0;
  uint64_t spent_ns_ = 0;
  uint64_t bytes_ = 0;
};

// number: 36 bits, begin: 9, looks: 3, state: 2, uses: 14.
LargeBuffers::Extent LargeBuffers::unpacked(uint64_t word) noexcept {
  return {word >> 28, static_cast<uint32_t>(word >> 19 & 0x1ff),
          static_cast<uint32_t>(word >> 16 & 7), static_cast<State>(word >> 14 & 3),
          static_cast<uint32_t>(word & 0x3fff)};
}

uint64_t LargeBuffers::packed(const Extent& extent) noexcept {
  return extent.number << 28 | uint64_t{extent.begin} << 19 | uint64_t{extent.looks} << 16 |
         static_cast<uint64_t>(extent.state) << 14 | extent.uses;
}

/// Counts a use by a transfer that begins at `begin`. Returns whether to look at the extent.
bool LargeBuffers::is_due(Extent& extent, uint32_t begin) noexcept {
  const bool comes_back = extent.uses > 0 && begin <= extent.begin;
  extent.begin = begin;
  if (extent.looks == 0) {
    extent.uses = comes_back ? 2 : std::max(extent.uses, 1U);
    return extent.uses > 1;
  }
  const uint32_t enough = kUsesOfOneLook << extent.looks;
  extent.uses = std::min(extent.uses + 1, enough);
  return extent.uses == enough;
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
  constexpr uint64_t kLeast = kIsAlwaysUnusual ? 1 : choice::kLeastLargeBytes;
  return (transfer.op == engine::Op::read || transfer.op == engine::Op::write) &&
         transfer.bytes >= kLeast && transfer.bytes <= engine::kMaxTransferBytes &&
         extent_bytes() != 0;
}

uint64_t LargeBuffers::prepare(const Transfer& transfer) noexcept {
  const auto begin = reinterpret_cast<uint64_t>(transfer.buffer);
  uint64_t end = 0;
  const TransferUnderWay under_way;
  if (__builtin_add_overflow(begin, transfer.bytes, &end) || !under_way.may_go()) return 0;
  Conversion conversion(*this, transfer);
  uint64_t large_bytes = 0;
  for (uint64_t number = begin / extent_bytes(); number <= (end - 1) / extent_bytes(); ++number) {
    std::atomic<uint64_t>* const word = find(number);
    if (word == nullptr) continue;
    Extent extent = unpacked(word->load(std::memory_order_relaxed));
    const uint64_t address = number * extent_bytes();
    const uint64_t in_extent = std::max(begin, address) - address;
    const bool is_due = this->is_due(extent, static_cast<uint32_t>(in_extent / kSmallPage));
    if (is_due && conversion.is_allowed()) conversion.convert(extent);
    word->store(packed(extent), std::memory_order_relaxed);
    if (extent.state == State::large) {
      large_bytes += std::min(end, address + extent_bytes()) - std::max(begin, address);
    }
  }
  return large_bytes;
}

void LargeBuffers::note(const Transfer& transfer, uint64_t large_bytes, uint64_t ns) noexcept {
  use_trial([&](LargePages& trial) {
    trial.note_transfer(operation_of(transfer), choice::class_of(transfer.bytes), transfer.bytes,
                        large_bytes, ns);
  });
}

}  // namespace ioweave::calls
