// ioweave-tiom: the Task I/O Meter of the TASIO paper. `ioweave tiom` starts it.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "advise.hpp"
#include "bench.hpp"
#include "options.hpp"
#include "plan.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "resume.hpp"
#include "start_again.hpp"

namespace {

constexpr int kFailed = 1;
constexpr int kUsageExit = 2;

/// Notices a mistake in the name of a result before hours of computation.
void check_output(const char* option, const std::string& path) {
  if (path.empty() || path == "-") return;
  struct stat status {};
  const bool is_there = stat(path.c_str(), &status) == 0;
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
  if (is_there && S_ISDIR(status.st_mode)) {
    throw tiom::UsageError(std::string(option) + ": '" + path + "' is a folder; name a file");
  }
  if (access((is_there ? path : folder).c_str(), W_OK) != 0) {
    throw tiom::UsageError(std::string(option) + ": cannot write '" + path +
                           "': " + std::strerror(errno));
  }
}

void check_outputs(const tiom::Options& options) {
  check_output("--json", options.json);
  check_output("--html", options.html);
  check_output("--png", options.png);
  check_output("--resume", options.resume);
  if (const std::string missing = tiom::missing_png(); !options.png.empty() && !missing.empty()) {
    throw tiom::UsageError(missing);
  }
}

/// The sweep: each cell that no state file has, with progress; the results in order.
void run_cells(const tiom::Options& options, tiom::Bench& bench, tiom::StateFile* state,
               std::vector<tiom::CellResult>& results) {
  std::vector<tiom::Cell> missing;
  double expected_s = 0;
  for (const tiom::Cell& cell : options.cells()) {
    if (state != nullptr && state->find(cell) != nullptr) continue;
    missing.push_back(cell);
    expected_s += bench.estimate(cell).expected_s;
  }
  tiom::Progress progress(missing.size(), expected_s);
  for (const tiom::Cell& cell : options.cells()) {
    if (const tiom::CellResult* const finished = state != nullptr ? state->find(cell) : nullptr) {
      results.push_back(*finished);
      continue;
    }
    progress.start_cell(cell, bench.estimate(cell).expected_s,
                        bench.variants() * options.repetitions);
    results.push_back(bench.measure(cell, [&](const tiom::RunFigures& run) { progress.ran(run); }));
    progress.end_cell(results.back());
    if (state != nullptr) state->add(results.back());
  }
}

/// A run that ends within the first turns of its series is not rated by what it would settle to.
void warn_of_short_limit(const tiom::Options& options, const tiom::Bench& bench) {
  const auto limit_s = static_cast<double>(options.time_limit_ns) / 1e9;
  size_t cells = 0;
  for (const tiom::Cell& cell : options.cells()) cells += bench.turn_s(cell) > limit_s / 3 ? 1 : 0;
  if (cells == 0) return;
  std::fprintf(stderr,
               "ioweave tiom: in %zu cell(s) one turn of all series computes for more than a third "
               "of --time-limit; raise it, or lower --series, for rates that mean something\n",
               cells);
}

void sweep(const tiom::Options& options) {
  check_outputs(options);
  std::unique_ptr<tiom::StateFile> state;
  if (!options.resume.empty()) {
    state = std::make_unique<tiom::StateFile>(options.resume, tiom::identity_of(options));
  }
  tiom::Bench bench(options);
  if (state) {
    const std::optional<tiom::Calibration> earlier = state->calibration();
    if (earlier) bench.use_calibration(*earlier);
    state->set_calibration(bench.calibration());
  }
  warn_of_short_limit(options, bench);
  tiom::Report report = bench.report();
  run_cells(options, bench, state.get(), report.cells);
  if (!options.json.empty()) tiom::write_text(options.json, tiom::json_text(report));
  if (!options.html.empty()) tiom::write_text(options.html, tiom::html_text(report));
  if (!options.png.empty()) tiom::write_png(report, options.png);
  // Where standard output is the JSON, a table would spoil it.
  if (options.json != "-") tiom::write_text("-", tiom::table_text(report));
}

void run(const tiom::Options& options) {
  if (options.help) {
    tiom::write_text("-", tiom::help_text());
  } else if (options.list) {
    tiom::write_text("-", tiom::plan_text(options));
  } else if (options.advise) {
    check_outputs(options);
    const std::string text = tiom::run_advise(options);
    if (options.json != "-") tiom::write_text("-", text);
  } else {
    sweep(options);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const tiom::Options options =
        tiom::parse_options(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
    if (options.runtime == tiom::RuntimeKind::alpi && !options.help && !options.list) {
      tiom::bring_alpi(options.alpi_library, argv);
    }
    run(options);
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
