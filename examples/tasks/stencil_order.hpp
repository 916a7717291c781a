// When which block of the stencil may be computed, for runtimes whose tasks have no dependencies of
// their own: a count for each block of each step of what it still waits for.
#ifndef IOWEAVE_EXAMPLES_STENCIL_ORDER_HPP
#define IOWEAVE_EXAMPLES_STENCIL_ORDER_HPP

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

#include "stencil.h"

/// Thread-safe.
class StencilOrder {
 public:
  explicit StencilOrder(const stencil& of)
      : of_(of), missing_(static_cast<size_t>(of.options.steps + 1) * blocks()) {
    for (int step = 1; step <= of.options.steps; ++step) {
      for (int block = 0; block < of.options.blocks; ++block) {
        const int neighbours = step == 1 ? 0 : end(block) - first(block);
        // The block is where the checkpoint of two steps before is written from.
        const bool awaits_write = step > 2 && stencil_checkpoint_of(&of, step - 2) >= 0;
        missing_[at(step, block)] = neighbours + (awaits_write ? 1 : 0);
      }
    }
  }

  /// One thing that the block waits for is done. Whether it was the last one and there is such a
  /// step: the caller then is to start its computation.
  [[nodiscard]] bool release(int step, int block) {
    return step <= of_.options.steps && --missing_[at(step, block)] == 0;
  }

  /// The neighbours of a block, and itself: first(block) up to, and without, end(block).
  [[nodiscard]] int first(int block) const { return std::max(block - 1, 0); }
  [[nodiscard]] int end(int block) const { return std::min(block + 2, of_.options.blocks); }

 private:
  [[nodiscard]] size_t blocks() const { return static_cast<size_t>(of_.options.blocks); }
  [[nodiscard]] size_t at(int step, int block) const {
    return static_cast<size_t>(step) * blocks() + static_cast<size_t>(block);
  }

  const stencil& of_;
  std::vector<std::atomic<int>> missing_;
};

#endif  // IOWEAVE_EXAMPLES_STENCIL_ORDER_HPP
