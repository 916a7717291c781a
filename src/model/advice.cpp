#include "model/advice.hpp"

#include <algorithm>
#include <cmath>

namespace ioweave::model {
namespace {

constexpr double kMostSteps = 20'000;
constexpr size_t kLeastPhaseShare = 10;  // of the slots

enum Activity : unsigned { reads = 1, writes = 2 };

/// Fills gaps in which an activity rests for less than a phase.
void fill_gaps(std::vector<unsigned>& activity, unsigned bit, size_t most) {
  size_t last = activity.size();
  for (size_t i = 0; i < activity.size(); ++i) {
    if ((activity[i] & bit) == 0) continue;
    if (last < i && i - last <= most) {
      for (size_t k = last; k < i; ++k) activity[k] |= bit;
    }
    last = i;
  }
}

void add(Phase& phase, const Slot& slot, double& read_turns, double& write_turns) {
  phase.read_bytes += slot.read_bytes;
  phase.read_s += slot.read_s;
  phase.write_bytes += slot.write_bytes;
  phase.write_s += slot.write_s;
  phase.compute_s += slot.compute_s;
  read_turns += slot.read_turns;
  write_turns += slot.write_turns;
  phase.items = std::max({1.0, read_turns, write_turns});
}

/// A limited device may hand out bytes in slices of so much time.
constexpr double kSlice_s = 0.1;
constexpr double kWindowsAhead = 2;

/// How long the device read what each slot took, at the device's own speed. The kernel's read-ahead
/// may have done so a little earlier, but not before the run came to the input.
class DeviceTime {
 public:
  explicit DeviceTime(const Rates& rates) : rates_(rates) {}

  /// Of the next slot, in seconds.
  double next(const Slot& slot) {
    if (rates_.read_bytes_per_s <= 0) return slot.read_s;
    if (slot.opens_input) idle_s_ = 0;
    const bool writes_there = rates_.one_device && !rates_.writes_are_cached;
    idle_s_ += slot.read_s + slot.compute_s + (writes_there ? 0 : slot.write_s);
    const double busy_s = std::min(slot.read_bytes / rates_.read_bytes_per_s, idle_s_);
    const double ahead_s = kWindowsAhead * rates_.window_bytes / rates_.read_bytes_per_s;
    idle_s_ = std::min(idle_s_ - busy_s, kSlice_s + ahead_s);
    return busy_s;
  }

 private:
  const Rates& rates_;
  double idle_s_ = 0;  ///< in which the device can have read for later slots
};

}  // namespace

Line fit_line(std::span<const Transfers> transfers) {
  double cc = 0;
  double cb = 0;
  double bb = 0;
  double cs = 0;
  double bs = 0;
  for (const Transfers& each : transfers) {
    cc += each.calls * each.calls;
    cb += each.calls * each.bytes;
    bb += each.bytes * each.bytes;
    cs += each.calls * each.seconds;
    bs += each.bytes * each.seconds;
  }
  const double determinant = cc * bb - cb * cb;
  // Where all transfers have one size, only the sum of both terms is known: it counts as bandwidth.
  if (determinant > 1e-9 * cc * bb) {
    const Line line{(cs * bb - bs * cb) / determinant, (bs * cc - cs * cb) / determinant};
    if (line.latency_s >= 0 && line.s_per_byte >= 0) return line;
    if (line.s_per_byte < 0) return {cc > 0 ? cs / cc : 0, 0};
  }
  return {0, bb > 0 ? bs / bb : 0};
}

std::vector<Phase> phases_of(std::span<const Slot> slots, double slot_s) {
  const size_t least = std::max<size_t>(1, slots.size() / kLeastPhaseShare);
  std::vector<unsigned> activity;
  for (const Slot& slot : slots) {
    activity.push_back((slot.read_bytes > 0 ? reads : 0u) | (slot.write_s > 0 ? writes : 0u));
  }
  fill_gaps(activity, reads, least);
  fill_gaps(activity, writes, least);
  std::vector<Phase> phases;
  unsigned kind = 0;  // of the last phase
  bool is_settled = false;
  double read_turns = 0;
  double write_turns = 0;
  for (size_t i = 0; i < slots.size();) {
    size_t end = i;
    while (end < slots.size() && activity[end] == activity[i]) ++end;
    // What lasts too short for a phase of its own belongs to the one before, or at the beginning to
    // the one behind.
    const bool is_long = end - i >= least;
    if (phases.empty() || (is_long && is_settled && activity[i] != kind)) {
      read_turns = write_turns = 0;
      phases.push_back({.begin_s = static_cast<double>(i) * slot_s});
      is_settled = false;
    }
    if (is_long && !is_settled) {
      kind = activity[i];
      is_settled = true;
    }
    for (; i < end; ++i) add(phases.back(), slots[i], read_turns, write_turns);
    phases.back().end_s = static_cast<double>(end) * slot_s;
  }
  return phases;
}

std::vector<Step> steps_of(std::span<const Slot> slots, const Rates& rates,
                           const Weaving& weaving) {
  const bool ahead = weaving.ahead_bytes > 0;
  const bool behind = weaving.buffers > 1;
  const double most = std::max(1.0, kMostSteps / std::max(1.0, static_cast<double>(slots.size())));
  DeviceTime device_time(rates);
  std::vector<Step> steps;
  for (const Slot& slot : slots) {
    Step step;
    step.read_bytes = slot.read_bytes;
    step.read_s = slot.read_s;
    step.compute_s = slot.compute_s;
    step.write_s = slot.write_s;
    step.opens_input = slot.opens_input;
    if (ahead) {
      // The kernel's read-ahead hid a part already: the device's own time counts.
      step.read_s = device_time.next(slot);
      step.compute_s += std::min(slot.read_s, rates.copy_s_per_byte * slot.read_bytes);
    }
    if (!behind && rates.writes_are_cached) {
      step.compute_s += step.write_s;
      step.write_s = 0;
    }
    if (behind) {
      step.compute_s += rates.write_copy_s_per_byte * slot.write_bytes;
      if (rates.write_bytes_per_s > 0 && slot.write_bytes > 0) {
        step.write_s = slot.write_bytes / rates.write_bytes_per_s;
      }
    }
    const double parts =
        std::clamp(std::floor(std::max(slot.read_turns, slot.write_turns)), 1.0, most);
    step.read_bytes /= parts;
    step.read_s /= parts;
    step.compute_s /= parts;
    step.write_s /= parts;
    for (auto left = static_cast<uint64_t>(parts); left != 0; --left) {
      steps.push_back(step);
      step.opens_input = false;
    }
  }
  return steps;
}

namespace {

/// The sums of all steps as they would be with both ways at once.
Step sum_of_steps(std::span<const Slot> slots, const Rates& rates) {
  const Weaving both{.ahead_bytes = 1, .buffers = rates.writes_are_cached ? 1u : 2u};
  Step sum;
  for (const Step& step : steps_of(slots, rates, both)) {
    sum.read_s += step.read_s;
    sum.compute_s += step.compute_s;
    sum.write_s += step.write_s;
  }
  return sum;
}

}  // namespace

Bound device_bound_of(std::span<const Slot> slots, const Rates& rates) {
  const Step sum = sum_of_steps(slots, rates);
  if (rates.one_device) return {sum.read_s + sum.write_s, Limit::one_device};
  return sum.read_s > sum.write_s ? Bound{sum.read_s, Limit::read_device}
                                  : Bound{sum.write_s, Limit::write_device};
}

Bound bound_of(std::span<const Slot> slots, const Rates& rates, double processor_s) {
  const Bound compute{sum_of_steps(slots, rates).compute_s, Limit::compute};
  return std::max({compute, device_bound_of(slots, rates), Bound{processor_s, Limit::processors}},
                  [](const Bound& a, const Bound& b) { return a.seconds < b.seconds; });
}

double predicted_s(std::span<const Slot> slots, const Rates& rates, const Weaving& weaving) {
  return replay_s(steps_of(slots, rates, weaving), weaving);
}

}  // namespace ioweave::model
