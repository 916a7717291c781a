#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "device.hpp"
#include "report.hpp"
#include "run.hpp"
#include "runtime.hpp"
#include "target_file.hpp"

namespace tiom {

/// The places of the variants in the order of a round: forward in even rounds, reversed in odd
/// ones. A variant that always came first would have the others' traces on the device before it,
/// and they its own.
std::vector<size_t> order_of_round(size_t variants, unsigned round);

/// The machine made ready for a sweep: the file, the runtime, the calibrated computation.
class Bench {
 public:
  /// Throws std::runtime_error or UsageError with a way out, before anything takes long.
  explicit Bench(const Options& options);

  /// Makes the work of a resumed sweep that of its first part. To be called before any cell.
  void use_calibration(const Calibration& calibration) { calibration_ = calibration; }

  /// The head of a report, without cells.
  [[nodiscard]] Report report() const;

  /// What the runs of a cell will take at most, and are expected to take, in seconds.
  struct Estimate {
    double expected_s;
    double most_s;
  };
  [[nodiscard]] Estimate estimate(const Cell& cell);

  /// The computation of one turn of all series, over all cores, in seconds.
  [[nodiscard]] double turn_s(const Cell& cell) const;

  /// All repetitions of all variants, in the order of the rounds; `after_run` is called after each
  /// run. The result has the runs by variant, and those of a variant by repetition.
  CellResult measure(const Cell& cell, const std::function<void(const RunFigures&)>& after_run);

  /// The bandwidth behind the bound, measured once for each block size.
  double device_mb_per_s(uint64_t block_bytes);

  [[nodiscard]] const TargetFile& file() const { return file_; }
  [[nodiscard]] const Calibration& calibration() const { return calibration_; }
  [[nodiscard]] iow_service* service() const { return runtime_->service(); }
  [[nodiscard]] size_t variants() const { return variants_.size(); }
  [[nodiscard]] unsigned workers() const { return runtime_->workers(); }
  [[nodiscard]] unsigned cores() const;

 private:
  void check_memory() const;
  [[nodiscard]] Shape shape_of(const Cell& cell) const;
  [[nodiscard]] BlockOrder order_of(uint64_t block_bytes) const;

  const Options options_;
  const std::vector<Variant> variants_;
  TargetFile file_;
  std::unique_ptr<Runtime> runtime_;
  Calibration calibration_;
  Machine machine_;
  std::map<uint64_t, double> device_mb_per_s_;
};

}  // namespace tiom
