#include <limits>
#include <string>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/summary.hpp"
#include "cli/why_text.hpp"
#include "stats/run_file.hpp"

namespace ioweave::cli {

int report_command(Arguments arguments) {
  ReportOptions options;
  if (const auto code = parse_report(arguments, options)) return *code;
  stats::RunReport report;
  std::string why;
  if (!stats::read_run_file(options.run_file, report, why)) {
    complain("report: " + why);
    return 1;
  }
  if (!options.why.empty()) {
    const stats::FileReport* const file = find_file(report, options.why, why);
    if (file == nullptr) {
      complain("report: " + why);
      return 1;
    }
    print(why_text(report, *file));
    return 0;
  }
  Detail detail;
  if (options.verbose) {
    constexpr size_t kAll = std::numeric_limits<size_t>::max();
    detail = {.files = kAll, .remarks = kAll, .small_files = true};
  }
  print(report.runtime.empty() ? summary_text(report, detail) : tasks_text(report));
  return 0;
}

}  // namespace ioweave::cli
