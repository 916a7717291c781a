// ioweave-tiom: the Task I/O Meter of the TASIO paper. `ioweave tiom` starts it.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "bench.hpp"
#include "options.hpp"
#include "report.hpp"

namespace {

constexpr int kFailed = 1;
constexpr int kUsageExit = 2;

void run(const tiom::Options& options) {
  tiom::Bench bench(options);
  tiom::Report report = bench.report();
  for (const tiom::Cell& cell : options.cells()) {
    report.cells.push_back(bench.measure(cell, [](const tiom::RunFigures&) {}));
  }
  tiom::write_text("-", tiom::table_text(report));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const tiom::Options options =
        tiom::parse_options(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
    if (options.help) {
      tiom::write_text("-", tiom::help_text());
    } else {
      run(options);
    }
    return 0;
  } catch (const tiom::UsageError& error) {
    std::fprintf(stderr, "ioweave tiom: %s\nTry 'ioweave tiom --help' for options and examples.\n",
                 error.what());
    return kUsageExit;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ioweave tiom: %s\n", error.what());
    return kFailed;
  }
}
