#pragma once

// What `ioweave advise` makes of a run: what the model predicts, and what a user is told. Pure
// functions of a run report and of rates that the command measured.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/observed_process.hpp"
#include "model/advice.hpp"
#include "model/curve.hpp"
#include "stats/run_report.hpp"

namespace ioweave::cli {

/// How I/O may be woven through computation.
enum class Way : uint8_t {
  prefetch,      ///< `ioweave run`
  write_behind,  ///< a write stream in the program
  both,
  tasks  ///< items as tasks on all cores, their I/O as I/O tasks; only if none needs another
};

struct Prediction {
  Way way = Way::prefetch;
  uint64_t lookahead_bytes = 0;  ///< of prefetch and both
  uint32_t buffers = 1;          ///< of write-behind and both
  uint32_t devices = 1;          ///< to which results are written in turn
  double seconds = 0;
};

/// What is known of the machine and its devices.
struct AdviceInput {
  model::Rates rates;
  model::Curve write_curve;               ///< of the output's device; without points: not known
  uint64_t lookahead_bytes = 128u << 20;  ///< the setting
};

/// A prediction that was tried.
struct Verified {
  Prediction expected;
  double measured_s = 0;
  bool was_cold = true;  ///< what the program reads was taken out of the page cache before
};

struct Advice {
  ObservedProcess process;
  model::Rates rates;
  model::Curve write_curve;
  uint64_t lookahead_bytes = 0;
  double plain_s = 0;      ///< wall time of the observed run
  double processor_s = 0;  ///< processor time over all cores
  uint32_t cores = 1;
  model::Bound bound;  ///< of the whole run
  std::vector<model::Phase> phases;
  model::Line read;   ///< R of a turn
  model::Line write;  ///< W of a turn
  std::vector<Prediction> predictions;
  std::vector<std::string> remarks;
  std::optional<Verified> verified;

  /// Returns the part of the time that a prediction saves; below 0, it takes longer.
  [[nodiscard]] double gain(const Prediction& prediction) const noexcept;
};

[[nodiscard]] Advice advise(const stats::RunReport& report, ObservedProcess process,
                            const AdviceInput& input);

/// Returns the prediction that stands for a way: with the look-ahead of the settings, one device,
/// and the fewest buffers within a hundredth of the best time. Null if the way is not open.
[[nodiscard]] const Prediction* best_of_way(const Advice& advice, Way way);

/// Returns what to do, best first: the ways that are worth it. A way that needs more changes comes
/// first only if it gains 5 % of the time more. Tasks are not among them: whether items are
/// independent cannot be observed.
[[nodiscard]] std::vector<const Prediction*> ranking(const Advice& advice);

/// Returns the command or the lines of code that do what the prediction says.
[[nodiscard]] std::string how_to(const stats::RunReport& report, const Advice& advice,
                                 const Prediction& prediction);

[[nodiscard]] std::string advice_text(const stats::RunReport& report, const Advice& advice);
/// Returns predicted beside measured; empty if nothing was tried.
[[nodiscard]] std::string verified_text(const Advice& advice);
[[nodiscard]] std::string advice_json(const stats::RunReport& report, const Advice& advice);
/// Returns a picture of the predicted time over the number of buffers, with the bound: one SVG that
/// needs nothing else.
[[nodiscard]] std::string advice_svg(const stats::RunReport& report, const Advice& advice);

}  // namespace ioweave::cli
