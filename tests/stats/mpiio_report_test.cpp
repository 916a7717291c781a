#include "stats/mpiio_report.hpp"

#include <string>

#include <gtest/gtest.h>

#include "config/names.hpp"

namespace ioweave::stats {
namespace {

size_t place_of(std::string_view schedule) {
  return config::index_of(config::kScheduleNames, schedule);
}

MpiioReport report_of(std::string_view lines) {
  RunReport report;
  add_mpiio_lines(lines, report);
  return report.mpiio;
}

TEST(MpiioLines, AreSummedOverRanks) {
  const MpiioReport mpiio = report_of(
      R"({"rank":0,"files":1,"reads":10,"schedule":"ppis","depth":2,"is_settled":1,)"
      R"("gain_of_two":1.25,"ahead_bytes":1000,"hit_reads":4,"left_alone":{"view":1,"write":0},)"
      R"("why":"no memory"})"
      "\n"
      R"({"rank":1,"files":2,"reads":30,"schedule":"ppis","depth":6,"is_settled":0,)"
      R"("gain_of_two":1.0,"ahead_bytes":500,"hit_reads":3,"left_alone":{"view":2},)"
      R"("why":"no memory"})"
      "\n"
      R"({"rank":2,"files":0,"reads":0,"schedule":"normal","depth":0,"gain_of_two":0.0,"why":""})"
      "\n");
  EXPECT_EQ(mpiio.ranks, 3u);
  EXPECT_EQ(mpiio.settled_ranks, 1u);
  EXPECT_EQ(mpiio.schedules.at(place_of("ppis")), 2u);
  EXPECT_EQ(mpiio.schedules.at(place_of("normal")), 1u);
  EXPECT_EQ(mpiio.least_depth, 2u) << "a rank that read nothing ahead has no depth";
  EXPECT_EQ(mpiio.most_depth, 6u);
  EXPECT_EQ(mpiio.least_gain_of_two, 1.0);
  EXPECT_EQ(mpiio.most_gain_of_two, 1.25);
  EXPECT_EQ(mpiio.files, 3u);
  EXPECT_EQ(mpiio.reads, 40u);
  EXPECT_EQ(mpiio.ahead_bytes, 1500u);
  EXPECT_EQ(mpiio.hit_reads, 7u);
  EXPECT_EQ(mpiio.left_alone, (std::map<std::string, uint64_t>{{"view", 3}}));
  EXPECT_EQ(mpiio.why, std::vector<std::string>{"no memory"});
}

TEST(MpiioLines, OfAnotherKindAreIgnored) {
  EXPECT_EQ(report_of("").ranks, 0u);
  EXPECT_EQ(report_of("no JSON\n[1]\n{\"other\":1}\n{\"rank\":0,\"rea").ranks, 0u);
  const MpiioReport mpiio =
      report_of(R"({"rank":0,"reads":-1,"schedule":"new","gain_of_two":"x","left_alone":7})");
  EXPECT_EQ(mpiio.ranks, 1u);
  EXPECT_EQ(mpiio.reads, 0u);
}

TEST(MpiioLines, SayThatThePageCacheWasFilledAndThatNobodyComparedIt) {
  RunReport report;
  add_mpiio_lines(R"({"rank":0,"ahead_bytes":1})", report);
  EXPECT_EQ(report.engine, "page-cache prefetch");
  EXPECT_FALSE(report.totals.hidden_is_known);
  RunReport compared;
  compared.totals.prefetch_operations = 1;
  add_mpiio_lines(R"({"rank":0,"ahead_bytes":1})", compared);
  EXPECT_TRUE(compared.totals.hidden_is_known) << "of other files";
}

}  // namespace
}  // namespace ioweave::stats
