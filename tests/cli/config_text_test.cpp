#include "cli/config_text.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace ioweave::cli {
namespace {

TEST(Explain, NamesTheRuleThatWonAndThoseThatDidNot) {
  std::vector<config::Layer> layers(1);
  const config::Origin origin{config::LayerKind::user, "place"};
  layers[0].rules = {{"*.log", "off", origin, ""}, {"/var/**", "sync", origin, ""}};
  const config::Resolved resolved = config::resolve(layers);
  EXPECT_EQ(explain_text(resolved, "/var/x.log"),
            "/var/x.log: off\n"
            "  by rule '/**/*.log', place\n"
            "  not by rule '/var/**', place (sync): an earlier one matches\n"
            "  not by the policy of files without a rule, default (auto)\n");
  EXPECT_EQ(explain_text(resolved, "/x"),
            "/x: auto\n  by the policy of files without a rule, default\n");
}

}  // namespace
}  // namespace ioweave::cli
