#pragma once

// A cell of the sweep and what was measured in it: plain values and the arithmetic on them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/task_io.hpp"
#include "series.hpp"
#include "statistics.hpp"

namespace tiom {

enum class Variant : uint8_t { standalone, blocking, nonblocking };

std::string_view variant_name(Variant variant);

struct Cell {
  Mode mode = Mode::mix;
  uint64_t block_bytes = 0;
  uint64_t compute_ns = 0;

  bool operator==(const Cell&) const = default;
};

/// "mix, 64k, 0.1ms"
std::string cell_text(const Cell& cell);

/// One run of one variant.
struct RunFigures {
  double seconds = 0;
  uint64_t bytes = 0;
  uint64_t tasks = 0;
  uint64_t computes = 0;  ///< units of computation done
  bool limited = false;   ///< stopped at the time limit, before all bytes were moved

  [[nodiscard]] double mb_per_s() const;
};

struct VariantResult {
  Variant variant = Variant::standalone;
  std::vector<RunFigures> runs;  ///< by repetition
};

struct CellResult {
  Cell cell;
  double probed_mb_per_s = 0;           ///< of the device, for this block size
  std::vector<VariantResult> variants;  ///< standalone first

  [[nodiscard]] const VariantResult* find(Variant variant) const;
};

/// What no run can beat: the cores' computation or the device's bandwidth, whichever is longer.
using Bound = ioweave::model::TaskBound;

Bound bound_of(const RunFigures& run, uint64_t compute_ns, unsigned cores, double mb_per_s);

/// The bandwidth of the bound: what the probe found, or the best that any run of the cell reached.
/// A bound below what was seen would be none.
double bound_bandwidth(const CellResult& cell);

struct VariantSummary {
  Quartiles mb_per_s;
  Quartiles seconds;
  double near_bound = 0;  ///< bound / time, median over the runs: 1 is the bound itself
  Bound bound;            ///< of the run of median rate
  bool limited = false;   ///< any run
};

VariantSummary summary_of(const CellResult& cell, const VariantResult& variant, unsigned cores);

/// Rate over the standalone rate of the same repetition, one each. Without those in which a run
/// came to no I/O before the time limit: empty where that is so in all.
std::vector<double> paired_speed_ups(const CellResult& cell, Variant variant);

/// 1.25 -> "+25 %", 12 -> "x12".
std::string speed_up_text(double speed_up);

}  // namespace tiom
