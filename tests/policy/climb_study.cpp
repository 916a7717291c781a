// How well `climb` does over many devices, loads, kinds of noise and seeds: prints, for each, the
// distribution of what docs/decisions/0009-climb.md is about. No test: those are in climb_test.cpp.
//
//   climb_study [seeds] [runs|changes]

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "climb_scenarios.hpp"

namespace ioweave::policy {
namespace {

using namespace testing_support;

/// The median, the 95th percentile and the worst.
struct Spread {
  double median;
  double p95;
  double worst;
};

Spread spread(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  const auto at = [&](double part) {
    return of[static_cast<size_t>(std::lround(part * static_cast<double>(of.size() - 1)))];
  };
  return {at(0.5), at(0.95), of.back()};
}

struct Shape {
  const char* name;
  unsigned nodes;
  bool shared;
  unsigned waves;
};

/// 48 cores per node; on a shared device 12 nodes of 4, so that it sees the same load.
Load load_of(const Shape& shape) {
  Load load;
  load.nodes = shape.nodes;
  load.waves = shape.waves;
  load.sizes_vary = 0.2;
  load.device = device();
  if (shape.shared) {
    load.device = shared(load.device);
    load.cores = 48 / shape.nodes;
  }
  return load;
}

void study_runs(unsigned seeds) {
  constexpr Shape kShapes[] = {{"1 node, 4 waves", 1, false, 4},
                               {"1 node, 20 waves", 1, false, 20},
                               {"12 nodes, 4 waves", 12, false, 4},
                               {"12 shared, 20 waves", 12, true, 20}};
  std::printf("%-20s %-20s %-10s | makespan/best static   | of no constraint | slow tasks %%\n",
              "load", "device", "noise");
  std::vector<double> all_ratios;
  std::vector<double> all_slow;
  for (const Shape& shape : kShapes) {
    for (const Kind& kind : kKinds) {
      for (const Disturbance& disturbance : disturbances()) {
        std::vector<double> ratios;
        std::vector<double> to_free;
        std::vector<double> slow;
        std::optional<Contenders> quiet;
        for (unsigned seed = 0; seed < (disturbance.is_random ? seeds : 1); ++seed) {
          Load load = load_of(shape);
          load.noise = disturbance.noise;
          load.wavers = disturbance.wavers;
          load.seed = seed;
          if (!quiet || load.wavers > 0) {
            quiet = contenders(load, kind.curve);
          }
          load.flow.constraint = climbing();
          Fluid run(load, kind.curve);
          const double makespan = run.run();
          ratios.push_back(makespan / quiet->best_static_s);
          to_free.push_back(makespan / quiet->free_s);
          slow.push_back(100 * run.slow_part());
        }
        all_ratios.insert(all_ratios.end(), ratios.begin(), ratios.end());
        all_slow.insert(all_slow.end(), slow.begin(), slow.end());
        const Spread ratio = spread(ratios);
        const Spread slow_part = spread(slow);
        std::printf("%-20s %-20s %-10s | %6.3f %6.3f %6.3f%s | %6.3f%s | %5.1f %5.1f %5.1f%s\n",
                    shape.name, kind.name, disturbance.name, ratio.median, ratio.p95, ratio.worst,
                    ratio.p95 > 1.03 ? " !" : "  ", spread(to_free).worst,
                    spread(to_free).p95 > 1.02 ? " !" : "  ", slow_part.median, slow_part.p95,
                    slow_part.worst, slow_part.median > 2 ? " !" : "");
      }
    }
  }
  const Spread ratio = spread(all_ratios);
  const Spread slow = spread(all_slow);
  std::printf("all runs: %.3f %.3f %.3f, slow %.1f %.1f %.1f\n", ratio.median, ratio.p95,
              ratio.worst, slow.median, slow.p95, slow.worst);
}

void study_changes(unsigned seeds) {
  std::printf("%-26s %-10s | tasks to 95 %% (there, back)   | efficiency after 50 (there, back)\n",
              "device", "noise");
  for (const Change& change : kChanges) {
    for (const Disturbance& disturbance : disturbances()) {
      std::vector<double> found[2];
      std::vector<double> after[2];
      for (unsigned seed = 0; seed < (disturbance.is_random ? seeds : 1); ++seed) {
        const std::vector<Return> returns = follow(change, disturbance, seed);
        for (size_t i = 0; i < returns.size(); ++i) {
          found[i % 2].push_back(static_cast<double>(returns[i].tasks));
          after[i % 2].push_back(returns[i].efficiency);
        }
      }
      std::printf("%-26s %-10s |", change.name, disturbance.name);
      for (const auto& of : found) {
        const Spread tasks = spread(of);
        std::printf(" %4.0f %4.0f %4.0f%s", tasks.median, tasks.p95, tasks.worst,
                    tasks.p95 > 50 ? " !" : "  ");
      }
      std::printf("|");
      for (auto& of : after) {
        for (double& value : of) {
          value = 1 - value;
        }
        const Spread lost = spread(of);
        std::printf(" %.3f %.3f %.3f ", 1 - lost.median, 1 - lost.p95, 1 - lost.worst);
      }
      std::printf("\n");
    }
  }
}

}  // namespace
}  // namespace ioweave::policy

int main(int argc, char** argv) {
  const unsigned seeds = argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 20;
  const std::string what = argc > 2 ? argv[2] : "";
  if (what != "changes") {
    ioweave::policy::study_runs(seeds);
  }
  if (what != "runs") {
    ioweave::policy::study_changes(seeds);
  }
  return 0;
}
