#pragma once

// What the calls on a file did over time, in a bounded number of slots of equal length.
//
// The recorder keeps a FileSeries in a process's segment (segment.hpp). It begins with slots of
// some milliseconds. Where a call ends behind the last slot, slots are joined in pairs and each
// lasts twice as long. So a series costs the same memory whether a program runs for a second or a
// week, and has 32 slots or more of the time since its first call.
//
// Recording allocates nothing, takes no lock and makes no system call. A slot is a cache line.
// Counters are added to without a locked instruction by the thread that owns the file's record.
// Where several threads move bytes of one file, an addition may get lost now and then: the totals
// of the file are exact, its series is a picture.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ioweave::stats {

/// What the calls that ended within a slot did. All operations are relaxed: each counter is a sum
/// on which no other data depends.
struct SeriesSlot {
  std::atomic<uint64_t> read_bytes;
  std::atomic<uint64_t> read_ticks;
  std::atomic<uint64_t> read_calls;
  std::atomic<uint64_t> write_bytes;
  std::atomic<uint64_t> write_ticks;
  std::atomic<uint64_t> write_calls;
  std::atomic<uint64_t> sync_ticks;
  /// Calls that did not follow the one before at once: the program did something else between.
  std::atomic<uint32_t> read_turns;
  std::atomic<uint32_t> write_turns;
};
static_assert(sizeof(SeriesSlot) == 64);

struct FileSeries {
  static constexpr uint32_t kSlots = 64;
  static constexpr uint32_t kFirstShift = 22;  ///< slots of 2^22 ticks: one or two ms on x86-64

  std::atomic<uint64_t> start_ticks;  ///< of the first slot; 0: nothing was recorded
  std::atomic<uint32_t> shift;        ///< a slot lasts 2^shift ticks
  std::atomic<uint32_t> joining;      ///< 1 while a thread joins slots
  std::atomic<uint64_t> read_end;     ///< when the last read ended, in ticks
  std::atomic<uint64_t> write_end;    ///< the same of writes
  /// Where the last read at an explicit offset began and ended, and its distance to the one before.
  std::atomic<uint64_t> read_offset;
  std::atomic<uint64_t> read_until;
  std::atomic<uint64_t> stride;
  /// Reads and seeks that neither continue the one before nor keep its distance.
  std::atomic<uint64_t> jumps;
  SeriesSlot slot[kSlots];
};
static_assert(sizeof(FileSeries) == 64 + FileSeries::kSlots * sizeof(SeriesSlot));

/// Takes a zeroed series into use.
void begin_series(FileSeries& series, uint64_t ticks) noexcept;

/// Joins slots in pairs until one holds `ticks`. Returns its number. If another thread joins just
/// now, or a signal handler interrupts one that does, returns the last slot.
[[nodiscard]] uint32_t join_slots(FileSeries& series, uint64_t ticks) noexcept;

/// Adds to a counter of a series. `is_owner`: without a locked instruction.
template <class Counter, class Amount>
inline void add_to_series(Counter& counter, Amount amount, bool is_owner) noexcept {
  if (is_owner) {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  } else {
    counter.fetch_add(amount, std::memory_order_relaxed);
  }
}

/// Returns the slot of a moment.
[[nodiscard]] inline SeriesSlot& slot_at(FileSeries& series, uint64_t ticks) noexcept {
  const uint64_t start = series.start_ticks.load(std::memory_order_relaxed);
  // Counters of two processors may differ by a little: what seems to lie before counts as now.
  const uint64_t since = ticks > start ? ticks - start : 0;
  const uint64_t number = since >> series.shift.load(std::memory_order_relaxed);
  return series.slot[number < FileSeries::kSlots ? number : join_slots(series, ticks)];
}

/// Returns true if a call from `begin` to `end` did not follow the one that ended at `last` at
/// once. At once is within an eighth of the time that the call took.
[[nodiscard]] inline bool is_turn(uint64_t last, uint64_t begin, uint64_t end) noexcept {
  return last == 0 || (begin > last && begin - last > (end - begin) / 8);
}

inline void note_read(FileSeries& series, uint64_t bytes, uint64_t begin, uint64_t end,
                      bool is_owner) noexcept {
  SeriesSlot& slot = slot_at(series, end);
  add_to_series(slot.read_bytes, bytes, is_owner);
  add_to_series(slot.read_ticks, end - begin, is_owner);
  add_to_series(slot.read_calls, 1u, is_owner);
  if (is_turn(series.read_end.load(std::memory_order_relaxed), begin, end)) {
    add_to_series(slot.read_turns, 1u, is_owner);
  }
  series.read_end.store(end, std::memory_order_relaxed);
}

inline void note_write(FileSeries& series, uint64_t bytes, uint64_t begin, uint64_t end,
                       bool is_owner) noexcept {
  SeriesSlot& slot = slot_at(series, end);
  add_to_series(slot.write_bytes, bytes, is_owner);
  add_to_series(slot.write_ticks, end - begin, is_owner);
  add_to_series(slot.write_calls, 1u, is_owner);
  if (is_turn(series.write_end.load(std::memory_order_relaxed), begin, end)) {
    add_to_series(slot.write_turns, 1u, is_owner);
  }
  series.write_end.store(end, std::memory_order_relaxed);
}

inline void note_sync(FileSeries& series, uint64_t begin, uint64_t end, bool is_owner) noexcept {
  add_to_series(slot_at(series, end).sync_ticks, end - begin, is_owner);
}

/// Notes where a read at an explicit offset was. The counts are hints, so that races may garble
/// them.
inline void note_offset(FileSeries& series, uint64_t offset, uint64_t bytes) noexcept {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const uint64_t stride = offset - series.read_offset.load(kRelaxed);
  const bool goes_on = offset == series.read_until.load(kRelaxed);
  if (!goes_on && stride != series.stride.load(kRelaxed)) {
    series.jumps.store(series.jumps.load(kRelaxed) + 1, kRelaxed);
  }
  series.stride.store(stride, kRelaxed);
  series.read_offset.store(offset, kRelaxed);
  series.read_until.store(offset + bytes, kRelaxed);
}

}  // namespace ioweave::stats
