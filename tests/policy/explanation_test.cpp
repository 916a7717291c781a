// An explanation as JSON.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "virtual_time.hpp"

namespace ioweave::policy {
namespace {

using namespace testing_support;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(PolicyExplanation, OfAFixedConstraint) {
  VirtualTime time;
  time.add(device_with_budget(450));
  EXPECT_EQ(to_json(time.policy.explain(time.flow(Class::foreground, fixed(20)))),
            R"({"flow":"flow","device":"disk","policy":"fixed","phase":"fixed",)"
            R"("constraint_mb_per_s":20,"limit":22,"nodes":1,"learning_node":null,)"
            R"("keeps_others_out":false,"epoch_full":false,"epochs":[],"registry":[],)"
            R"("choices":[],"samples":[],"samples_heard":0})");
}

TEST(PolicyExplanation, OfAutoTellsEpochsRegistryAndChoices) {
  VirtualTime time;
  time.add(device_with_budget(100));
  const FlowId flow =
      time.flow(Class::foreground, {Constraint::Kind::auto_bounded, 0, 0, 50, 100, 2});
  time.ready(1, flow);
  time.ready(2, flow);
  time.tell(Finished{1, 4, 0});
  const std::string learning = to_json(time.policy.explain(flow));
  EXPECT_THAT(learning, StartsWith(R"j({"flow":"flow","device":"disk","policy":"auto(50,100,2)",)j"
                                   R"("phase":"learning","constraint_mb_per_s":50,"limit":2,)"
                                   R"("nodes":1,"learning_node":0,"keeps_others_out":false,)"
                                   R"("epoch_full":true,"epochs":[{"constraint_mb_per_s":50,)"
                                   R"("limit":2,"tasks":1,"mean_s":4,"registered":false,)"
                                   R"("why":"under way: 1 of 2 ended"}],"registry":[],)"));
  time.tell(Finished{2, 5, 0});
  time.ready(3, flow);
  time.tell(Finished{3, 3, 0});
  time.ready(4, flow);
  const std::string chosen = to_json(time.policy.explain(flow));
  EXPECT_THAT(chosen, HasSubstr(R"("phase":"chosen")"));
  EXPECT_THAT(chosen, HasSubstr(R"("registry":[{"constraint_mb_per_s":50,"limit":2,"mean_s":4.5},)"
                                R"({"constraint_mb_per_s":100,"limit":1,"mean_s":3}])"));
  EXPECT_THAT(
      chosen,
      HasSubstr(R"("waiting":1,"constraint_mb_per_s":100,"estimates":[)"
                R"({"constraint_mb_per_s":50,"seconds":3},)"
                R"({"constraint_mb_per_s":100,"seconds":3}]}],"samples":[],"samples_heard":0})"));
}

TEST(PolicyExplanation, OfClimbTellsSamples) {
  VirtualTime time;
  time.add(device());
  const FlowId flow = time.flow(Class::foreground, {Constraint::Kind::climb});
  time.ready(1, flow);
  time.ready(2, flow);
  time.pass(1);
  time.tell(Sample{0, 0, 5e6});
  EXPECT_THAT(to_json(time.policy.explain(flow)),
              HasSubstr(R"("phase":"climbing","constraint_mb_per_s":0,"limit":2,)"));
  EXPECT_THAT(to_json(time.policy.explain(flow)),
              HasSubstr(R"("samples":[{"now_ns":1000003000,"limit":1,"mb_per_s":5,"used":true,)"
                        R"("why":"best 1: 5 MB/s; tries 2: )"));
}

TEST(PolicyExplanation, NamesOfAnyBytesGiveValidJson) {
  Explanation explanation;
  explanation.flow = "a\"\\\n\x7f\xc3\xa9";
  explanation.device = "\xff\xc3\xed\xa0\x80z";
  EXPECT_THAT(to_json(explanation),
              StartsWith("{\"flow\":\"a\\\"\\\\\\u000a\x7f\xc3\xa9\",\"device\":\""
                         "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\""));
}

}  // namespace
}  // namespace ioweave::policy
