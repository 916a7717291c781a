// The series of each mode against a plain list of who waits for whom.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "run.hpp"
#include "series.hpp"

namespace tiom {

static void PrintTo(Mode mode, std::ostream* out) {
  *out << mode_name(mode);
}

namespace {

using Key = std::tuple<unsigned, uint64_t, char, unsigned>;  // series, cycle, kind, number

/// Section 5.1 of the paper, written down task by task; kinds: 'b' both, 'c' computation, 'i' I/O.
struct Model {
  std::map<Key, std::vector<Key>> waits_for;

  Model(Mode mode, unsigned series, uint64_t cycles) {
    for (unsigned s = 0; s < series; ++s) {
      for (uint64_t c = 0; c < cycles / series + (s < cycles % series ? 1 : 0); ++c) {
        add_cycle(mode, s, c);
      }
    }
  }

  void add_cycle(Mode mode, unsigned s, uint64_t c) {
    if (mode == Mode::mix) {
      add({s, c, 'b', 0}, c == 0 ? Keys{} : Keys{{s, c - 1, 'b', 0}});
      return;
    }
    const unsigned computes = mode == Mode::fjc ? 4 : 1;
    const unsigned ios = mode == Mode::fjio ? 4 : 1;
    for (unsigned k = 0; k < computes; ++k) {
      add({s, c, 'c', k}, c == 0 ? Keys{} : all(s, c - 1, 'i', ios));
    }
    for (unsigned k = 0; k < ios; ++k) add({s, c, 'i', k}, all(s, c, 'c', computes));
  }

  using Keys = std::vector<Key>;
  static Keys all(unsigned s, uint64_t c, char kind, unsigned count) {
    Keys keys;
    for (unsigned k = 0; k < count; ++k) keys.emplace_back(s, c, kind, k);
    return keys;
  }
  void add(const Key& task, const Keys& before) { waits_for[task] = before; }
};

Key key_of(Mode mode, const Task& task) {
  const Stage& stage = stages_of(mode)[task.stage];
  return {task.series, task.cycle,
          stage.compute && stage.io ? 'b'
          : stage.io                ? 'i'
                                    : 'c',
          task.slot};
}

/// Ends tasks in a random order, and checks each that is released.
void check_against_model(Mode mode, unsigned series, uint64_t cycles, unsigned seed) {
  const Model model(mode, series, cycles);
  SeriesSet set({mode, series, cycles});
  std::vector<Task> ready;
  std::set<Key> released;
  std::set<Key> ended;
  const auto release = [&](const Task& task) {
    const Key key = key_of(mode, task);
    const auto known = model.waits_for.find(key);
    ASSERT_NE(known, model.waits_for.end());
    for (const Key& before : known->second) EXPECT_TRUE(ended.contains(before));
    EXPECT_TRUE(released.insert(key).second) << "released twice";
    ready.push_back(task);
  };
  set.start(release);
  std::mt19937 random(seed);
  bool last = false;
  while (!ready.empty()) {
    EXPECT_FALSE(last) << "tasks behind the last";
    // What may run is exactly what waits for nothing any more.
    size_t may_run = 0;
    for (const auto& [key, before] : model.waits_for) {
      const bool waits =
          std::ranges::any_of(before, [&](const Key& other) { return !ended.contains(other); });
      may_run += !waits && !ended.contains(key) ? 1 : 0;
    }
    ASSERT_EQ(ready.size(), may_run);
    const size_t pick = random() % ready.size();
    const Task task = ready[pick];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(pick));
    ended.insert(key_of(mode, task));
    last = set.ended(task, false, release);
  }
  EXPECT_TRUE(last);
  EXPECT_EQ(ended.size(), model.waits_for.size());
}

class TiomSeries : public testing::TestWithParam<Mode> {};

TEST_P(TiomSeries, ReleasesWhatTheModelAllows) {
  unsigned seed = 0;
  for (const unsigned series : {1u, 2u, 5u}) {
    for (const uint64_t cycles : {uint64_t{1}, uint64_t{4}, uint64_t{13}}) {
      SCOPED_TRACE(testing::Message() << series << " series, " << cycles << " cycles");
      check_against_model(GetParam(), series, cycles, ++seed);
    }
  }
}

TEST_P(TiomSeries, NumbersEachIoOnce) {
  const Shape shape{GetParam(), 3, 10};
  std::set<uint64_t> numbers;
  SeriesSet set(shape);
  std::vector<Task> ready;
  const auto release = [&](const Task& task) { ready.push_back(task); };
  set.start(release);
  while (!ready.empty()) {
    const Task task = ready.back();
    ready.pop_back();
    if (stages_of(shape.mode)[task.stage].io) {
      EXPECT_TRUE(numbers.insert(shape.io_number(task)).second);
    }
    static_cast<void>(set.ended(task, false, release));
  }
  ASSERT_EQ(numbers.size(), 10 * ios_per_cycle(shape.mode));
  EXPECT_EQ(*numbers.rbegin(), numbers.size() - 1);
}

TEST_P(TiomSeries, EndsEachSeriesBehindItsStageWhenAskedToStop) {
  SeriesSet set({GetParam(), 4, 400});
  std::vector<Task> ready;
  const auto release = [&](const Task& task) { ready.push_back(task); };
  set.start(release);
  const size_t first = ready.size();
  size_t ended = 0;
  bool last = false;
  for (; !ready.empty(); ++ended) {
    const Task task = ready.back();
    ready.pop_back();
    last = set.ended(task, true, release);
  }
  EXPECT_EQ(ended, first);
  EXPECT_TRUE(last);
}

INSTANTIATE_TEST_SUITE_P(Modes, TiomSeries,
                         testing::Values(Mode::mix, Mode::one_to_one, Mode::fjio, Mode::fjc),
                         [](const auto& one) { return "m" + std::string(mode_name(one.param)); });

TEST(TiomModes, HaveTheDependencyCountsOfThePaper) {
  const auto counts = [](Mode mode) {
    return std::tuple(stages_of(mode).size(), computes_per_cycle(mode), ios_per_cycle(mode));
  };
  EXPECT_EQ(counts(Mode::mix), std::tuple(1u, 1u, 1u));
  EXPECT_EQ(counts(Mode::one_to_one), std::tuple(2u, 1u, 1u));
  EXPECT_EQ(counts(Mode::fjio), std::tuple(2u, 1u, 4u));
  EXPECT_EQ(counts(Mode::fjc), std::tuple(2u, 4u, 1u));
}

TEST(TiomModes, ShareCyclesOutEvenly) {
  const Shape shape{Mode::mix, 4, 10};
  EXPECT_EQ(shape.cycles_of(0), 3u);
  EXPECT_EQ(shape.cycles_of(1), 3u);
  EXPECT_EQ(shape.cycles_of(2), 2u);
  EXPECT_EQ(shape.cycles_of(3), 2u);
  EXPECT_EQ((Shape{Mode::mix, 8, 3}.cycles_of(3)), 0u);
}

TEST(TiomSeriesSet, FindsOneLastTaskWhenThreadsEndThemAtOnce) {
  for (int round = 0; round < 200; ++round) {
    SeriesSet set({Mode::fjio, 8, 8});
    std::vector<Task> tasks;
    set.start([&](const Task& task) { tasks.push_back(task); });
    std::atomic<unsigned> last{0};
    std::atomic<unsigned> ended{0};
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::vector<Task> mine;
        for (size_t i = t; i < tasks.size(); i += 4) mine.push_back(tasks[i]);
        while (!mine.empty()) {
          const Task task = mine.back();
          mine.pop_back();
          ++ended;
          last += set.ended(task, false, [&](const Task& next) { mine.push_back(next); }) ? 1 : 0;
        }
      });
    }
    threads.clear();
    ASSERT_EQ(last, 1u);
    ASSERT_EQ(ended, 8u * 5);
  }
}

TEST(TiomBlockOrder, HasEachBlockOnceInEveryRun) {
  const BlockOrder order(1000, true);
  const BlockOrder again(1000, true);
  const BlockOrder straight(1000, false);
  std::set<uint64_t> blocks;
  size_t in_place = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    blocks.insert(order.block(i));
    EXPECT_EQ(order.block(i), again.block(i));
    EXPECT_EQ(straight.block(i), i);
    in_place += order.block(i) == i ? 1 : 0;
  }
  EXPECT_EQ(blocks.size(), 1000u);
  EXPECT_EQ(*blocks.rbegin(), 999u);
  EXPECT_LT(in_place, 100u);
  EXPECT_EQ(straight.block(1002), 2u);
}

}  // namespace
}  // namespace tiom
