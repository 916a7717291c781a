#pragma once

// Simulated computation: a set number of turns of a loop, not a wait for a clock. A wait would end
// at its time even where the core was taken away or shared, and so hide what I/O costs the
// computation. How many turns make a millisecond is measured with all workers busy at once, since
// two processors of the system may share a core.

#include <cstdint>
#include <vector>

namespace tiom {

/// One unit of computation; nothing of it can be optimised away.
void compute(uint64_t turns);

struct Calibration {
  unsigned threads = 0;     ///< busy at once
  double turns_per_ms = 0;  ///< of each of them
  double spread = 0;        ///< between the quartiles of the pieces, as a part of the median
  double checked_ms = 0;    ///< what a unit of 1 ms took when tried, median

  [[nodiscard]] uint64_t turns(uint64_t ns) const {
    return static_cast<uint64_t>(turns_per_ms * static_cast<double>(ns) / 1e6);
  }
};

/// What pieces of `turns` turns tell that took so many nanoseconds; `checked_ms` is left open. The
/// median leaves out the pieces during which a thread was taken off its core.
Calibration calibration_of(unsigned threads, uint64_t turns, const std::vector<double>& pieces_ns);

/// Takes about `seconds`, and a third of that again to check.
Calibration calibrate(unsigned threads, double seconds = 0.3);

}  // namespace tiom
