#include "calls/task_preload/settings.hpp"

#include <array>
#include <cstdlib>
#include <span>
#include <string_view>

#include "config/environment.hpp"
#include "config/names.hpp"
#include "config/task_variables.hpp"

namespace ioweave::calls {
namespace {

using tasking::HostKind;

/// The runtimes with ALPI by their own names, too: what a program is linked to is what people know.
constexpr std::array<std::string_view, 8> kHosts{"auto", "none",  "alpi",   "tbb",
                                                 "nosv", "nodes", "nanos6", "ompss2"};
constexpr std::array<HostKind, kHosts.size()> kHostKinds{
    HostKind::automatic, HostKind::none, HostKind::alpi, HostKind::tbb,
    HostKind::alpi,      HostKind::alpi, HostKind::alpi, HostKind::alpi};
constexpr std::string_view kOff = "none";

constexpr std::array<std::string_view, 2> kReapers{"thread", "task"};
constexpr uint32_t kMostPaused = 1'000'000;

}  // namespace

TaskSettings task_settings(std::string& warnings) {
  const auto chosen = [&](const char* variable, std::span<const std::string_view> names) {
    return config::chosen_in_environment(variable, names, kOff, warnings);
  };
  TaskSettings settings;
  settings.service.tasks = kHostKinds[chosen(config::kTasksVariable, kHosts)];
  settings.service.reap_in_task = chosen(config::kTaskReaperVariable, kReapers) == 1;
  settings.service.engine =
      static_cast<engine::Kind>(chosen(config::kTaskEngineVariable, config::kEngineNames));
  settings.service.max_paused =
      config::number_in_environment(config::kMaxPausedVariable, kMostPaused, warnings)
          .value_or(settings.service.max_paused);
  if (const char* const path = ::secure_getenv(config::kTaskReportVariable)) {
    settings.report = path;
  }
  return settings;
}

}  // namespace ioweave::calls
