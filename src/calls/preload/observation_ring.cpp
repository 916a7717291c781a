#include "calls/preload/prefetcher.hpp"

namespace ioweave::calls {

// A cell's turn counts its fillings and emptyings: even while it is free, odd while it is filled.
// Position p of the endless sequence is in cell p % kCells, in round p / kCells.

bool ObservationRing::push(const Observation& observation) noexcept {
  uint32_t position = head_.load(std::memory_order_relaxed);
  while (true) {
    Cell& cell = cells_[position % kCells];
    const auto round = static_cast<uint32_t>(position / kCells * 2);
    // Acquire pairs with the release in pop(): the cell's last content has been read.
    const uint32_t turn = cell.turn.load(std::memory_order_acquire);
    if (turn == round) {
      if (head_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        cell.observation = observation;
        cell.turn.store(round + 1, std::memory_order_release);  // pairs with pop()
        return true;
      }
    } else if (static_cast<int32_t>(turn - round) < 0) {
      return false;  // full
    } else {
      position = head_.load(std::memory_order_relaxed);
    }
  }
}

bool ObservationRing::pop(Observation& observation) noexcept {
  Cell& cell = cells_[tail_ % kCells];
  const auto round = static_cast<uint32_t>(tail_ / kCells * 2);
  if (cell.turn.load(std::memory_order_acquire) != round + 1) {  // pairs with push()
    return false;
  }
  observation = cell.observation;
  cell.turn.store(round + 2, std::memory_order_release);  // pairs with the next push()
  ++tail_;
  return true;
}

void ObservationRing::reset() noexcept {
  for (Cell& cell : cells_) {
    cell.turn.store(0, std::memory_order_relaxed);
  }
  head_.store(0, std::memory_order_relaxed);
  tail_ = 0;
}

// ---- Clock --------------------------------------------------------------------------------------

void PrefetchClock::set(uint64_t before, uint64_t since) noexcept {
  version_.fetch_add(1, std::memory_order_acq_rel);
  before_.store(before, std::memory_order_release);
  since_.store(since, std::memory_order_release);
  version_.fetch_add(1, std::memory_order_release);  // pairs with busy()
}

void PrefetchClock::begin(uint64_t now) noexcept {
  if (in_flight_++ == 0) {
    set(before_.load(std::memory_order_relaxed), now);
  }
}

void PrefetchClock::end(uint64_t now) noexcept {
  if (--in_flight_ == 0) {
    const uint64_t since = since_.load(std::memory_order_relaxed);
    set(before_.load(std::memory_order_relaxed) + (now > since ? now - since : 0), 0);
  }
}

uint64_t PrefetchClock::busy(uint64_t now) const noexcept {
  // A writer that is interrupted half-way costs the reader a slightly wrong figure, not a wait.
  constexpr int kTries = 4;
  uint64_t before = 0;
  uint64_t since = 0;
  for (int i = 0; i < kTries; ++i) {
    const uint32_t version = version_.load(std::memory_order_acquire);
    // Acquire keeps the second look at the version behind these; they pair with set().
    before = before_.load(std::memory_order_acquire);
    since = since_.load(std::memory_order_acquire);
    if (version % 2 == 0 && version_.load(std::memory_order_relaxed) == version) {
      break;
    }
  }
  return before + (since != 0 && now > since ? now - since : 0);
}

}  // namespace ioweave::calls
