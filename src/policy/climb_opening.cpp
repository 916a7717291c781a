#include "policy/climb_opening.hpp"

#include <algorithm>
#include <cmath>

#include "policy/limiter.hpp"

namespace ioweave::policy {
namespace {

constexpr double kBetter = 1.05;     ///< a doubling pays
constexpr double kLinear = 1.8;      ///< nearly; two doublings follow
constexpr double kAsGood = 0.97;     ///< of the best: fewer at once are preferred
constexpr uint32_t kFewest = 4;      ///< operations of a step
constexpr uint32_t kMostRounds = 4;  ///< of as many operations as the limit
constexpr double kSure = 0.05;       ///< the deviation of the mean duration, of it
constexpr double kOverhead = 1.5;    ///< between operations, of their duration and more
constexpr double kQuick_s = 0.05;    ///< a machine that is busy may hold one up for as long
constexpr double kMbThatCount = 0.25;
constexpr uint64_t kRounding_ns = 1000;

}  // namespace

/// Bytes a second where an operation moves some, else operations.
double Opening::worth(const Step& step) const noexcept {
  const bool by_bytes = all_mb_ >= kMbThatCount * static_cast<double>(all_counted_);
  return by_bytes ? step.mb_per_s : step.per_s;
}

std::optional<Opening::Step> Opening::ended(const End& end) {
  if (!searching()) {
    return {};
  }
  const auto length_ns = static_cast<uint64_t>(end.seconds * 1e9);
  if (since_ns_ == 0) {  // The first one that ended: those before it began when it did.
    since_ns_ = end.now_ns - std::min(end.now_ns, length_ns);
  }
  if (!end.others_wait || end.running < limit_) {
    begin_step(end.now_ns);
    return {};
  }
  ++all_;
  nodes_.insert(end.node);
  if (end.now_ns + kRounding_ns < since_ns_ + length_ns) {
    return {};  // It began before.
  }
  ++counted_;
  seconds_ += end.seconds;
  squares_ += end.seconds * end.seconds;
  mb_ += static_cast<double>(end.bytes) / kBytesPerMb;
  if (seconds_ <= 0 || !is_enough()) {
    return {};
  }
  const Step step = measured(end.now_ns);
  all_mb_ += mb_;
  all_counted_ += counted_;
  const auto at = std::ranges::lower_bound(steps_, step.limit, {}, &Step::limit);
  if (!repeats_) {
    steps_.insert(at, step);
  } else if (worth(*at) < worth(step)) {
    *at = step;
  }
  if (repeats_ || !is_to_repeat()) {
    repeats_ = false;
    decide(most_worth_of_others());
  } else {
    repeats_ = true;
  }
  begin_step(end.now_ns);
  return step;
}

void Opening::begin_step(uint64_t now_ns) {
  since_ns_ = now_ns;
  all_ = counted_ = 0;
  seconds_ = squares_ = mb_ = 0;
  nodes_.clear();
}

bool Opening::is_enough() const noexcept {
  const uint32_t fewest = std::max(limit_, kFewest);
  if (counted_ < fewest || counted_ >= kMostRounds * fewest) {
    return counted_ >= fewest;
  }
  const double mean = seconds_ / counted_;
  const double variance = std::max(0.0, squares_ / counted_ - mean * mean);
  return variance / counted_ <= kSure * kSure * mean * mean;
}

Opening::Step Opening::measured(uint64_t now_ns) const noexcept {
  const double by_duration = limit_ * counted_ / seconds_;
  const double elapsed_s = std::max(1e-9, static_cast<double>(now_ns - since_ns_) / 1e9);
  const double by_clock = static_cast<double>(all_) / elapsed_s /
                          static_cast<double>(std::max<size_t>(1, nodes_.size()));
  const double per_s = std::min(by_duration, kOverhead * by_clock);
  return {limit_, per_s, per_s * mb_ / counted_};
}

double Opening::most_worth() const noexcept {
  double most = 0;
  for (const Step& step : steps_) {
    most = std::max(most, worth(step));
  }
  return most;
}

double Opening::most_worth_of_others() const noexcept {
  double most = 0;
  for (const Step& step : steps_) {
    most = std::max(most, step.limit == limit_ ? 0 : worth(step));
  }
  return most;
}

/// Whether the step at the limit, which is one of steps_, would end the way up, and is so short
/// that something else on the machine may have made it slow.
bool Opening::is_to_repeat() const noexcept {
  const auto here = std::ranges::find(steps_, limit_, &Step::limit);
  const double better = way_ == Way::up ? kBetter : kAsGood;
  return way_ != Way::down && limit_ < kQuick_s * here->per_s &&
         worth(*here) <= better * most_worth_of_others();
}

/// After the step at the limit, which is one of steps_; `before` is the best one without it.
void Opening::decide(double before) {
  const auto here = std::ranges::find(steps_, limit_, &Step::limit);
  const double now = worth(*here);
  if (way_ == Way::up) {
    const bool pays = now > kBetter * before;
    if (pays && limit_ < most_) {
      const bool leaps = limit_ <= kMostLeaping && now >= kLinear * before && before > 0;
      limit_ = std::min(most_, limit_ * (leaps ? 4u : 2u));
      return;
    }
    if (!pays && steps_.size() > 1 && limit_ > 2 * std::prev(here)->limit) {
      way_ = Way::between;
      limit_ = 2 * std::prev(here)->limit;
      return;
    }
    const size_t known_below = steps_.size() - (pays ? 1 : 2);
    way_ = known_below == 0 ? Way::down : Way::found;
  } else if (way_ == Way::between || now < kAsGood * before) {
    way_ = Way::found;
  }
  const uint32_t least = steps_.front().limit;
  if (way_ == Way::down && least > 1) {
    limit_ = least / 2;
    return;
  }
  way_ = Way::found;
  limit_ = find();
}

uint32_t Opening::find() const noexcept {
  const double most = most_worth();
  const auto found =
      std::ranges::find_if(steps_, [&](const Step& step) { return worth(step) >= kAsGood * most; });
  return found->limit;
}

}  // namespace ioweave::policy
