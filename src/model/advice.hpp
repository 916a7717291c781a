#pragma once

// What an overlap of I/O and computation would gain a program that was observed once. Pure logic:
// a series of slots in, predicted times out. All times in seconds.

#include <cstdint>
#include <span>
#include <vector>

#include "model/replay.hpp"

namespace ioweave::model {

/// What a program did within a slot of its time.
struct Slot {
  double read_bytes = 0;
  double read_s = 0;  ///< inside reads
  double read_turns = 0;
  double write_bytes = 0;
  double write_s = 0;  ///< inside writes and syncs
  double write_turns = 0;
  double compute_s = 0;      ///< the rest of the slot
  bool opens_input = false;  ///< a file is read here for the first time
};

/// Transfers of one kind: `calls` of them moved so many bytes in so much time.
struct Transfers {
  double calls = 0;
  double bytes = 0;
  double seconds = 0;
};

/// seconds = latency_s * calls + bytes / bandwidth.
struct Line {
  double latency_s = 0;
  double s_per_byte = 0;
};
/// Returns the line of least squares, both terms not negative.
[[nodiscard]] Line fit_line(std::span<const Transfers> transfers);

/// A stretch of time in which a program behaves alike.
struct Phase {
  double begin_s = 0;
  double end_s = 0;
  double items = 1;  ///< n: turns of the kind of transfer of which there are more
  double read_bytes = 0;
  double read_s = 0;
  double write_bytes = 0;
  double write_s = 0;
  double compute_s = 0;
};
/// Returns the phases of a series of slots that last `slot_s` each. A phase ends where reading or
/// writing begins or ends for a tenth of the slots or more.
[[nodiscard]] std::vector<Phase> phases_of(std::span<const Slot> slots, double slot_s);

/// What is known of the devices; 0: unknown, then what was observed counts.
struct Rates {
  double read_bytes_per_s = 0;       ///< with several reads under way
  double window_bytes = 0;           ///< of the kernel's read-ahead
  double copy_s_per_byte = 0;        ///< of a read from the page cache
  double write_bytes_per_s = 0;      ///< until the device has the bytes
  double write_copy_s_per_byte = 0;  ///< into a buffer of write-behind
  bool one_device = false;           ///< reads and writes share one
  bool writes_are_cached = false;    ///< the page cache takes them: their time is the thread's
};

/// Returns the steps of a program as they would be with reads ahead, or as they were.
[[nodiscard]] std::vector<Step> steps_of(std::span<const Slot> slots, const Rates& rates,
                                         const Weaving& weaving);

/// Returns how long the slots would take, woven so: what `replay_s` says of their steps.
[[nodiscard]] double predicted_s(std::span<const Slot> slots, const Rates& rates,
                                 const Weaving& weaving);

/// What no way to weave these slots can beat: the computation of the thread, the time of the
/// devices, and the processor time on all cores. Limit names the greatest.
enum class Limit : uint8_t { compute, read_device, write_device, one_device, processors };
struct Bound {
  double seconds = 0;
  Limit limit = Limit::compute;
};
[[nodiscard]] Bound bound_of(std::span<const Slot> slots, const Rates& rates, double processor_s);
/// The same of the devices alone.
[[nodiscard]] Bound device_bound_of(std::span<const Slot> slots, const Rates& rates);

/// A gain below this part of the time is not worth the effort.
inline constexpr double kWorthIt = 0.05;

}  // namespace ioweave::model
