#include "choice/large_pages.hpp"

#include <algorithm>

namespace ioweave::choice {
namespace {

constexpr uint64_t kFirstNs = 25'000'000;  // of transfers, before anything is done
constexpr uint64_t kTrialNs = 25'000'000;
constexpr uint64_t kTrialPart = 16;
constexpr uint64_t kPart = 4;
constexpr uint32_t kFewestSmall = 2;  // transfers, to compare with
constexpr uint32_t kMostLarge = 16;   // without a difference
constexpr double kGain = 0.1;

}  // namespace

uint64_t LargePages::allowance_ns(Operation operation, size_t size_class) const noexcept {
  const Kind& kind = this->kind(operation, size_class);
  if (transfer_ns_ < kFirstNs || kind.verdict == Verdict::pays_not) return 0;
  const uint64_t allowed = kind.verdict == Verdict::pays
                               ? transfer_ns_ / kPart
                               : std::min(kTrialNs, transfer_ns_ / kTrialPart);
  return allowed > converting_ns_ ? allowed - converting_ns_ : 0;
}

void LargePages::note_conversion(uint64_t bytes, uint64_t ns) noexcept {
  converted_bytes_ += bytes;
  converting_ns_ += ns;
}

void LargePages::note_transfer(Operation operation, size_t size_class, uint64_t bytes,
                               uint64_t large_bytes, uint64_t ns) noexcept {
  transfer_ns_ += ns;
  if (bytes == 0) return;
  Kind& kind = kinds_[static_cast<size_t>(operation)][size_class];
  const auto pace = static_cast<float>(static_cast<double>(ns) / static_cast<double>(bytes));
  if (large_bytes == 0) {
    kind.small_pace = kind.small == 0 ? pace : std::min(kind.small_pace, pace);
    ++kind.small;
    return;
  }
  const double part = static_cast<double>(large_bytes) / static_cast<double>(bytes);
  if (part < 0.375) return;
  kind.large_pace = kind.large == 0 ? pace : std::min(kind.large_pace, pace);
  ++kind.large;
  if (kind.verdict != Verdict::unknown || kind.small < kFewestSmall) return;
  if (static_cast<double>(pace) < (1 - kGain * part) * static_cast<double>(kind.small_pace)) {
    kind.verdict = Verdict::pays;
  } else if (kind.large >= kMostLarge) {
    kind.verdict = Verdict::pays_not;
  }
}

}  // namespace ioweave::choice
