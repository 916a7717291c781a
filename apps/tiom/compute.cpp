#include "compute.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "statistics.hpp"

namespace tiom {
namespace {

constexpr uint64_t kPieceTurns = 100'000;  // 0.1 to 0.2 ms: short beside a time slice

/// Runs pieces of `turns` on all threads until the time is over; nanoseconds of each piece. What
/// ran while another thread had not started yet does not count.
std::vector<double> time_pieces(unsigned threads, double seconds, uint64_t turns) {
  std::vector<std::vector<double>> times(threads);
  std::atomic<unsigned> started{0};
  std::atomic<uint64_t> end_ns{0};
  const auto work = [&](std::vector<double>& mine) {
    if (++started == threads) {
      end_ns = ioweave::now_ns() + static_cast<uint64_t>(seconds * 1e9);
    }
    while (end_ns == 0) compute(turns / 16 + 1);
    do {
      const uint64_t before = ioweave::now_ns();
      compute(turns);
      mine.push_back(static_cast<double>(ioweave::now_ns() - before));
    } while (ioweave::now_ns() < end_ns);
  };
  {
    std::vector<std::jthread> pool;
    pool.reserve(threads);
    for (std::vector<double>& mine : times) pool.emplace_back([&] { work(mine); });
  }
  std::vector<double> all;
  for (const std::vector<double>& mine : times) all.insert(all.end(), mine.begin(), mine.end());
  return all;
}

}  // namespace

[[gnu::noinline]] void compute(uint64_t turns) {
  uint64_t x = turns;
  for (uint64_t i = 0; i < turns; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(x));
  }
}

Calibration calibration_of(unsigned threads, uint64_t turns, const std::vector<double>& pieces_ns) {
  const Quartiles piece = quartiles(pieces_ns);
  Calibration calibration;
  calibration.threads = threads;
  calibration.turns_per_ms = static_cast<double>(turns) * 1e6 / piece.median;
  calibration.spread = (piece.third - piece.first) / piece.median;
  return calibration;
}

Calibration calibrate(unsigned threads, double seconds) {
  Calibration calibration =
      calibration_of(threads, kPieceTurns, time_pieces(threads, seconds, kPieceTurns));
  calibration.checked_ms =
      median(time_pieces(threads, seconds / 3, calibration.turns(1'000'000))) / 1e6;
  return calibration;
}

}  // namespace tiom
