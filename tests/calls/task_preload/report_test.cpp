#include "calls/task_preload/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ioweave::calls {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kNoRoom =
    "more than 1024 tasks were to be paused at once (max_paused): calls beyond that are plain";

TaskReport report_of(std::string_view why, uint64_t no_room) {
  TaskReport report{"ALPI 1.2 (nOS-V)", why, {}};
  report.stats.pauses = 5040;
  report.stats.at_once = 7;
  report.stats.made_plain = no_room;
  report.stats.no_room = no_room;
  report.stats.alone = 3;
  report.stats.most_paused = 1024;
  report.stats.bound = 11;
  return report;
}

TEST(TaskReportLine, HasEveryCount) {
  const std::string line = format_report(report_of("", 0));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto wanted = nlohmann::json::parse(R"json({"tasks": "ALPI 1.2 (nOS-V)", "pauses": 5040,
    "at_once": 7, "made_plain": 0, "alone": 3, "most_paused": 1024, "bound": 11,
    "lacked_room": false, "why": ""})json");
  EXPECT_EQ(nlohmann::json::parse(line), wanted);
}

TEST(TaskReportLine, IsJsonWhateverTheRuntimeIsCalled) {
  TaskReport report = report_of("\"\n\xFF", 0);
  report.tasks = R"(my "runtime" \1)";
  const auto json = nlohmann::json::parse(format_report(report));
  EXPECT_EQ(json["tasks"], report.tasks);
  EXPECT_EQ(json["why"], "\"\n\xEF\xBF\xBD");
}

TEST(TaskReportLine, SaysWhyThereIsNoRuntime) {
  const auto json = nlohmann::json::parse(format_report({"none", "no ALPI runtime is loaded", {}}));
  EXPECT_EQ(json["tasks"], "none");
  EXPECT_EQ(json["why"], "no ALPI runtime is loaded");
  EXPECT_EQ(json["pauses"], 0);
}

TEST(TaskReportLine, SaysThatCallsLackedRoom) {
  const auto json = nlohmann::json::parse(format_report(report_of(kNoRoom, 4960)));
  EXPECT_EQ(json["lacked_room"], true);
  EXPECT_EQ(json["made_plain"], 4960);
}

TEST(RoomWarning, NamesTheVariableAndHowOften) {
  EXPECT_THAT(describe_lack_of_room(report_of(kNoRoom, 4960)),
              AllOf(HasSubstr("4960 calls in tasks were made plain for want of room"),
                    HasSubstr("more than 1024 tasks"), HasSubstr("IOWEAVE_MAX_PAUSED=N")));
  EXPECT_THAT(describe_lack_of_room(report_of(kNoRoom, 1)),
              HasSubstr("1 call in a task was made plain"));
}

TEST(RoomWarning, IsEmptyWhereCallsWerePlainForAnotherReasonOrNot) {
  TaskReport report = report_of("parallel tasks cannot pause", 0);
  report.stats.made_plain = 12;
  EXPECT_THAT(describe_lack_of_room(report), IsEmpty());
  EXPECT_THAT(describe_lack_of_room(report_of("", 0)), IsEmpty());
}

}  // namespace
}  // namespace ioweave::calls
