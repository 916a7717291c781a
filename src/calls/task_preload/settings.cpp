#include "calls/task_preload/settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/nearest_name.hpp"
#include "config/names.hpp"

namespace ioweave::calls {
namespace {

using tasking::HostKind;

/// The runtimes with ALPI by their own names, too: what a program is linked to is what people know.
constexpr std::array<std::string_view, 8> kHosts{"auto", "none",  "alpi",   "tbb",
                                                 "nosv", "nodes", "nanos6", "ompss2"};
constexpr std::array<HostKind, kHosts.size()> kHostKinds{
    HostKind::automatic, HostKind::none, HostKind::alpi, HostKind::tbb,
    HostKind::alpi,      HostKind::alpi, HostKind::alpi, HostKind::alpi};
constexpr std::string_view kOff = "none";  // who follows such a suggestion loses the feature

constexpr std::array<std::string_view, 2> kReapers{"thread", "task"};
constexpr uint32_t kMostPaused = 1'000'000;

void warn(std::string& warnings, std::string_view variable, std::string_view value,
          std::string_view what) {
  warnings.append("ioweave: ").append(variable).append("=").append(value);
  warnings.append(" is ignored: ").append(what).append("\n");
}

/// The index of the variable's value in `names`, 0 where it is not set or none of them.
size_t choice(const char* variable, std::span<const std::string_view> names,
              std::string& warnings) {
  const char* const value = std::getenv(variable);
  if (value == nullptr || *value == '\0') {
    return 0;
  }
  const auto found = std::find(names.begin(), names.end(), value);
  if (found != names.end()) {
    return static_cast<size_t>(found - names.begin());
  }
  std::string what;
  if (const std::string_view near = nearest_name(value, names); !near.empty() && near != kOff) {
    what.append("did you mean ").append(near).append("?");
  } else {
    what = "it is one of";
    for (const std::string_view name : names) {
      what.append(" ").append(name);
    }
  }
  warn(warnings, variable, value, what);
  return 0;
}

}  // namespace

TaskSettings task_settings(std::string& warnings) {
  TaskSettings settings;
  settings.service.tasks = kHostKinds[choice("IOWEAVE_TASKS", kHosts, warnings)];
  settings.service.reap_in_task = choice("IOWEAVE_TASK_REAPER", kReapers, warnings) == 1;
  settings.service.engine =
      static_cast<engine::Kind>(choice("IOWEAVE_TASK_ENGINE", config::kEngineNames, warnings));
  if (const char* const value = std::getenv("IOWEAVE_MAX_PAUSED")) {
    const std::string_view text(value);
    uint32_t most = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), most);
    if (error == std::errc{} && end == text.data() + text.size() && most >= 1 &&
        most <= kMostPaused) {
      settings.service.max_paused = most;
    } else {
      warn(warnings, "IOWEAVE_MAX_PAUSED", value, "it is a number from 1 to 1000000");
    }
  }
  if (const char* const path = std::getenv("IOWEAVE_TASK_REPORT")) {
    settings.report = path;
  }
  return settings;
}

}  // namespace ioweave::calls
