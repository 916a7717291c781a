#include "policy/curve_estimate.hpp"

#include <algorithm>
#include <cmath>

namespace ioweave::policy {
namespace {

constexpr double kPerOctave = 2;  // points

// Deviations of logarithms: 0.1 is about 10 %.
constexpr double kUnknown = 10;
constexpr double kFirstSlope = 0.2;  ///< expected of a point to the next; linear would be 0.35
constexpr double kSlope = 0.2;
constexpr double kBend = 0.15;
constexpr double kLevelDrift = 0.01;   ///< in a second
constexpr double kShapeDrift = 0.007;  ///< in a second, from a point to the next
constexpr double kLevelChanged = 1;
constexpr double kShapeChanged = 0.3;
constexpr double kChangedWhole = 0.3;  ///< of a change by so much, nothing is left
constexpr double kLevelLearned = 0.2;
constexpr double kShapeLearned = 0.05;
constexpr double kHeightLearned = 0.1;  ///< the same, where only the height was

constexpr double kNoise = 0.08;
constexpr double kLeastNoise = 0.02;
constexpr double kFirstNoiseSamples = 6;
constexpr double kNoiseSamples = 40;

}  // namespace

CurveEstimate::CurveEstimate(uint32_t most)
    : most_(most), noise_variance_(kNoise * kNoise), noise_samples_(kFirstNoiseSamples) {
  const auto points = static_cast<uint32_t>(std::ceil(kPerOctave * std::log2(most)) + 1);
  mean_.resize(points);
  covariance_.assign(size_t{points} * points, 0);
  for (uint32_t i = 0; i < points; ++i) {
    mean_[i] = kFirstSlope * i;
    for (uint32_t j = 0; j < points; ++j) {
      double bends = 0;
      for (uint32_t at = 1; at < std::min(i, j); ++at) {
        bends += static_cast<double>(i - at) * (j - at);
      }
      covariance(i, j) = kUnknown * kUnknown + kSlope * kSlope * i * j + kBend * kBend * bends;
    }
  }
}

uint32_t CurveEstimate::limit_at(uint32_t point) const noexcept {
  return std::min(most_, static_cast<uint32_t>(std::lround(std::exp2(point / kPerOctave))));
}

uint32_t CurveEstimate::nearest(double at_once) const {
  const Place at = place(at_once);
  return at.point + (at.beyond >= 0.5 ? 1 : 0);
}

double CurveEstimate::mb_per_s(uint32_t point) const {
  return std::exp(mean_[point]);
}

double CurveEstimate::unsure(uint32_t from, uint32_t to) const {
  return std::sqrt(
      std::max(0.0, covariance(from, from) + covariance(to, to) - 2 * covariance(from, to)));
}

CurveEstimate::Place CurveEstimate::place(double at_once) const {
  const double x = std::clamp(kPerOctave * std::log2(at_once), 0.0, points() - 1.0);
  const auto point = std::min(static_cast<uint32_t>(x), points() < 2 ? 0 : points() - 2);
  return {point, x - point};
}

double CurveEstimate::expected(const Place& at) const {
  const uint32_t next = std::min(at.point + 1, points() - 1);
  return (1 - at.beyond) * mean_[at.point] + at.beyond * mean_[next];
}

double CurveEstimate::variance(const Place& at) const {
  const uint32_t next = std::min(at.point + 1, points() - 1);
  const double here = 1 - at.beyond;
  return here * here * covariance(at.point, at.point) +
         2 * here * at.beyond * covariance(at.point, next) +
         at.beyond * at.beyond * covariance(next, next);
}

double CurveEstimate::surprise(double at_once, double mb_per_s, double unsure,
                               double seconds) const {
  const Place at = place(at_once);
  return (std::log(mb_per_s) - expected(at)) /
         std::sqrt(variance(at) + noise_variance_ / seconds + unsure * unsure);
}

void CurveEstimate::hear_noise(double at_once, double mb_per_s, double seconds) {
  const double log = std::log(mb_per_s);
  if (last_at_ > 0 && std::abs(std::log2(at_once / last_at_)) < 0.2) {
    const double twice = (log - last_log_) * (log - last_log_) * seconds;
    noise_samples_ = std::min(noise_samples_ + 1, kNoiseSamples);
    noise_variance_ +=
        (std::min(twice / 2, 9 * noise_variance_) - noise_variance_) / noise_samples_;
    noise_variance_ = std::max(noise_variance_, kLeastNoise * kLeastNoise);
  }
  last_at_ = at_once;
  last_log_ = log;
}

void CurveEstimate::sample(double at_once, double mb_per_s, double unsure, double seconds) {
  hear_noise(at_once, mb_per_s, seconds);
  const double log = std::log(mb_per_s);
  const Place at = place(at_once);
  const uint32_t next = std::min(at.point + 1, points() - 1);
  const double total = variance(at) + noise_variance_ / seconds + unsure * unsure;
  const double off = log - expected(at);
  std::vector<double> with(points());
  for (uint32_t i = 0; i < points(); ++i) {
    with[i] = (1 - at.beyond) * covariance(i, at.point) + at.beyond * covariance(i, next);
  }
  for (uint32_t i = 0; i < points(); ++i) {
    mean_[i] += with[i] / total * off;
    for (uint32_t j = 0; j < points(); ++j) {
      covariance(i, j) -= with[i] * with[j] / total;
    }
  }
}

/// Adds to the level a variance common to all points, and to each step away from `around` one.
void CurveEstimate::loosen(double level, double shape, uint32_t around) {
  const auto from = static_cast<int64_t>(around);
  for (int64_t i = 0; i < points(); ++i) {
    for (int64_t j = 0; j < points(); ++j) {
      const bool same_side = (i > from) == (j > from);
      const auto steps = static_cast<double>(std::min(std::abs(i - from), std::abs(j - from)));
      covariance(static_cast<uint32_t>(i), static_cast<uint32_t>(j)) +=
          level + (same_side ? shape * steps : 0);
    }
  }
}

void CurveEstimate::pass(double seconds, uint32_t at) {
  loosen(kLevelDrift * kLevelDrift * seconds, kShapeDrift * kShapeDrift * seconds, at);
}

/// The level is open again. Of the shape, as much is forgotten as the device differs from before.
void CurveEstimate::changed(uint32_t at, double mb_per_s) {
  const double by = std::abs(std::log(mb_per_s) - mean_[at]);
  const double anew = std::min(1.0, by / kChangedWhole);
  const double kept = 1 - anew;
  const double level = mean_[at];
  for (double& mean : mean_) {
    mean = level + kept * (mean - level);
  }
  for (double& covariance : covariance_) {
    covariance *= kept * kept;
  }
  loosen(kLevelChanged * kLevelChanged, kShapeChanged * kShapeChanged * anew, at);
}

void CurveEstimate::begin_with(uint32_t at, const LearnedCurve& learned) {
  const bool has_shape = learned.points() > 1;
  for (uint32_t i = 0; i < points(); ++i) {
    mean_[i] = std::log(has_shape ? learned.mb_per_s(limit_at(i)) : learned.best().mb_per_s);
  }
  std::fill(covariance_.begin(), covariance_.end(), 0);
  const double shape = has_shape ? kShapeLearned : kHeightLearned;
  loosen(kLevelLearned * kLevelLearned, shape * shape, at);
}

}  // namespace ioweave::policy
