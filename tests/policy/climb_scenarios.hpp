#pragma once

// Devices, noise and changes that `climb` has to cope with, for climb_test.cpp and
// climb_study.cpp.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "fluid.hpp"
#include "virtual_time.hpp"

namespace ioweave::policy::testing_support {

inline Constraint climbing() {
  Constraint constraint;
  constraint.kind = Constraint::Kind::climb;
  return constraint;
}

// ---- Devices -----------------------------------------------------------------------------------

/// At its best with 6 to 24 streams, as in the table of the design.
inline double ssd(unsigned n) {
  return 450 * std::min(1.0, n / 6.0) / (1 + std::max(0.0, n - 24.0) / 100);
}

/// At its best, 1, where n is `peak`; half of that far from it.
inline double peaking(double peak, unsigned n) {
  const double x = n / peak;
  return 2 * x / (1 + x * x);
}

inline double peak_12(unsigned n) {
  return 450 * peaking(12, n);
}

inline double parallel_file_system(unsigned n) {
  return 365 * peaking(50, n);
}

inline double disk(unsigned n) {
  return 157 / (1 + 0.075 * (n - 1));
}

inline double flat(unsigned /*n*/) {
  return 200;
}

/// A store that gives each client the same and never has enough of them.
inline double growing(unsigned n) {
  return 10.0 * n;
}

/// Steep to 4 streams, then slowly on to 32, from where it falls.
inline double two_slopes(unsigned n) {
  return n <= 4 ? 75.0 * n : n <= 32 ? 300 + 5.0 * (n - 4) : 440 / (1 + (n - 32) / 50.0);
}

struct Kind {
  const char* name;
  double (*curve)(unsigned);
};

inline constexpr Kind kKinds[] = {{"Ssd", ssd},
                                  {"Peak12", peak_12},
                                  {"ParallelFileSystem", parallel_file_system},
                                  {"Disk", disk},
                                  {"Flat", flat},
                                  {"Growing", growing},
                                  {"TwoSlopes", two_slopes}};

// ---- Noise -------------------------------------------------------------------------------------

struct Disturbance {
  const char* name;
  Noise noise;
  double wavers;
  bool is_random;
};

/// The deviation is a second's; shorter samples are off by more.
inline Noise lognormal(double deviation) {
  return [deviation](const Moved& moved, std::mt19937_64& random) {
    const double of_sample = deviation / std::sqrt(moved.seconds);
    return moved.mb * std::lognormal_distribution<>(0, of_sample)(random);
  };
}

/// 5 % everywhere, and once in thirty seconds the device is busy with itself for 0.6 s.
inline double outliers(const Moved& moved, std::mt19937_64& random) {
  const bool hangs = std::bernoulli_distribution(moved.seconds / 30)(random);
  const double left = 1 - std::min(1.0, 0.6 / moved.seconds);
  return lognormal(0.05)(moved, random) * (hangs ? left : 1);
}

/// A cache that holds back up to 30 % of a second's bytes, which the next second then writes.
inline double bursts(const Moved& moved, std::mt19937_64& random) {
  const double all = moved.mb + moved.carried_mb;
  const double held_back_s = std::uniform_real_distribution<>(0, 0.3)(random);
  moved.carried_mb = std::min(all, moved.mb / moved.seconds * held_back_s);
  return all - moved.carried_mb;
}

/// Bytes are counted when a call of 64 MB has returned.
inline double whole_calls(const Moved& moved, std::mt19937_64& /*random*/) {
  const double all = moved.mb + moved.carried_mb;
  const double counted = std::floor(all / 64) * 64;
  moved.carried_mb = all - counted;
  return counted;
}

inline std::vector<Disturbance> disturbances() {
  return {{"none", {}, 0, false},
          {"5 %", lognormal(0.05), 0, true},
          {"15 %", lognormal(0.15), 0, true},
          {"outliers", outliers, 0, true},
          {"bursts", bursts, 0, true},
          {"calls", whole_calls, 0, false},
          {"wavers", lognormal(0.03), 0.08, true}};
}

// ---- What there is to compare with -------------------------------------------------------------

struct Contenders {
  double best_static_s;
  double free_s;  ///< without a constraint
};

inline Contenders contenders(const Load& load, const Curve& curve) {
  Contenders best{std::numeric_limits<double>::infinity(), 0};
  Load fixed_limit = load;
  best.free_s = Fluid(fixed_limit, curve).run();
  best.best_static_s = best.free_s;
  for (const uint32_t limit : {1u, 2u, 4u, 6u, 8u, 12u, 16u, 24u, 32u, 40u, 48u, 56u, 64u, 96u}) {
    fixed_limit.device.max_in_flight = limit;
    best.best_static_s = std::min(best.best_static_s, Fluid(fixed_limit, curve).run());
  }
  return best;
}

// ---- A device that changes ---------------------------------------------------------------------

struct Change {
  const char* name;
  double (*first)(unsigned);
  double (*then)(unsigned);
  bool seen = true;  ///< at the old limit
};

template <int peak>
double peak_at(unsigned n) {
  return 400 * peaking(peak, n);
}

inline double slow_ssd(unsigned n) {
  return ssd(n) / 2;
}

inline double slow_file_system(unsigned n) {
  return parallel_file_system(n) / 2;
}

/// The knee of the SSD at 12 instead of 6, and just so the end of what it takes well.
inline double late_ssd(unsigned n) {
  return 450 * std::min(1.0, n / 12.0) / (1 + std::max(0.0, n - 48.0) / 100);
}

/// Gunther's law without contention, as the simulated runs of bench/ have it.
template <int peak, int most>
double scalable(unsigned n) {
  const auto shape = [](double x) { return x / (1 + x * (x - 1) / (peak * peak)); };
  return most * shape(n) / shape(peak);
}

/// 75 MB/s a stream, up to `most`: with as many as were best at a lower one, nothing else is seen.
template <int most>
double capped(unsigned n) {
  return std::min<double>(most, 75.0 * n) / (1 + std::max(0.0, n - most / 20.0) / 100);
}

inline constexpr Change kChanges[] = {
    {"8 to 32", peak_at<8>, peak_at<32>},
    {"6 to 24", peak_at<6>, peak_at<24>},
    {"1 to 16", peak_at<1>, peak_at<16>},
    {"4 to 16", peak_at<4>, peak_at<16>},
    {"4 to 64", peak_at<4>, peak_at<64>},
    {"ssd to half its speed", ssd, slow_ssd},
    {"file system to half", parallel_file_system, slow_file_system},
    {"ssd to a later knee", ssd, late_ssd},
    {"8 to 24 and faster", scalable<8, 250>, scalable<24, 450>, false},
    {"6 to 12 unseen", capped<450>, capped<900>, false}};

/// How a run went on after a change.
struct Return {
  /// That ended until it did 95 % of what can be done, at most all of the period; without those
  /// that ran at the change and were too many for what the device is now: they cannot be stopped.
  uint64_t tasks = 0;
  double efficiency = 0;  ///< once 50 had ended, on average
};

/// A shared device under 12 nodes changes every 400 operations, four times, the first is learning.
inline std::vector<Return> follow(const Change& change, const Disturbance& disturbance,
                                  uint64_t seed) {
  constexpr uint64_t kPeriod = 400;
  Load load;
  load.nodes = 12;
  load.cores = 8;
  load.waves = 25;
  load.device = shared(device());
  load.flow.constraint = climbing();
  load.noise = disturbance.noise;
  load.wavers = disturbance.wavers;
  load.seed = seed;
  load.changes_every = kPeriod;
  load.then = change.then;
  load.sizes_vary = 0.2;
  Fluid run(load, change.first);
  std::vector<Return> returns(4, {kPeriod, 0});
  std::vector<double> sum(4, 0);
  std::vector<unsigned> samples(4, 0);
  uint64_t last = 0;
  uint64_t too_many = 0;
  run.run([&](const Fluid& now) {
    const uint64_t period = now.ended() / kPeriod;
    const uint64_t in_period = now.ended() % kPeriod;
    if (period == 0 || period > returns.size()) {
      return;
    }
    Return& found = returns[period - 1];
    if (period != last) {
      last = period;
      too_many = now.too_many(0);
    }
    if (now.efficiency() >= 0.95) {
      found.tasks = std::min(found.tasks, in_period - std::min(in_period, too_many));
    }
    if (in_period >= 50 + too_many) {
      sum[period - 1] += now.efficiency();
      ++samples[period - 1];
    }
  });
  for (size_t i = 0; i < returns.size(); ++i) {
    returns[i].efficiency = sum[i] / std::max(1u, samples[i]);
  }
  return returns;
}

}  // namespace ioweave::policy::testing_support
