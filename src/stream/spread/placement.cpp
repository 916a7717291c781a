#include "stream/spread/placement.hpp"

#include <algorithm>

namespace ioweave::stream {
namespace {

/// So long a rate remembers, about.
constexpr uint64_t kMemoryNs = 4'000'000'000;
/// Loads that differ by less count as equal: rates are measured.
constexpr double kSlack = 1.125;

}  // namespace

double Placement::Target::busy_at(uint64_t now_ns) const noexcept {
  return static_cast<double>(busy_ns + (outstanding != 0 ? now_ns - busy_since_ns : 0));
}

/// Bytes per nanosecond. Of a target that has not written anything yet the usual rate is believed,
/// as long as what it has been given could have been written by then.
double Placement::Target::rate(double usual, uint64_t now_ns) const noexcept {
  const double busy = busy_at(now_ns);
  if (written != 0) {
    return static_cast<double>(written) / std::max(busy, 1.0);
  }
  return busy <= 0 ? usual : std::min(usual, static_cast<double>(outstanding) / busy);
}

/// The mean of those that have written; without any, all count as equal.
double Placement::usual_rate(uint64_t now_ns) const noexcept {
  double sum = 0;
  int known = 0;
  for (const Target& target : targets_) {
    if (!target.failed && target.written != 0) {
      sum += target.rate(0, now_ns);
      ++known;
    }
  }
  return known == 0 ? 1 : sum / known;
}

size_t Placement::choose(uint64_t bytes, uint64_t now_ns) const noexcept {
  if (failed_ == targets_.size()) {
    return kNone;
  }
  if (by_load_) {
    return choose_by_load(bytes, now_ns);
  }
  size_t target = next_;
  while (targets_[target].failed) {
    target = (target + 1) % targets_.size();
  }
  return target;
}

/// Among about equal ones that with the least bytes so far, and of those the first.
size_t Placement::choose_by_load(uint64_t bytes, uint64_t now_ns) const noexcept {
  const double usual = usual_rate(now_ns);
  const auto load = [&](const Target& target) {
    return static_cast<double>(target.outstanding + std::max<uint64_t>(bytes, 1)) /
           std::max(target.rate(usual, now_ns), 1e-12);
  };
  double least = -1;
  for (const Target& target : targets_) {
    if (!target.failed && (least < 0 || load(target) < least)) {
      least = load(target);
    }
  }
  size_t chosen = kNone;
  for (size_t i = 0; i < targets_.size(); ++i) {
    const bool is_light = !targets_[i].failed && load(targets_[i]) <= least * kSlack;
    if (is_light && (chosen == kNone || targets_[i].placed < targets_[chosen].placed)) {
      chosen = i;
    }
  }
  return chosen;
}

void Placement::start(size_t target, uint64_t bytes, uint64_t now_ns) noexcept {
  next_ = (target + 1) % targets_.size();
  Target& at = targets_[target];
  if (at.outstanding == 0) {
    at.busy_since_ns = now_ns;
  }
  at.outstanding += bytes;
  at.placed += bytes;
}

void Placement::end(size_t target, uint64_t bytes, bool is_written, uint64_t now_ns) noexcept {
  Target& at = targets_[target];
  at.busy_ns += now_ns - at.busy_since_ns;
  at.busy_since_ns = now_ns;
  at.outstanding -= bytes;
  at.written += is_written ? bytes : 0;
  while (at.busy_ns > kMemoryNs) {
    at.busy_ns /= 2;
    at.written /= 2;
  }
}

void Placement::fail(size_t target) noexcept {
  failed_ += targets_[target].failed ? 0 : 1;
  targets_[target].failed = true;
}

}  // namespace ioweave::stream
