#include "stats/run_report.hpp"

#include <array>
#include <utility>

#include <gtest/gtest.h>

namespace ioweave::stats {
namespace {

FileReport read_file(const std::string& path, uint64_t bytes, double seconds) {
  FileReport file;
  file.path = path;
  file.call[static_cast<size_t>(CallClass::read)] = {1, bytes, 0, seconds};
  return file;
}

RunReport finished(RunGatherer&& gatherer) {
  RunReport report;
  std::move(gatherer).finish(report);
  return report;
}

PrefetchReport prefetch_of(const std::string& path, double saved_seconds, bool is_compared) {
  PrefetchReport prefetch;
  prefetch.path = path;
  prefetch.operations = 3;
  prefetch.bytes = 100;
  prefetch.used_bytes = 75;
  prefetch.saved_seconds = saved_seconds;
  prefetch.is_compared = is_compared;
  prefetch.trial_seconds = 0.25;
  return prefetch;
}

TEST(RunReport, HiddenIsWhatPrefetchingSaved) {
  RunGatherer gatherer;
  gatherer.add({}, {read_file("/in", 100, 2)});
  gatherer.add(prefetch_of("/in", 2, true));
  gatherer.add(prefetch_of("/in", 1, true));
  const RunReport report = finished(std::move(gatherer));
  EXPECT_DOUBLE_EQ(report.totals.hidden_seconds, 3);
  EXPECT_DOUBLE_EQ(report.totals.trial_seconds, 0.5);
  EXPECT_TRUE(report.totals.hidden_is_known);
  EXPECT_DOUBLE_EQ(report.totals.exposed_seconds, 2);
  EXPECT_DOUBLE_EQ(report.totals.io_seconds, 5);
  EXPECT_DOUBLE_EQ(report.totals.hidden_share(), 0.6);
  EXPECT_EQ(report.totals.prefetch_operations, 6u);
  EXPECT_EQ(report.totals.prefetched_bytes, 200u);
  EXPECT_EQ(report.totals.prefetched_used_bytes, 150u);
  ASSERT_EQ(report.files.size(), 1u);
  EXPECT_EQ(report.files[0].processes, 1u);
}

TEST(RunReport, WhatPrefetchingCostIsNegative) {
  RunGatherer gatherer;
  gatherer.add({}, {read_file("/in", 100, 2)});
  gatherer.add(prefetch_of("/in", -0.5, true));
  const RunReport report = finished(std::move(gatherer));
  EXPECT_DOUBLE_EQ(report.totals.hidden_seconds, -0.5);
  EXPECT_DOUBLE_EQ(report.totals.io_seconds, 1.5);
}

TEST(RunReport, WhatWasNotComparedIsNotKnown) {
  RunGatherer gatherer;
  gatherer.add(prefetch_of("/unseen", 0, false));
  const RunReport report = finished(std::move(gatherer));
  EXPECT_FALSE(report.totals.hidden_is_known);
  ASSERT_EQ(report.files.size(), 1u);
  EXPECT_EQ(report.files[0].path, "/unseen");
}

TEST(RunReport, HiddenIsAlsoWhatEarlyWritingSaved) {
  RunGatherer gatherer;
  gatherer.add({}, {read_file("/in", 100, 2)});
  gatherer.add(prefetch_of("/in", 1, true));
  gatherer.add(EarlyWriteReport{"/out", 1, 2, {3, 100, 10}, 0.5, true});
  gatherer.add(EarlyWriteReport{"/out", 1, 2, {1, 50, 0}, 0.25, true});
  const RunReport report = finished(std::move(gatherer));
  EXPECT_DOUBLE_EQ(report.totals.hidden_seconds, 1.75);
  EXPECT_EQ(report.totals.early.cycles, 4u);
  EXPECT_EQ(report.totals.early.bytes, 150u);
  EXPECT_EQ(report.totals.early.lost_bytes, 10u);
  EXPECT_TRUE(report.totals.hidden_is_known);
  EXPECT_EQ(report.engine, "page-cache prefetch, early writeback");
  ASSERT_EQ(report.files.size(), 2u);
  EXPECT_EQ(report.files[1].early.bytes, 150u);
}

TEST(RunReport, EarlyWritingWithoutAComparisonIsNotKnown) {
  RunGatherer gatherer;
  gatherer.add(EarlyWriteReport{"/out", 1, 2, {1, 100, 0}, 0, false});
  const RunReport report = finished(std::move(gatherer));
  EXPECT_FALSE(report.totals.hidden_is_known);
  EXPECT_EQ(report.engine, "early writeback");
}

TEST(RunReport, NothingPrefetchedHidesNothing) {
  RunGatherer gatherer;
  gatherer.add({}, {read_file("/in", 100, 2)});
  const RunReport report = finished(std::move(gatherer));
  EXPECT_EQ(report.totals.hidden_seconds, 0);
  EXPECT_TRUE(report.totals.hidden_is_known);
}

TEST(RunReport, WaitingForAPipeIsNotExposedIo) {
  FileReport pipe = read_file("pipe:[1]", 100, 60);
  pipe.degrade = Degrade::not_regular;
  RunGatherer gatherer;
  gatherer.add({}, {pipe, read_file("/in", 10, 1)});
  const RunReport report = finished(std::move(gatherer));
  EXPECT_DOUBLE_EQ(report.totals.exposed_seconds, 1);
  EXPECT_EQ(report.totals.call[0].bytes, 10u);
  EXPECT_EQ(report.totals.files, 1u);
}

TEST(RunReport, OnePathOfSeveralProcessesIsOneFile) {
  ProcessReport first;
  first.pid = 1;
  ProcessReport second;
  second.pid = 2;
  FileReport degraded = read_file("/in", 5, 1);
  degraded.degrade = Degrade::mapped;
  RunGatherer gatherer;
  gatherer.add(first, {read_file("/in", 10, 2)});
  gatherer.add(second, {degraded});
  const RunReport report = finished(std::move(gatherer));
  ASSERT_EQ(report.files.size(), 1u);
  EXPECT_EQ(report.files[0].processes, 2u);
  EXPECT_EQ(report.files[0].of(CallClass::read).bytes, 15u);
  EXPECT_EQ(report.files[0].degrade, Degrade::mapped);
}

TEST(RunReport, AFileThatOneProcessReadWithGainIsNotWithoutGain) {
  FileReport made = read_file("/in", 5, 1);
  made.degrade = Degrade::no_gain;
  FileReport gained = read_file("/in", 10, 2);
  gained.prefetched_bytes = 10;
  gained.prefetched_used_bytes = 8;
  for (const auto& order : {std::array{made, gained}, std::array{gained, made}}) {
    RunGatherer gatherer;
    gatherer.add({}, {order[0]});
    gatherer.add({}, {order[1]});
    EXPECT_EQ(finished(std::move(gatherer)).files.at(0).degrade, Degrade::none);
  }
}

TEST(RunReport, AnExecIsASecondImageOfOneProcess) {
  ProcessReport process;
  process.pid = 7;
  RunGatherer gatherer;
  gatherer.add(process, {});
  gatherer.add(process, {});
  const RunReport report = finished(std::move(gatherer));
  EXPECT_EQ(report.totals.processes, 1u);
  EXPECT_EQ(report.totals.images, 2u);
}

TEST(RunReport, WhatWasSeenFromOutsideCountsWhereNoReadsWereCounted) {
  const auto seen = [](const std::string& path) {
    FileReport file;
    file.path = path;
    file.series.resize(1);
    file.series[0].source = Series::Source::positions;
    return file;
  };
  RunGatherer gatherer;
  gatherer.add({}, {read_file("/counted", 10, 1)});
  gatherer.add_seen(seen("/counted"));
  gatherer.add_seen(seen("/unseen"));
  const RunReport report = finished(std::move(gatherer));
  ASSERT_EQ(report.files.size(), 2u);
  EXPECT_TRUE(report.files[0].series.empty());
  EXPECT_EQ(report.files[1].path, "/unseen");
  EXPECT_EQ(report.files[1].series.size(), 1u);
}

TEST(RunReport, TheMostExposedFileComesFirst) {
  RunGatherer gatherer;
  gatherer.add({}, {read_file("/a", 1, 0.1), read_file("/b", 1, 0.3), read_file("/d", 1, 0.2),
                    read_file("/c", 9, 0.2)});
  const RunReport report = finished(std::move(gatherer));
  std::string order;
  for (const FileReport& file : report.files) order += file.path;
  EXPECT_EQ(order, "/b/c/d/a");
}

}  // namespace
}  // namespace ioweave::stats
