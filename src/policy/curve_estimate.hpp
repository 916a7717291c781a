#pragma once

// What is known of a device's curve of throughput over operations at once, from samples that are
// noisy and of a device that changes: a Kalman filter whose state is the logarithm of the
// throughput at 1, 1.4, 2, 2.8, 4, ... at once, so that it also knows how well it knows any
// difference.
//
// Four variances make it. A sample is off by the *noise*, which is estimated from how samples under
// the same conditions follow each other. The curve is *smooth*: from one point to the next its
// slope changes by about kBend. With time the whole device drifts (kLevelDrift: what is left to
// tell two points apart is samples of them that follow each other), and so does the curve's shape
// (kShapeDrift: what has not been looked at for long becomes uncertain).

#include <cstdint>
#include <vector>

#include "policy/learned_curve.hpp"

namespace ioweave::policy {

class CurveEstimate {
 public:
  /// For limits of 1 to `most`.
  explicit CurveEstimate(uint32_t most);

  /// By how many deviations a sample differs from what is expected. `unsure` is the deviation of
  /// its logarithm for not knowing exactly how many ran. It is of `seconds`, 1 or more: noise is
  /// that of one.
  [[nodiscard]] double surprise(double at_once, double mb_per_s, double unsure,
                                double seconds) const;
  void sample(double at_once, double mb_per_s, double unsure, double seconds);
  [[nodiscard]] double noise_variance() const noexcept { return noise_variance_; }
  /// A sample that is left out tells how noisy they are all the same.
  void hear_noise(double at_once, double mb_per_s, double seconds);
  /// Time passes, `at` a point being the limit.
  void pass(double seconds, uint32_t at);

  /// The device is not the one it was: it does `mb_per_s` at the point `at` now.
  void changed(uint32_t at, double mb_per_s);
  /// Nothing is known but this, from an earlier run; surest at the point `at`.
  void begin_with(uint32_t at, const LearnedCurve& learned);

  [[nodiscard]] uint32_t points() const noexcept { return static_cast<uint32_t>(mean_.size()); }
  /// How many at once a point stands for.
  [[nodiscard]] uint32_t limit_at(uint32_t point) const noexcept;
  [[nodiscard]] uint32_t nearest(double at_once) const;
  [[nodiscard]] double mb_per_s(uint32_t point) const;
  /// Of the logarithm of the throughput, from one point to another, and the deviation of that.
  [[nodiscard]] double gain(uint32_t from, uint32_t to) const { return mean_[to] - mean_[from]; }
  /// The same from one number at once to another.
  [[nodiscard]] double gain_between(double from, double to) const {
    return expected(place(to)) - expected(place(from));
  }
  [[nodiscard]] double unsure(uint32_t from, uint32_t to) const;

 private:
  struct Place {
    uint32_t point;
    double beyond;  ///< the part of the way to the next
  };
  [[nodiscard]] Place place(double at_once) const;
  [[nodiscard]] double expected(const Place& at) const;
  [[nodiscard]] double variance(const Place& at) const;
  [[nodiscard]] double& covariance(uint32_t a, uint32_t b) { return covariance_[a * points() + b]; }
  [[nodiscard]] double covariance(uint32_t a, uint32_t b) const {
    return covariance_[a * points() + b];
  }
  void loosen(double level, double shape, uint32_t around);

  uint32_t most_;
  std::vector<double> mean_;
  std::vector<double> covariance_;
  double noise_variance_;
  double noise_samples_;
  double last_at_ = 0;
  double last_log_ = 0;
};

}  // namespace ioweave::policy
