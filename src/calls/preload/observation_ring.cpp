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

}  // namespace ioweave::calls
