// The formulas against a small simulation of what they describe, on random items. A failure prints
// the seed. How far the bounds are off goes into the XML report as a property of the test.
#include "model/overlap.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace ioweave::model {
namespace {

constexpr double kExact = 1e-9;  // relative
constexpr unsigned kSeeds = 3000;

enum class Kind : uint8_t { read, compute, write };

struct Count {
  uint64_t started = 0;
  uint64_t ended = 0;

  [[nodiscard]] bool busy() const { return started > ended; }
};

/// How far a program has come. Items are numbered from 1.
struct Progress {
  Count read;
  Count compute;
  Count write;
};

/// What a program may begin next, and what its transfers share. A computation waits for its item
/// and for that before it in any case, a write for its computation.
struct Weave {
  std::function<bool(const Progress&, uint64_t item)> may_read;
  std::function<bool(const Progress&, uint64_t item)> may_compute;
  uint64_t write_devices = 1;
  /// Reads and writes share a device, which takes the read of a read and a write that wait since
  /// these times.
  std::function<bool(double read_s, double write_s)> one_device_reads = nullptr;
};

/// Item by item on virtual time: one input, one thread, and the devices written to.
class Simulation {
 public:
  Simulation(const Items& items, const Weave& weave) : items_(items), weave_(weave) {}

  /// When the last item is written.
  double seconds() {
    while (progress_.write.ended < items_.count) {
      while (start_one()) {
      }
      if (running_.empty()) {
        ADD_FAILURE() << "nothing may start";
        return -1;
      }
      end_one();
    }
    return now_s_;
  }

 private:
  struct Running {
    double end_s;
    Kind kind;
  };

  Count& count(Kind kind) {
    return kind == Kind::read      ? progress_.read
           : kind == Kind::compute ? progress_.compute
                                   : progress_.write;
  }

  void start(Kind kind, double seconds) {
    ++count(kind).started;
    running_.push_back({now_s_ + seconds, kind});
  }

  bool start_one() {
    const Count& read = progress_.read;
    const Count& compute = progress_.compute;
    const Count& write = progress_.write;
    if (read.ended > compute.started && !compute.busy() &&
        weave_.may_compute(progress_, compute.started + 1)) {
      start(Kind::compute, items_.compute_s);
      return true;
    }
    const uint64_t writing = write.started - write.ended;
    bool can_read =
        read.started < items_.count && !read.busy() && weave_.may_read(progress_, read.started + 1);
    bool can_write = compute.ended > write.started && writing < weave_.write_devices;
    if (can_read && !read_waits_since_s_) read_waits_since_s_ = now_s_;
    if (weave_.one_device_reads) {
      const bool idle = !read.busy() && writing == 0;
      can_read = can_read && idle;
      can_write = can_write && idle;
      if (can_read && can_write) {
        can_read = weave_.one_device_reads(*read_waits_since_s_, computed_at_s_[write.started]);
        can_write = !can_read;
      }
    }
    if (can_read) {
      read_waits_since_s_.reset();
      start(Kind::read, items_.read_s);
    } else if (can_write) {
      start(Kind::write, items_.write_s);
    }
    return can_read || can_write;
  }

  void end_one() {
    const auto first = std::ranges::min_element(running_, {}, &Running::end_s);
    now_s_ = first->end_s;
    ++count(first->kind).ended;
    if (first->kind == Kind::compute) computed_at_s_.push_back(now_s_);
    running_.erase(first);
  }

  const Items items_;
  const Weave& weave_;
  Progress progress_;
  std::vector<Running> running_;
  std::vector<double> computed_at_s_;  ///< by item, from when on it waits to be written
  std::optional<double> read_waits_since_s_;
  double now_s_ = 0;
};

double simulated_s(const Items& items, const Weave& weave) {
  return Simulation(items, weave).seconds();
}

/// A thread that reads, computes and waits for each write.
Weave synchronous() {
  return {.may_read = [](const Progress& p, uint64_t item) { return p.write.ended + 1 == item; },
          .may_compute = [](const Progress&, uint64_t) { return true; }};
}

/// A thread that reads and computes, while results lie in buffers until they are written.
Weave write_behind(uint64_t buffers, uint64_t devices) {
  return {.may_read =
              [buffers](const Progress& p, uint64_t item) {
                return p.compute.ended + 1 == item && p.write.ended + buffers >= item;
              },
          .may_compute = [](const Progress&, uint64_t) { return true; },
          .write_devices = devices};
}

/// A prefetcher that begins with the next item when the thread begins to compute (PPIS).
Weave prefetch() {
  return {
      .may_read = [](const Progress& p, uint64_t item) { return p.compute.started + 1 == item; },
      .may_compute = [](const Progress& p, uint64_t item) { return p.write.ended + 1 == item; },
      .one_device_reads = [](double, double) { return true; }};
}

/// Both, with so many buffers for input and output.
Weave both(uint64_t read_buffers, uint64_t write_buffers) {
  return {
      .may_read = [read_buffers](const Progress& p,
                                 uint64_t item) { return p.compute.ended + read_buffers >= item; },
      .may_compute = [write_buffers](
                         const Progress& p,
                         uint64_t item) { return p.write.ended + write_buffers >= item; }};
}

/// Random items, some of which need no time for something, and random numbers beside them.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  uint64_t number(uint64_t least, uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(least, most)(engine_);
  }

  double seconds() {
    return number(0, 9) == 0 ? 0 : std::exp(std::uniform_real_distribution<>(-4, 4)(engine_));
  }

  Items items() {
    Items items;
    items.count = number(1, 40);
    items.read_s = seconds();
    items.compute_s = seconds();
    items.write_s = seconds();
    return items;
  }

 private:
  std::mt19937 engine_;
};

void expect_exact(double simulated, double formula) {
  EXPECT_NEAR(simulated, formula, kExact * simulated);
}

/// How far a bound is off in the worst of all cases: 1 is exact.
class Farthest {
 public:
  void expect_at_most(double simulated, double bound) {
    EXPECT_LE(simulated, bound * (1 + kExact));
    if (simulated > 0) farthest_ = std::max(farthest_, bound / simulated);
  }
  void expect_at_least(double simulated, double bound) {
    EXPECT_GE(simulated * (1 + kExact), bound);
    if (bound > 0) farthest_ = std::max(farthest_, simulated / bound);
  }
  ~Farthest() { testing::Test::RecordProperty("farthest", std::to_string(farthest_)); }

 private:
  double farthest_ = 1;
};

void for_random(const std::function<void(Random&)>& check) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    check(random);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Synchronous, IsExact) {
  for_random([](Random& random) {
    const Items items = random.items();
    expect_exact(simulated_s(items, synchronous()), synchronous_s(items));
  });
}

TEST(Prefetch, IsExact) {
  for_random([](Random& random) {
    const Items items = random.items();
    expect_exact(simulated_s(items, prefetch()), prefetch_s(items));
  });
}

TEST(PrefetchApart, IsExactHoweverFarAhead) {
  for_random([](Random& random) {
    const Items items = random.items();
    const uint64_t ahead = random.number(1, 6);
    const Weave weave{
        .may_read = [ahead](const Progress& p,
                            uint64_t item) { return p.compute.started + ahead >= item; },
        .may_compute = [](const Progress& p, uint64_t item) { return p.write.ended + 1 == item; }};
    expect_exact(simulated_s(items, weave), prefetch_apart_s(items));
  });
}

TEST(WriteBehind, IsExactForAnyBuffersAndDevices) {
  for_random([](Random& random) {
    const Items items = random.items();
    const auto buffers = static_cast<uint32_t>(random.number(1, 12));
    const auto devices = static_cast<uint32_t>(random.number(1, 8));
    expect_exact(simulated_s(items, write_behind(buffers, devices)),
                 write_behind_s(items, buffers, devices));
  });
}

TEST(WriteBehind, GainsNothingByMoreBuffersThanOneAboveItsDevices) {
  for_random([](Random& random) {
    const Items items = random.items();
    const auto devices = static_cast<uint32_t>(random.number(1, 8));
    expect_exact(simulated_s(items, write_behind(items.count, devices)),
                 write_behind_s(items, devices + 1, devices));
  });
}

/// C + W + (n-1) p, the formula of the Cube paper.
double cube_s(const Items& items, uint32_t buffers, uint32_t devices) {
  return items.read_s + items.compute_s + items.write_s +
         static_cast<double>(items.count - 1) * write_behind_period_s(items, buffers, devices);
}

TEST(WriteBehind, IsThatOfTheCubePaperOnOneDevice) {
  for_random([](Random& random) {
    const Items items = random.items();
    expect_exact(simulated_s(items, write_behind(random.number(2, 12), 1)), cube_s(items, 2, 1));
  });
}

TEST(WriteBehind, IsBoundedByThatOfTheCubePaperOnSeveral) {
  Farthest farthest;
  for_random([&farthest](Random& random) {
    const Items items = random.items();
    const auto buffers = static_cast<uint32_t>(random.number(1, 12));
    const auto devices = static_cast<uint32_t>(random.number(2, 8));
    const double simulated = simulated_s(items, write_behind(buffers, devices));
    const double bound = cube_s(items, buffers, devices);
    farthest.expect_at_most(simulated, bound);
    EXPECT_LE(bound, (simulated + items.write_s) * (1 + kExact));
  });
}

TEST(OneDevice, IsBoundedWhereTheDeviceServesInOrderOfArrival) {
  Farthest farthest;
  for_random([&farthest](Random& random) {
    const Items items = random.items();
    Weave weave = both(random.number(2, 5), random.number(2, 5));
    weave.one_device_reads = [&random](double read_s, double write_s) {
      return read_s < write_s || (read_s == write_s && random.number(0, 1) == 0);
    };
    const double simulated = simulated_s(items, weave);
    const double bound = one_device_bound_s(items);
    farthest.expect_at_most(simulated, bound);
    EXPECT_LE(bound, (simulated + items.compute_s) * (1 + kExact));
    if (items.compute_s >= items.read_s + items.write_s) expect_exact(simulated, bound);
  });
}

TEST(OneDevice, MayTakeLongerThanTheBoundWhereReadsOrWritesAlwaysGoFirst) {
  // Every other computation waits for a buffer that the device's favourite keeps it from serving.
  Weave weave = both(2, 2);
  for (const bool reads_first : {true, false}) {
    weave.one_device_reads = [reads_first](double, double) { return reads_first; };
    const Items items = reads_first ? Items{10, 1, 1, 0} : Items{10, 0, 1, 1};
    EXPECT_DOUBLE_EQ(one_device_bound_s(items), 11);
    EXPECT_DOUBLE_EQ(simulated_s(items, weave), 15);
  }
}

TEST(SeparateChannels, IsExact) {
  for_random([](Random& random) {
    const Items items = random.items();
    expect_exact(simulated_s(items, both(random.number(2, 5), random.number(2, 5))),
                 separate_channels_s(items));
  });
}

/// Each core takes the next item as soon as it is free; transfers need no other time.
double simulated_on_cores_s(const Items& items, double io_cpu_s, uint32_t cores) {
  std::vector<double> free_at_s(cores, 0);
  for (uint64_t i = 0; i < items.count; ++i) {
    *std::ranges::min_element(free_at_s) += items.compute_s + io_cpu_s;
  }
  return std::ranges::max(free_at_s);
}

TEST(ProcessorBound, IsReachedWhereItemsFillTheCores) {
  Farthest farthest;
  for_random([&farthest](Random& random) {
    Items items = random.items();
    const double io_cpu_s = random.seconds();
    const auto cores = static_cast<uint32_t>(random.number(1, 8));
    farthest.expect_at_least(simulated_on_cores_s(items, io_cpu_s, cores),
                             processor_bound_s(items, io_cpu_s, cores));
    items.count *= cores;
    expect_exact(simulated_on_cores_s(items, io_cpu_s, cores),
                 processor_bound_s(items, io_cpu_s, cores));
  });
}

TEST(Overlap, OfNoItemsTakesNoTime) {
  const Items none{0, 1, 1, 1};
  EXPECT_EQ(synchronous_s(none), 0);
  EXPECT_EQ(prefetch_s(none), 0);
  EXPECT_EQ(hideable_read_s(none), 0);
  EXPECT_EQ(write_behind_s(none, 2), 0);
  EXPECT_EQ(one_device_bound_s(none), 0);
  EXPECT_EQ(separate_channels_s(none), 0);
  EXPECT_EQ(processor_bound_s(none, 1, 1), 0);
}

TEST(Overlap, OfOneItemIsSynchronous) {
  const Items one{1, 2, 3, 1};
  EXPECT_EQ(prefetch_s(one), synchronous_s(one));
  EXPECT_EQ(hideable_read_s(one), 0);
  EXPECT_EQ(write_behind_s(one, 4, 2), synchronous_s(one));
  EXPECT_EQ(one_device_bound_s(one), synchronous_s(one));
  EXPECT_EQ(separate_channels_s(one), synchronous_s(one));
}

TEST(Overlap, ByPrefetchingIsTwiceAsFastAtMost) {
  for (const uint64_t n : {1U, 2U, 4U, 100U, 1'000'000U}) {
    const Items items{n, 1, 1, 0};
    const auto count = static_cast<double>(n);
    EXPECT_NEAR(synchronous_s(items) / prefetch_s(items), 2 * count / (count + 1), kExact);
  }
  const Items many{1'000'000'000'000, 1, 1, 0};
  EXPECT_NEAR(synchronous_s(many) / prefetch_s(many), 2, kExact);
}

TEST(Overlap, OnSeparateChannelsIsThreeTimesAsFastAtMost) {
  for (const uint64_t n : {1U, 2U, 4U, 100U, 1'000'000U}) {
    const Items items{n, 1, 1, 1};
    const auto count = static_cast<double>(n);
    EXPECT_NEAR(synchronous_s(items) / separate_channels_s(items), 3 * count / (count + 2), kExact);
  }
  const Items many{1'000'000'000'000, 1, 1, 1};
  EXPECT_NEAR(synchronous_s(many) / separate_channels_s(many), 3, kExact);
}

TEST(Overlap, HidesAllReadsButTheFirstWhereComputationIsLonger) {
  for (const uint64_t n : {1U, 2U, 4U, 100U}) {
    const Items items{n, 1, 1.5, 0.3};
    const auto count = static_cast<double>(n);
    EXPECT_NEAR(synchronous_s(items) - prefetch_s(items), hideable_read_s(items), kExact);
    EXPECT_NEAR(hideable_read_s(items) / (count * items.read_s), 1 - 1 / count, kExact);
  }
}

TEST(Overlap, SavesTheShorterOfReadAndCompute) {
  for (const Items& items : {Items{5, 1, 2, 0.3}, Items{5, 2, 1, 0.3}}) {
    EXPECT_DOUBLE_EQ(synchronous_s(items) - prefetch_s(items), 4);
  }
}

TEST(Overlap, OfFourItemsByHand) {
  // R 2, C 3, W 4.
  const Items items{4, 2, 3, 4};
  EXPECT_DOUBLE_EQ(synchronous_s(items), 36);
  EXPECT_DOUBLE_EQ(prefetch_s(items), 9 + 3 * (3 + 4));
  EXPECT_DOUBLE_EQ(hideable_read_s(items), 6);
  EXPECT_DOUBLE_EQ(one_device_bound_s(items), 9 + 3 * 6);
  EXPECT_DOUBLE_EQ(separate_channels_s(items), 9 + 3 * 4);
  EXPECT_DOUBLE_EQ(processor_bound_s(items, 0.5, 2), 7);
}

struct WriteCase {
  Items items;
  uint32_t buffers;
  uint32_t devices;
  double period_s;
  double seconds;
};

TEST(WriteBehind, ByHand) {
  for (const WriteCase& c : {
           // Limited by the thread: 5 x 3, and the last write.
           WriteCase{{5, 0, 3, 2}, 2, 1, 3, 17},
           // By the device: the first result, and 5 writes in turn.
           WriteCase{{5, 0, 1, 4}, 2, 1, 4, 21},
           // One buffer is synchronous.
           WriteCase{{5, 0, 1, 4}, 1, 1, 5, 25},
           // By two devices: the writes begin at 1 and 2, 5 and 6, and 9.
           WriteCase{{5, 0, 1, 4}, 3, 2, 2, 13},
           // And one item more, of which the period tells 15: that write begins at 10.
           WriteCase{{6, 0, 1, 4}, 3, 2, 2, 14},
           // By two buffers: a new one begins at 5, when the first is written.
           WriteCase{{4, 0, 1, 4}, 2, 2, 2.5, 11},
           // Reading is the thread's work as well.
           WriteCase{{5, 1, 2, 2}, 2, 1, 3, 17},
       }) {
    SCOPED_TRACE(testing::Message() << c.items.count << " items, " << c.buffers << " buffers, "
                                    << c.devices << " devices");
    EXPECT_DOUBLE_EQ(write_behind_period_s(c.items, c.buffers, c.devices), c.period_s);
    EXPECT_DOUBLE_EQ(write_behind_s(c.items, c.buffers, c.devices), c.seconds);
    EXPECT_DOUBLE_EQ(simulated_s(c.items, write_behind(c.buffers, c.devices)), c.seconds);
  }
}

}  // namespace
}  // namespace ioweave::model
