#include "calls/mpiio/settings.hpp"

#include <array>
#include <cstdlib>
#include <string_view>

#include "config/environment.hpp"
#include "config/mpiio_variables.hpp"
#include "stream/plan/depth_trial.hpp"
#include "stream/plan/plan.hpp"

namespace ioweave::calls {
namespace {

constexpr std::array<std::string_view, 2> kOffOrOn{"0", "1"};
constexpr uint64_t kLeastBudget = 1 << 20;
constexpr uint64_t kMostBudget = stream::PlanOptions::kMostBudgetBytes;

}  // namespace

MpiioSettings mpiio_settings(std::string& warnings) {
  MpiioSettings settings;
  settings.schedule = static_cast<iow_plan_schedule>(config::chosen_in_environment(
      config::kMpiioScheduleVariable, config::kScheduleNames, "normal", warnings));
  settings.depth = config::number_in_environment(config::kMpiioDepthVariable,
                                                 stream::DepthTrial::kMost, warnings)
                       .value_or(0);
  settings.budget_bytes =
      config::size_in_environment(config::kMpiioBudgetVariable, kLeastBudget, kMostBudget, warnings)
          .value_or(settings.budget_bytes);
  settings.is_eager =
      config::chosen_in_environment(config::kMpiioEagerVariable, kOffOrOn, "", warnings) == 1;
  settings.write_behind_bytes = config::size_in_environment(config::kMpiioWriteBehindVariable,
                                                            kLeastBudget, kMostBudget, warnings)
                                    .value_or(0);
  if (const char* const path = std::getenv(config::kMpiioReportVariable)) {
    settings.report = path;
  }
  return settings;
}

}  // namespace ioweave::calls
