#pragma once

// What a device moves with a number of streams at once, from noisy samples: pure logic, so that the
// tests can be a device.

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace ioweave::device {

/// What some streams moved in one go.
struct Sample {
  unsigned streams = 0;
  unsigned repetition = 0;
  double start_s = 0;      ///< since the first sample began
  double seconds = 0;      ///< until the last of the streams had its bytes on the device
  double cpu_seconds = 0;  ///< of this process, in all its threads
  uint64_t bytes = 0;

  [[nodiscard]] double mb_per_s() const { return static_cast<double>(bytes) / 1e6 / seconds; }
};

/// Samples of all numbers of streams, each in every repetition, in random order: what changes with
/// time then falls on all of them alike, and does not look like a curve (randomized blocks).
struct SamplePlan {
  std::vector<unsigned> streams;  ///< ascending
  unsigned repetitions = 1;
};

/// Goes through the plan. `take` moves bytes with that many streams and says in `sample` what came
/// of it, all but `repetition`; where it returns false the rest is left out.
std::vector<Sample> take_samples(const SamplePlan& plan, std::mt19937_64& random,
                                 const std::function<bool(unsigned streams, Sample& sample)>& take);

struct CurvePoint {
  unsigned streams = 0;
  double lowest = 0;  ///< MB/s of all streams together, of the samples
  double median = 0;
  double highest = 0;
  double fitted = 0;  ///< the medians made to rise to one peak and fall from it
};

struct DeviceCurve {
  std::vector<CurvePoint> points;  ///< by ascending streams
  /// The fewest streams that get 97 % of the greatest fitted throughput: more of them would gain
  /// less than `climb` thinks worth a step.
  unsigned best_streams = 0;
  double peak_mb_per_s = 0;  ///< the greatest fitted throughput
};

/// Of at least one sample.
[[nodiscard]] DeviceCurve curve_of(std::span<const Sample> samples);

/// The values next to the given ones, by least squares, that rise to a peak and fall from it:
/// unimodal regression, by isotonic regressions (pool adjacent violators) up to and from each
/// possible peak (Stout, Unimodal regression via prefix isotonic regression, Computational
/// Statistics & Data Analysis 53, 2008; quadratic here, for a dozen points).
[[nodiscard]] std::vector<double> fitted_to_one_peak(std::span<const double> values);

/// How throughput changed while it was measured: that of the last third of the samples in time as a
/// part of the first third's, each sample rated by the median of its number of streams. 1 where
/// there are fewer than 6 samples or not two repetitions.
[[nodiscard]] double drift_of(std::span<const Sample> samples);

/// So many bytes more had reached the device by then.
struct Durable {
  double at_s = 0;
  uint64_t bytes = 0;
};

/// The throughput of the last quarter of the time as a part of the first quarter's: below 1 where a
/// device starts fast and then throttles. 1 where there are fewer than 8 entries.
[[nodiscard]] double change_of(std::span<const Durable> log);

/// 1, 2, 4, ... and `most`.
[[nodiscard]] std::vector<unsigned> doubling_to(unsigned most);

/// A list such as "1,2,8" or "1,16-64": each number once, ascending. Empty, and in `why` the
/// reason, where it is none or not within 1 to `most`.
[[nodiscard]] std::vector<unsigned> parse_streams(std::string_view text, unsigned most,
                                                  std::string& why);

}  // namespace ioweave::device
