#include "cli/advice.hpp"

#include <array>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ioweave::cli {
namespace {

using stats::Series;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kMiB = 1 << 20;

/// A process of ten seconds, in slots of a quarter.
Series series_of(double read_share, double write_share, int32_t pid = 7) {
  Series series;
  series.pid = pid;
  series.slot_s = 0.25;
  series.resize(40);
  for (size_t i = 0; i < 40; ++i) {
    if (read_share > 0) {
      series.read_calls[i] = series.read_turns[i] = 20;
      series.read_bytes[i] = static_cast<uint64_t>(25 * kMiB);
      series.read_seconds[i] = read_share * 0.25;
    }
    if (write_share > 0) {
      series.write_calls[i] = series.write_turns[i] = 20;
      series.write_bytes[i] = static_cast<uint64_t>(25 * kMiB);
      series.write_seconds[i] = write_share * 0.25;
    }
  }
  return series;
}

void add_file(stats::RunReport& report, const std::string& path, uint64_t device,
              const Series& series) {
  stats::FileReport file;
  file.path = path;
  file.device = device;
  file.series = {series};
  report.files.push_back(file);
}

stats::RunReport report_of(double read_share, double write_share) {
  stats::RunReport report;
  report.command = {"./filter", "in put"};
  report.machine.cpus_allowed = 2;
  report.config.policy = config::RunPolicy::off;
  report.outcome.wall_seconds = 10;
  report.outcome.user_seconds = 5;
  stats::ProcessReport process;
  process.pid = 7;
  process.active = true;
  process.seconds = 10;
  report.processes = {process};
  if (read_share > 0) add_file(report, "/data/in", 1, series_of(read_share, 0));
  if (write_share > 0) add_file(report, "/out/put", 2, series_of(0, write_share));
  return report;
}

Advice advice_on(const stats::RunReport& report, const AdviceInput& input = {}) {
  std::string why;
  std::optional<ObservedProcess> process = observed_process(report, why);
  EXPECT_TRUE(process) << why;
  return advise(report, process.value_or(ObservedProcess{}), input);
}

const Prediction* first_of(const Advice& advice) {
  const auto ranked = ranking(advice);
  return ranked.empty() ? nullptr : ranked.front();
}

TEST(Advice, AReaderThatWaitsAsLongAsItComputesIsToldToPrefetch) {
  const stats::RunReport report = report_of(0.5, 0);
  const Advice advice = advice_on(report);
  const Prediction* const best = first_of(advice);
  ASSERT_NE(best, nullptr);
  EXPECT_EQ(best->way, Way::prefetch);
  EXPECT_NEAR(best->seconds, 5.15, 0.1);  // 3 % of the gain go into comparing
  EXPECT_THAT(advice_text(report, advice), HasSubstr("ioweave run -- ./filter 'in put'"));
}

TEST(Advice, AReaderThatHardlyWaitsIsToldThatItIsNotWorthIt) {
  const stats::RunReport report = report_of(0.03, 0);
  const Advice advice = advice_on(report);
  EXPECT_EQ(first_of(advice), nullptr);
  const std::string text = advice_text(report, advice);
  EXPECT_THAT(text, HasSubstr("Not worth it"));
  EXPECT_THAT(text, HasSubstr("the most is 0.0 %"));
  EXPECT_THAT(text, Not(HasSubstr("Do this")));
}

TEST(Advice, AGainIsWorthItFromFivePercentOfTheTimeOn) {
  for (const double waiting : {0.048, 0.052}) {  // nearly all of it is gained
    SCOPED_TRACE(waiting);
    const bool is_worth_it = waiting > 0.05;
    const stats::RunReport report = report_of(0, waiting);
    const Advice advice = advice_on(report);
    EXPECT_EQ(ranking(advice).empty(), !is_worth_it);
    const std::string text = advice_text(report, advice);
    EXPECT_EQ(text.find("not worth it") == std::string::npos, is_worth_it) << text;
    EXPECT_EQ(text.find("Do this") != std::string::npos, is_worth_it) << text;
    EXPECT_EQ(nlohmann::json::parse(advice_json(report, advice))["worth_it"], is_worth_it);
  }
}

/// Predictions of a run of ten seconds.
Advice advice_of(double prefetch_s, double write_behind_s, double both_s) {
  Advice advice;
  advice.plain_s = 10;
  advice.predictions = {{.way = Way::prefetch, .seconds = prefetch_s},
                        {.way = Way::write_behind, .buffers = 2, .seconds = write_behind_s},
                        {.way = Way::both, .buffers = 2, .seconds = both_s}};
  return advice;
}

std::vector<Way> ways_of(const Advice& advice) {
  std::vector<Way> ways;
  for (const Prediction* const each : ranking(advice)) ways.push_back(each->way);
  return ways;
}

TEST(Advice, AWayThatTakesMoreChangesComesFirstOnlyIfItGainsFivePercentOfTheTimeMore) {
  using enum Way;
  EXPECT_THAT(ways_of(advice_of(7, 9.9, 6.6)), ElementsAre(prefetch, both));  // 4 % more
  EXPECT_THAT(ways_of(advice_of(7, 9.9, 6.4)), ElementsAre(both, prefetch));  // 6 % more
  EXPECT_THAT(ways_of(advice_of(7, 6.6, 6.4)), ElementsAre(both, prefetch, write_behind));
  EXPECT_THAT(ways_of(advice_of(7, 6.4, 6)), ElementsAre(write_behind, prefetch, both));
  const std::string text = advice_text(report_of(0.5, 0.5), advice_of(7, 9.9, 6.6));
  const size_t first = text.find("Do this: prefetch, 30.0 % less time");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_GT(text.find("Or: both, 2 buffers, 34.0 % less time"), first) << text;
}

TEST(Advice, TimeInsideFsyncIsTimeOfWriting) {
  stats::RunReport report = report_of(0, 0.5);
  Series& series = report.files[0].series[0];
  std::swap(series.write_seconds, series.sync_seconds);
  const Advice advice = advice_on(report);
  double write_s = 0;
  double compute_s = 0;
  for (const model::Slot& slot : advice.process.slots) {
    write_s += slot.write_s;
    compute_s += slot.compute_s;
  }
  EXPECT_NEAR(write_s, 5, 0.01);
  EXPECT_NEAR(compute_s, 5, 0.01);
  const Prediction* const best = first_of(advice);
  ASSERT_NE(best, nullptr);
  EXPECT_EQ(best->way, Way::write_behind);
  EXPECT_NEAR(best->seconds, 5, 0.1);
}

TEST(Advice, AWriterGetsLinesOfCodeWithTheSizeOfItsBuffers) {
  const stats::RunReport report = report_of(0, 0.5);
  const Advice advice = advice_on(report);
  const Prediction* const best = first_of(advice);
  ASSERT_NE(best, nullptr);
  EXPECT_EQ(best->way, Way::write_behind);
  EXPECT_EQ(best->buffers, 2u);
  EXPECT_THAT(advice_text(report, advice), HasSubstr("ioweave.WriteStream(buffer_bytes=1310720"));
}

TEST(Advice, TheCurveOfTheDeviceSaysHowManyBuffersAreBest) {
  AdviceInput input;
  // One stream takes 20 s for the 1000 MiB, four take 5 s.
  std::string why;
  const double mb = kMiB / 1e6;
  const std::vector<model::Curve::Point> points{{1, 50 * mb}, {4, 200 * mb}, {8, 200 * mb}};
  ASSERT_TRUE(model::Curve::make(points, input.write_curve, why)) << why;
  const Advice advice = advice_on(report_of(0, 0.5), input);
  const Prediction* const best = first_of(advice);
  ASSERT_NE(best, nullptr);
  EXPECT_EQ(best->buffers, 5u);
}

TEST(Advice, WhatTheDeviceCannotReadFasterIsNoGain) {
  AdviceInput input;
  input.rates.read_bytes_per_s = 101 * kMiB;  // 1000 MiB were read in 10 s
  const Advice advice = advice_on(report_of(0.4, 0), input);
  EXPECT_EQ(first_of(advice), nullptr);
  EXPECT_EQ(advice.bound.limit, model::Limit::read_device);
}

TEST(Advice, ASmallFileOnTheWayIsNoInput) {
  stats::RunReport report = report_of(0.5, 0);
  Series small;
  small.pid = 7;
  small.start_s = 5;
  small.slot_s = 0.25;
  small.resize(1);
  small.read_calls[0] = small.read_turns[0] = 1;
  small.read_bytes[0] = 1000;
  add_file(report, "/etc/settings", 1, small);
  std::string why;
  std::optional<ObservedProcess> process = observed_process(report, why);
  ASSERT_TRUE(process) << why;
  EXPECT_EQ(std::ranges::count_if(process->slots, &model::Slot::opens_input), 1);
  report.files.back().series[0].read_bytes[0] = static_cast<uint64_t>(100 * kMiB);
  process = observed_process(report, why);
  ASSERT_TRUE(process) << why;
  EXPECT_EQ(std::ranges::count_if(process->slots, &model::Slot::opens_input), 2);
}

TEST(Advice, RandomReadsAreNotPrefetched) {
  stats::RunReport report = report_of(0.5, 0);
  report.files[0].series[0].jumps = 790;  // of 800 reads
  const Advice advice = advice_on(report);
  EXPECT_EQ(best_of_way(advice, Way::prefetch), nullptr);
  EXPECT_THAT(advice_text(report, advice), HasSubstr("follow no pattern"));
}

TEST(Advice, OfSeveralProcessesTheOneWithMostIoCounts) {
  stats::RunReport report = report_of(0.5, 0);
  add_file(report, "/data/little", 1, series_of(0.1, 0, 8));
  std::string why;
  const auto process = observed_process(report, why);
  ASSERT_TRUE(process);
  EXPECT_EQ(process->pid, 7);
  EXPECT_EQ(process->read_file, "/data/in");
  EXPECT_EQ(process->others, 1u);
}

TEST(Advice, ACallLongerThanItsSlotIsSpreadOverThoseBefore) {
  stats::RunReport report = report_of(0.5, 0);
  Series& series = report.files[0].series[0];
  series.resize(0);
  series.resize(40);
  series.read_calls[19] = series.read_turns[19] = 1;
  series.read_bytes[19] = static_cast<uint64_t>(100 * kMiB);
  series.read_seconds[19] = 5;
  std::string why;
  const auto process = observed_process(report, why);
  ASSERT_TRUE(process);
  double read_s = 0;
  double compute_s = 0;
  for (const model::Slot& slot : process->slots) {
    read_s += slot.read_s;
    compute_s += slot.compute_s;
  }
  EXPECT_NEAR(read_s, 5, 0.01);
  EXPECT_NEAR(compute_s, 5, 0.01);
}

TEST(Advice, ARunWithoutSeriesIsRefusedWithTheReason) {
  std::string why;
  stats::RunReport report;
  report.remarks = {"It is linked statically."};
  EXPECT_FALSE(observed_process(report, why));
  EXPECT_THAT(why, HasSubstr("nothing to overlap"));
  EXPECT_THAT(why, HasSubstr("linked statically"));
  stats::FileReport file;
  file.call[0].bytes = 10;
  report.files = {file};
  EXPECT_FALSE(observed_process(report, why));
  EXPECT_THAT(why, HasSubstr("older Ioweave"));
}

TEST(Advice, ATooShortRunIsRefused) {
  stats::RunReport report = report_of(0.5, 0);
  report.outcome.wall_seconds = report.processes[0].seconds = 0.01;
  std::string why;
  EXPECT_FALSE(observed_process(report, why));
  EXPECT_THAT(why, HasSubstr("too short"));
}

TEST(Advice, WildValuesOfARunFileGiveAnAnswerOrAReason) {
  constexpr std::array<double, 4> kTimes{0, 1e-300, 1e300, 1.7e308};
  constexpr std::array<uint64_t, 3> kCounts{0, 1, UINT64_MAX};
  size_t answers = 0;
  for (const double slot_s : kTimes) {
    for (const double wild_s : kTimes) {
      for (const uint64_t count : kCounts) {
        stats::RunReport report = report_of(0.5, 0.5);
        for (stats::FileReport& file : report.files) {
          Series& series = file.series[0];
          series.slot_s = slot_s;
          series.start_s = wild_s;
          series.read_bytes[3] = series.write_turns[3] = series.read_turns[5] = count;
          series.read_seconds[7] = series.write_seconds[9] = wild_s;
          series.jumps = count;
        }
        std::string why;
        const auto process = observed_process(report, why);
        if (!process) {
          EXPECT_FALSE(why.empty());
          continue;
        }
        const Advice advice = advise(report, *process, {});
        EXPECT_FALSE(advice_text(report, advice).empty());
        EXPECT_FALSE(advice_json(report, advice).empty());
        ++answers;
      }
    }
  }
  EXPECT_GT(answers, 0u);
  stats::RunReport endless = report_of(0.5, 0);
  endless.processes[0].start_seconds = endless.processes[0].seconds = 1.7e308;
  std::string why;
  EXPECT_FALSE(observed_process(endless, why));
  EXPECT_THAT(why, HasSubstr("no run can have"));
}

TEST(Advice, ImagesThatExecReplacedAreOneProcess) {
  stats::RunReport report = report_of(0.5, 0);
  stats::ProcessReport& image = report.processes[0];
  image.start_seconds = 2;
  image.seconds = 8;
  stats::ProcessReport shell = image;
  shell.start_seconds = 0;
  shell.seconds = 2;
  report.processes.insert(report.processes.begin(), shell);
  std::string why;
  const auto process = observed_process(report, why);
  ASSERT_TRUE(process) << why;
  EXPECT_DOUBLE_EQ(process->seconds, 10);
}

TEST(Advice, NoPredictionIsBelowTheProcessorTime) {
  stats::RunReport report = report_of(0.5, 0);
  report.outcome.user_seconds = 15;  // on two cores
  const Advice advice = advice_on(report);
  for (const Prediction& each : advice.predictions) EXPECT_GE(each.seconds, 7.5);
  EXPECT_EQ(advice.bound.limit, model::Limit::processors);
}

TEST(Advice, AShortFileOnABusyDeviceIsNotHelped) {
  AdviceInput input;
  input.rates.read_bytes_per_s = 200 * kMiB;  // 5 s of the 10 s
  stats::RunReport report = report_of(0.5, 0);
  Series& series = report.files[0].series[0];
  for (uint64_t& bytes : series.read_bytes) bytes /= 2;  // less than 75 times 8 MiB
  EXPECT_NE(first_of(advice_on(report, input)), nullptr);
  input.rates.read_bytes_per_s = 55 * kMiB;  // 9 s of the 10 s
  EXPECT_EQ(first_of(advice_on(report, input)), nullptr);
}

TEST(Advice, SeveralDevicesAreShownWhereTheyGainAndNotRecommended) {
  const stats::RunReport report = report_of(0, 0.9);
  const Advice advice = advice_on(report);
  EXPECT_THAT(advice_text(report, advice), HasSubstr("buffers, 4 devices"));
  for (const Prediction* const each : ranking(advice)) EXPECT_EQ(each->devices, 1u);
}

TEST(Advice, SeveralDevicesAreNotShownWhereTheyGainNothing) {
  const stats::RunReport report = report_of(0, 0.3);  // one device hides all
  const std::string text = advice_text(report, advice_on(report));
  EXPECT_THAT(text, HasSubstr("write-behind"));
  EXPECT_THAT(text, Not(ContainsRegex("[24] devices")));
}

TEST(Advice, ARunIsCutInto128SlotsOfItsProcess) {
  std::string why;
  const auto process = observed_process(report_of(0.5, 0), why);
  ASSERT_TRUE(process) << why;
  EXPECT_EQ(process->slots.size(), 128u);
  EXPECT_NEAR(process->slot_s, 10.0 / 128, 1e-9);
}

TEST(Advice, ThreadsThatReadAtOnceAreTakenForOne) {
  stats::RunReport report = report_of(0.8, 0);
  add_file(report, "/data/more", 1, series_of(0.8, 0));  // 1.6 s in each second
  std::string why;
  const auto process = observed_process(report, why);
  ASSERT_TRUE(process) << why;
  for (const model::Slot& slot : process->slots) {
    EXPECT_NEAR(slot.read_s, process->slot_s, 1e-9);
    EXPECT_NEAR(slot.compute_s, 0, 1e-9);
  }
}

TEST(Advice, WritesToADiskThatNothingSyncsAreThePageCaches) {
  constexpr uint64_t kDisk = 0xfe00;  // major 254
  stats::RunReport report = report_of(0, 0.5);
  report.files[0].device = kDisk;
  std::string why;
  EXPECT_TRUE(observed_process(report, why)->writes_are_cached);
  report.files[0].degrade = stats::Degrade::direct;
  EXPECT_FALSE(observed_process(report, why)->writes_are_cached);
  report.files[0].degrade = stats::Degrade::none;
  report.files[0].series[0].sync_seconds[3] = 0.1;
  EXPECT_FALSE(observed_process(report, why)->writes_are_cached);
  EXPECT_FALSE(observed_process(report_of(0, 0.5), why)->writes_are_cached);  // a network's
}

TEST(Advice, TasksAreABoundAndNotRecommended) {
  const Advice advice = advice_on(report_of(0.1, 0));
  const Prediction* const tasks = best_of_way(advice, Way::tasks);
  ASSERT_NE(tasks, nullptr);
  EXPECT_NEAR(tasks->seconds, 5, 0.6);  // 9 s of computation on two cores; 1 s of reading beside
  EXPECT_EQ(first_of(advice), best_of_way(advice, Way::prefetch));
}

TEST(Advice, WhatWasTriedIsInTextAndJson) {
  const stats::RunReport report = report_of(0.5, 0);
  Advice advice = advice_on(report);
  EXPECT_EQ(verified_text(advice), "");
  advice.verified = Verified{{.way = Way::prefetch, .seconds = 6}, 5, true};
  EXPECT_THAT(verified_text(advice), HasSubstr("+20.0 %"));
  const auto json = nlohmann::json::parse(advice_json(report, advice));
  EXPECT_DOUBLE_EQ(json["verified"]["measured_s"], 5);
  EXPECT_NEAR(json["verified"]["error"].get<double>(), 0.2, 1e-9);
}

TEST(Advice, TheJsonHasEveryPredictionAndTheBound) {
  const stats::RunReport report = report_of(0.3, 0.3);
  const Advice advice = advice_on(report);
  const auto json = nlohmann::json::parse(advice_json(report, advice));
  EXPECT_EQ(json["schema"], "ioweave.advice/1");
  EXPECT_EQ(json["predictions"].size(), advice.predictions.size());
  EXPECT_EQ(json["predictions"].size(), 3u + 2 * 3 * 8 + 1);
  EXPECT_EQ(json["ranking"].size(), 3u);
  EXPECT_THAT(json["ranking"][0]["how"].get<std::string>(), HasSubstr("ioweave"));
  EXPECT_EQ(json["best"]["prefetch"]["lookahead_bytes"], 128u << 20);
  EXPECT_TRUE(json["worth_it"].get<bool>());
  EXPECT_LE(json["bound_s"].get<double>(), 10.0);
  for (const auto& each : json["predictions"]) {
    if (each.value("devices", 1) > 1 || each["way"] == "I/O tasks") continue;
    EXPECT_GE(each["seconds"].get<double>(), json["bound_s"].get<double>() - 1e-6);
  }
}

TEST(Advice, ThePictureIsOneSvgWithTheBound) {
  stats::RunReport report = report_of(0.3, 0.3);
  report.command = {"a<b&c"};
  const std::string svg = advice_svg(report, advice_on(report));
  EXPECT_THAT(svg, ::testing::StartsWith("<svg xmlns"));
  EXPECT_THAT(svg, HasSubstr("bound"));
  EXPECT_THAT(svg, HasSubstr("a&lt;b&amp;c"));
  EXPECT_THAT(svg, Not(HasSubstr("href")));
}

}  // namespace
}  // namespace ioweave::cli
