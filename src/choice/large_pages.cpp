#include "choice/large_pages.hpp"

#include <algorithm>

namespace ioweave::choice {
namespace {

constexpr uint64_t kFirstNs = 25'000'000;  // of transfers, before anything is done
constexpr uint64_t kTrialNs = 12'000'000;
constexpr uint64_t kTrialPart = 32;
constexpr uint64_t kGainedPart = 2;
constexpr uint64_t kSlowestNs = 20'000'000;  // of a conversion
constexpr uint32_t kFewest = 3;              // transfers of each side, to compare
constexpr uint32_t kMostLarge = 16;          // without a difference
constexpr uint64_t kGrowth = 8;
constexpr double kLeastPart = 0.375;
constexpr double kGain = 0.1;

}  // namespace

float LargePages::Paces::median() const noexcept {
  const auto count = static_cast<std::ptrdiff_t>(std::min(count_, kKept));
  if (count == 0) return 0;
  std::array<float, kKept> sorted = kept_;
  std::nth_element(sorted.begin(), sorted.begin() + count / 2, sorted.begin() + count);
  return sorted[static_cast<size_t>(count / 2)];
}

uint64_t LargePages::allowance_ns(Operation operation, size_t size_class) const noexcept {
  const Kind& kind = this->kind(operation, size_class);
  if (transfer_ns_ < kFirstNs || is_too_slow_ != 0) return 0;
  if (kind.verdict == Verdict::pays_not && transfers_ < kind.try_again) return 0;
  if (kind.verdict != Verdict::pays && kind.small.count() < kFewest) return 0;
  uint64_t allowed = transfer_ns_ / kTrialPart + gained_ns_ / kGainedPart;
  allowed -= std::min(allowed, converting_ns_);
  if (kind.verdict == Verdict::pays) return allowed;
  const uint64_t tried_ns = kind.verdict == Verdict::unknown ? kind.converting_ns : 0;
  return std::min(allowed, kTrialNs - std::min(kTrialNs, tried_ns));
}

void LargePages::note_conversion(Operation operation, size_t size_class, uint64_t bytes,
                                 uint64_t ns) noexcept {
  Kind& kind = kind_to_change(operation, size_class);
  if (kind.verdict == Verdict::pays_not) {
    kind = {kind.small, {}, Verdict::unknown, 0, 0};
  }
  converted_bytes_ += bytes;
  converting_ns_ += ns;
  kind.converting_ns += ns;
  if (ns > kSlowestNs) is_too_slow_ = 1;
}

void LargePages::note_transfer(Operation operation, size_t size_class, uint64_t bytes,
                               uint64_t large_bytes, uint64_t ns) noexcept {
  ++transfers_;
  transfer_ns_ += ns;
  Kind& kind = kind_to_change(operation, size_class);
  const double pace = static_cast<double>(ns) / static_cast<double>(bytes);
  if (large_bytes == 0) {
    kind.small.add(static_cast<float>(pace));
    if (kind.verdict == Verdict::unknown && kind.converting_ns >= kTrialNs) give_up(kind);
    return;
  }
  const double part = static_cast<double>(large_bytes) / static_cast<double>(bytes);
  if (part < kLeastPart) return;
  kind.large.add(static_cast<float>(pace));
  const auto small = static_cast<double>(kind.small.median());
  if (kind.verdict == Verdict::pays && pace < small) {
    gained_ns_ += static_cast<uint64_t>((small - pace) * static_cast<double>(bytes));
  }
  judge(kind, part);
}

void LargePages::judge(Kind& kind, double part) const noexcept {
  if (kind.verdict != Verdict::unknown || kind.small.count() < kFewest ||
      kind.large.count() < kFewest) {
    return;
  }
  const double small = static_cast<double>(kind.small.median());
  if (static_cast<double>(kind.large.median()) < (1 - kGain * part) * small) {
    kind.verdict = Verdict::pays;
  } else if (kind.large.count() >= kMostLarge) {
    give_up(kind);
  }
}

void LargePages::give_up(Kind& kind) const noexcept {
  kind.verdict = Verdict::pays_not;
  kind.try_again = transfers_ * kGrowth;
}

}  // namespace ioweave::choice
