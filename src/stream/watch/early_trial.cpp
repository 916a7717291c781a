#include "stream/watch/early_trial.hpp"

#include <algorithm>

namespace ioweave::stream {
namespace {

constexpr unsigned kJudged = 3;        // cycles at once
constexpr double kLoss = 1.05;         // of the pace alone
constexpr unsigned kEarlyCycles = 48;  // between two that are left alone
constexpr unsigned kMostRest = 64;
constexpr unsigned kRemembered = 2;  // cycles alone
constexpr uint64_t kSimilar = 2;     // times as long, or as short

}  // namespace

void EarlyTrial::Cycles::add(const Cycle& cycle) noexcept {
  const double pace_ns = static_cast<double>(cycle.ns) / static_cast<double>(cycle.bytes);
  least_pace_ns = count == 0 ? pace_ns : std::min(least_pace_ns, pace_ns);
  ++count;
}

stats::EarlyHelp EarlyTrial::why() const noexcept {
  switch (phase_) {
    case Phase::learning:
      return stats::EarlyHelp::first;
    case Phase::early:
      return stats::EarlyHelp::early;
    case Phase::alone:
      return stats::EarlyHelp::alone;
    case Phase::resting:
      return stats::EarlyHelp::slower;
  }
  return stats::EarlyHelp::unknown;
}

stats::Paces EarlyTrial::paces() const noexcept {
  const double early_ns = judged_pace_ns_ > 0 ? judged_pace_ns_ : early_.least_pace_ns;
  return {stats::Paces::mb_per_s(alone_.least_pace_ns), stats::Paces::mb_per_s(early_ns)};
}

uint64_t EarlyTrial::allowance() const noexcept {
  const uint64_t spent = open_bytes_ + lost_bytes_;
  return synced_bytes_ - std::min(synced_bytes_, spent);
}

void EarlyTrial::note_end(const Cycle& cycle) noexcept {
  open_bytes_ -= std::min(open_bytes_, cycle.early_bytes);
  lost_bytes_ +=
      cycle.is_synced ? std::min(cycle.lost_bytes, cycle.early_bytes) : cycle.early_bytes;
  if (!cycle.is_synced) return;
  synced_bytes_ += cycle.bytes;
  if (cycle.bytes < kLeastBytes) return;
  if (cycle.is_early) {
    // If others had the turn, it shows nothing.
    if (cycle.early_bytes >= cycle.bytes / 2) note_early_cycle(cycle);
  } else if (cycle.early_bytes == 0) {
    note_cycle_alone(cycle);
  }
}

bool EarlyTrial::is_similar(const Cycle& cycle) const noexcept {
  return cycle.bytes <= usual_bytes_ * kSimilar && usual_bytes_ <= cycle.bytes * kSimilar;
}

void EarlyTrial::note_cycle_alone(const Cycle& cycle) noexcept {
  // What is remembered of long ago, or of cycles of another size, gives way.
  if (alone_.count >= kRemembered || !is_similar(cycle)) alone_ = {};
  alone_.add(cycle);
  usual_bytes_ = cycle.bytes;
  if (phase_ == Phase::resting && rest_ > 1) {
    --rest_;
    return;
  }
  phase_ = Phase::early;
  early_cycles_ = 0;
  early_ = {};
}

void EarlyTrial::note_early_cycle(const Cycle& cycle) noexcept {
  if (phase_ != Phase::early) return;
  ++early_cycles_;
  if (is_similar(cycle)) early_.add(cycle);
  if (early_.count >= kJudged) {
    judged_pace_ns_ = early_.least_pace_ns;
    const bool is_loss = early_.least_pace_ns > kLoss * alone_.least_pace_ns;
    early_ = {};
    if (is_loss) {
      phase_ = Phase::resting;
      rest_ = next_rest_;
      next_rest_ = std::min(2 * next_rest_, kMostRest);
      return;
    }
  }
  if (early_cycles_ >= kEarlyCycles) phase_ = Phase::alone;
}

std::optional<double> EarlyTrial::saved_seconds(const Cycle& cycle) const noexcept {
  if (!cycle.is_early || !cycle.is_synced || !is_similar(cycle)) return std::nullopt;
  const double alone_ns = alone_.least_pace_ns * static_cast<double>(cycle.bytes);
  return (alone_ns - static_cast<double>(cycle.ns)) * 1e-9;
}

}  // namespace ioweave::stream
