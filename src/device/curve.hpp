#pragma once

// The throughput of a device with a number of streams at once, from noisy samples. Pure logic, so
// that tests can play the device.

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace ioweave::device {

/// What some streams moved together, once.
struct Sample {
  unsigned streams = 0;
  unsigned repetition = 0;
  double start_s = 0;      ///< since the first sample began
  double seconds = 0;      ///< until the last of the streams had its bytes on the device
  double cpu_seconds = 0;  ///< of all threads of this process
  uint64_t bytes = 0;

  [[nodiscard]] double mb_per_s() const { return static_cast<double>(bytes) / 1e6 / seconds; }
};

/// A sample for each number of streams in every repetition, in random order. A change over time
/// then affects all numbers alike, and does not look like a curve (randomized blocks).
struct SamplePlan {
  std::vector<unsigned> streams;  ///< ascending
  unsigned repetitions = 1;
};

/// Carries out the plan. `take` moves bytes with that many streams and fills `sample`, all but
/// `repetition`. If it returns false, the rest of the plan is left out.
std::vector<Sample> take_samples(const SamplePlan& plan, std::mt19937_64& random,
                                 const std::function<bool(unsigned streams, Sample& sample)>& take);

/// Returns the median of at least one value: of an even number the mean of the two in the middle.
[[nodiscard]] double median_of(std::vector<double> values);

struct CurvePoint {
  unsigned streams = 0;
  double lowest = 0;  ///< of the samples, in MB/s of all streams together
  double median = 0;
  double highest = 0;
  double fitted = 0;  ///< the medians, fitted to rise to one peak and fall from it
};

struct DeviceCurve {
  std::vector<CurvePoint> points;  ///< by ascending streams
  /// The fewest streams that reach 97 % of the greatest fitted throughput. More streams would gain
  /// less than `climb` takes a step for.
  unsigned best_streams = 0;
  double peak_mb_per_s = 0;  ///< the greatest fitted throughput
};

/// Returns the curve of at least one sample.
[[nodiscard]] DeviceCurve curve_of(std::span<const Sample> samples);

/// Returns the values closest to the given ones, by least squares, that rise to a peak and fall
/// from it: unimodal regression, by isotonic regressions (pool adjacent violators) up to and from
/// each possible peak (Stout, Unimodal regression via prefix isotonic regression, Computational
/// Statistics & Data Analysis 53, 2008; quadratic here, for a dozen points).
[[nodiscard]] std::vector<double> fitted_to_one_peak(std::span<const double> values);

/// Returns how throughput changed during the measurement: that of the last third of the samples in
/// time, divided by that of the first third. Each sample is rated by the median of its number of
/// streams. Returns 1 for fewer than 6 samples or fewer than two repetitions.
[[nodiscard]] double drift_of(std::span<const Sample> samples);

/// By this moment so many more bytes had reached the device.
struct Durable {
  double at_s = 0;
  uint64_t bytes = 0;
};

/// Returns the throughput of the last quarter of the time, divided by that of the first quarter:
/// below 1 if a device starts fast and then throttles. Returns 1 for fewer than 8 entries.
[[nodiscard]] double change_of(std::span<const Durable> log);

/// Returns 1, 2, 4, ... and `most`.
[[nodiscard]] std::vector<unsigned> doubling_to(unsigned most);

/// Parses a list such as "1,2,8" or "1,16-64". Returns each number once, ascending. Returns an
/// empty list with the reason in `why` if it is not such a list, or not within 1 to `most`.
[[nodiscard]] std::vector<unsigned> parse_streams(std::string_view text, unsigned most,
                                                  std::string& why);

}  // namespace ioweave::device
