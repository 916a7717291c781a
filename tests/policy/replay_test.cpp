// Recording a policy and telling another one the same.

#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/event_log.hpp"
#include "virtual_time.hpp"

namespace ioweave::policy {
namespace {

using namespace testing_support;

class PolicyReplay : public ::testing::Test {
 protected:
  /// Two operations on one slot: the second starts when the first has finished.
  std::string recorded() {
    std::string log;
    Policy policy;
    Recorder recorder(policy, [&](std::string_view line) { log.append(line) += '\n'; });
    std::string why;
    EXPECT_EQ(recorder.add_device(device_with_slots(1), why), 0);
    EXPECT_EQ(recorder.add_flow(FlowConfig{"reads", 0, Class::foreground, {}, 0}, why), 0);
    std::vector<Decision> out;
    recorder.on(Ready{1, 0, 0, 4096}, 10, out);
    recorder.on(Ready{2, 0, kAnyNode, 4096}, 20, out);
    recorder.on(Finished{1, 1e-3, 4096}, 30, out);
    EXPECT_EQ(out.size(), 2u);
    return log;
  }

  static Replayed replayed(const std::string& text) {
    std::istringstream log(text);
    return replay(log);
  }

  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in\n" << text;
    return text.replace(at, from.size(), to);
  }
};

TEST_F(PolicyReplay, ALogHoldsAllThatIsNeeded) {
  EXPECT_EQ(recorded(),
            "ioweave-policy-log 2\n"
            "device name=disk scope=node budget_mb_per_s=0 max_in_flight=1 scheduling=none "
            "weights=16,4,1\n"
            "flow name=reads device=0 class=foreground constraint=none max_in_flight=0\n"
            "10 ready operation=1 flow=0 node=0 bytes=4096\n"
            "> start operation=1 node=0\n"
            "20 ready operation=2 flow=0 node=any bytes=4096\n"
            "30 finished operation=1 seconds=0.001 bytes=4096\n"
            "> start operation=2 node=0\n");
}

TEST_F(PolicyReplay, DevicesAndFlowsThatWereThereBeforeTheRecorderAreWrittenFirst) {
  VirtualTime time;
  time.add(device());
  time.flow();
  std::vector<std::string> lines;
  const Recorder recorder(time.policy, [&](std::string_view line) { lines.emplace_back(line); });
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1].substr(0, 7), "device ");
  EXPECT_EQ(lines[2].substr(0, 5), "flow ");
}

TEST_F(PolicyReplay, WhatIsRefusedIsNotRecorded) {
  Policy policy;
  unsigned lines = 0;
  Recorder recorder(policy, [&](std::string_view) { ++lines; });
  std::string why;
  EXPECT_LT(recorder.add_flow(FlowConfig{}, why), 0);
  EXPECT_EQ(lines, 1u);
}

TEST_F(PolicyReplay, GivesTheSameDecisions) {
  const Replayed result = replayed(recorded());
  EXPECT_TRUE(result.same) << result.reason;
  EXPECT_EQ(result.events, 3u);
  EXPECT_EQ(result.decisions, 2u);
  EXPECT_EQ(result.line, 8u);
}

TEST_F(PolicyReplay, ReadsALogOfVersion1) {
  const std::string log =
      replaced(replaced(recorded(), "log 2", "log 1"), "bytes=4096\n> start operation=2",
               "bytes=4096 concurrency=1\n> start operation=2") +
      "40 sample device=0 node=0 bytes_per_second=1e+06 concurrency=1 limit_reached=0 seconds=1\n"
      "50 tick\n"
      "60 failed operation=2\n";
  const Replayed result = replayed(log);
  EXPECT_TRUE(result.same) << result.line << ": " << result.reason;
  EXPECT_EQ(result.events, 5u);
  EXPECT_EQ(result.line, 11u);
  const Replayed wrong = replayed(replaced(log, "operation=1 seconds", "operation=3 seconds"));
  EXPECT_EQ(wrong.line, 7u);
  EXPECT_EQ(wrong.reason, "operation 3 is not known");
}

TEST_F(PolicyReplay, TellsTheFirstDecisionThatDiffers) {
  const Replayed result =
      replayed(replaced(recorded(), "> start operation=2 node=0", "> start operation=2 node=1"));
  EXPECT_FALSE(result.same);
  EXPECT_EQ(result.line, 8u);
  EXPECT_EQ(result.reason,
            "the log has '> start operation=2 node=1', the policy decides "
            "'> start operation=2 node=0'");
}

TEST_F(PolicyReplay, TellsADecisionThatTheLogLacks) {
  const Replayed inside = replayed(replaced(recorded(), "> start operation=1 node=0\n", ""));
  EXPECT_EQ(inside.line, 5u);
  EXPECT_EQ(inside.reason,
            "before this line the policy decides '> start operation=1 node=0', which the log does "
            "not have");
  const Replayed at_the_end = replayed(replaced(recorded(), "> start operation=2 node=0\n", ""));
  EXPECT_FALSE(at_the_end.same);
}

TEST_F(PolicyReplay, TellsADecisionThatIsNotMade) {
  const Replayed result = replayed(replaced(recorded(), "max_in_flight=1", "max_in_flight=2") +
                                   "> limit flow=0 limit=1");
  EXPECT_EQ(result.line, 7u);  // The second operation does not wait any more.
  const Replayed extra = replayed(recorded() + "> limit flow=0 limit=1\n");
  EXPECT_EQ(extra.reason, "the log has '> limit flow=0 limit=1', the policy decides nothing more");
}

TEST_F(PolicyReplay, RefusesWhatNoPolicyWouldAccept) {
  EXPECT_EQ(replayed(recorded() + "40 finished operation=9 seconds=1 bytes=1\n").reason,
            "operation 9 is not known");
  EXPECT_EQ(replayed(recorded() + "29 node_up node=1\n").reason, "time goes back from 30 to 29 ns");
  EXPECT_EQ(
      replayed(recorded() + "flow name=x device=7 class=prefetch constraint=none max_in_flight=0\n")
          .reason,
      "flow 'x': device 7 does not exist; the last one is 0");
}

TEST_F(PolicyReplay, NamesTheLineThatCannotBeRead) {
  const Replayed result = replayed(replaced(recorded(), "20 ready", "20 raedy"));
  EXPECT_EQ(result.line, 6u);
  EXPECT_EQ(result.reason, "expected an event (ready, finished, ...), found 'raedy'");
}

TEST_F(PolicyReplay, WantsItsHeader) {
  EXPECT_EQ(replayed("").reason, "the log is empty");
  EXPECT_EQ(replayed("ioweave-policy-log 3\n").reason,
            "expected 'ioweave-policy-log 2' as the first line, found 'ioweave-policy-log 3'");
}

}  // namespace
}  // namespace ioweave::policy
