#include "stats/series.hpp"

namespace ioweave::stats {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr uint32_t kLongestShift = 63;

template <class Counter>
void join(Counter& into, const Counter& first, const Counter& second) noexcept {
  into.store(first.load(kRelaxed) + second.load(kRelaxed), kRelaxed);
}

void join_pair(SeriesSlot& into, const SeriesSlot& first, const SeriesSlot& second) noexcept {
  join(into.read_bytes, first.read_bytes, second.read_bytes);
  join(into.read_ticks, first.read_ticks, second.read_ticks);
  join(into.read_calls, first.read_calls, second.read_calls);
  join(into.write_bytes, first.write_bytes, second.write_bytes);
  join(into.write_ticks, first.write_ticks, second.write_ticks);
  join(into.write_calls, first.write_calls, second.write_calls);
  join(into.sync_ticks, first.sync_ticks, second.sync_ticks);
  join(into.read_turns, first.read_turns, second.read_turns);
  join(into.write_turns, first.write_turns, second.write_turns);
}

void empty(SeriesSlot& slot) noexcept {
  for (auto* counter : {&slot.read_bytes, &slot.read_ticks, &slot.read_calls, &slot.write_bytes,
                        &slot.write_ticks, &slot.write_calls, &slot.sync_ticks}) {
    counter->store(0, kRelaxed);
  }
  slot.read_turns.store(0, kRelaxed);
  slot.write_turns.store(0, kRelaxed);
}

/// Makes each slot last twice as long.
void join_all(FileSeries& series) noexcept {
  constexpr size_t kHalf = FileSeries::kSlots / 2;
  for (size_t i = 0; i < kHalf; ++i) {
    join_pair(series.slot[i], series.slot[2 * i], series.slot[2 * i + 1]);
  }
  for (size_t i = kHalf; i < FileSeries::kSlots; ++i) empty(series.slot[i]);
  series.shift.store(series.shift.load(kRelaxed) + 1, kRelaxed);
}

}  // namespace

void begin_series(FileSeries& series, uint64_t ticks) noexcept {
  series.shift.store(FileSeries::kFirstShift, kRelaxed);
  series.start_ticks.store(ticks, kRelaxed);
}

uint32_t join_slots(FileSeries& series, uint64_t ticks) noexcept {
  uint32_t nobody = 0;
  // Acquire pairs with the release below: whoever joins next sees the slots joined.
  if (!series.joining.compare_exchange_strong(nobody, 1, std::memory_order_acquire)) {
    return FileSeries::kSlots - 1;
  }
  const uint64_t since = ticks - series.start_ticks.load(kRelaxed);
  uint32_t shift = series.shift.load(kRelaxed);
  while (shift < kLongestShift && since >> shift >= FileSeries::kSlots) {
    join_all(series);
    ++shift;
  }
  series.joining.store(0, std::memory_order_release);
  const uint64_t number = since >> shift;
  return static_cast<uint32_t>(number < FileSeries::kSlots ? number : FileSeries::kSlots - 1);
}

}  // namespace ioweave::stats
