#include "calls/mpiio/report.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ioweave::calls {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST(MpiioReport, SaysOfARankWhatItsPlanKnows) {
  MpiioCounts counts;
  counts.files = 2;
  counts.reads = 40;
  counts.leave_alone(LeftAlone::view);
  iow_plan_stats stats{};
  stats.schedule = IOW_PLAN_PPIS;
  stats.depth = 3;
  stats.is_settled = 1;
  stats.gain_of_two = 1.0625;
  stats.planned_reads = 32;
  stats.planned_bytes = 3200;
  stats.ahead_bytes = 3000;
  stats.hit_reads = 20;
  stats.late_reads = 5;
  stats.unplanned_reads = 4;
  stats.hit_bytes = 2500;
  stats.own_bytes = 400;
  stats.unread_bytes = 300;
  stats.stale_bytes = 200;
  stats.failed_slices = 1;
  stats.cached_bytes = 50;
  stats.wait_ns = 77;
  const std::string line = format_mpiio_report(1, counts, stats, "why \"not\"");
  EXPECT_THAT(
      line,
      StartsWith(
          R"({"rank":1,"files":2,"reads":40,"schedule":"ppis","depth":3,"is_settled":1,)"
          R"("gain_of_two":1.062,"behind_writes":0,"behind_bytes":0,"planned_reads":32,)"
          R"("planned_bytes":3200,"ahead_bytes":3000,"hit_reads":20,"late_reads":5,)"
          R"("unplanned_reads":4,"hit_bytes":2500,"own_bytes":400,"unread_bytes":300,)"
          R"("stale_bytes":200,"failed_slices":1,"cached_bytes":50,"wait_ns":77,"left_alone":{)"));
  EXPECT_THAT(line, HasSubstr(R"("view":1,)"));
  EXPECT_THAT(line, EndsWith("},\"why\":\"why \\\"not\\\"\"}\n"));
}

}  // namespace
}  // namespace ioweave::calls
