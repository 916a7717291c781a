#pragma once

// What `ioweave config` prints.

#include <string>
#include <vector>

#include "config/settings.hpp"

namespace ioweave::cli {

/// Every setting with its value and where that is from, then the rules in their order.
[[nodiscard]] std::string show_text(const config::Resolved& resolved);

/// Which policy a file gets. The first of the rules that match decides; without one the policy of
/// files without a rule does.
struct Explanation {
  std::string path;
  config::RunPolicy policy = config::RunPolicy::automatic;
  std::vector<config::ResolvedRule> matches;
};
[[nodiscard]] Explanation explain(const config::Resolved& resolved, const std::string& path);

/// The policy of an absolute path, what decided it, and what else would have matched.
[[nodiscard]] std::string explain_text(const config::Resolved& resolved, const std::string& path);

/// The table of all settings as Markdown: docs/configuration.md holds exactly this.
[[nodiscard]] std::string settings_list();

/// As the interposer sees it: relative to `directory`, links and ".." resolved as far as it exists.
[[nodiscard]] std::string absolute_path(const std::string& path, const std::string& directory);

}  // namespace ioweave::cli
