// `ioweave advise`: observes a program once, or reads the run file of an earlier run, asks the
// devices what they can do, and prints what the model predicts. With --verify it drops what the
// program read from the page cache, runs the advice and prints predicted beside measured.

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/atomic_file.hpp"
#include "base/descriptor.hpp"
#include "base/file_id.hpp"
#include "base/machine.hpp"
#include "cli/advice.hpp"
#include "cli/commands.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/run_program.hpp"
#include "config/description.hpp"
#include "config/layers.hpp"
#include "device/described.hpp"
#include "device/read_rate.hpp"
#include "engine/prefetch.hpp"
#include "stats/run_file.hpp"

namespace ioweave::cli {
namespace {

constexpr uint64_t kLeastDropped = 1u << 20;

std::string no_text(const stats::RunReport& /*report*/, const Detail& /*detail*/) {
  return {};
}

/// Runs the options' program and keeps the report. Returns the exit code.
int run_for(const RunOptions& options, bool observe_only, stats::RunReport& report) {
  RunKind kind;
  kind.observe_only = observe_only;
  kind.records_positions = observe_only;
  kind.text = &no_text;
  kind.on_report = [&](const stats::RunReport& made) { report = made; };
  return run_program(options, kind);
}

/// Returns true if the path still names the file of the report.
bool is_same_file(const stats::FileReport& file) {
  struct stat status {};
  return stat(file.path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         FileId::of(status) == FileId{file.device, file.inode};
}

const stats::FileReport* file_named(const stats::RunReport& report, const std::string& path) {
  for (const stats::FileReport& file : report.files) {
    if (!path.empty() && file.path == path) return &file;
  }
  return nullptr;
}

/// The device's measured curve. Without one its bandwidth counts for any number of streams.
model::Curve write_curve_of(const config::Device& device) {
  std::vector<model::Curve::Point> points;
  points.reserve(device.curve.size() + 1);
  for (const auto& [streams, mb_per_s] : device.curve) points.push_back({streams, mb_per_s});
  if (points.empty() && device.mb_per_s > 0) points.push_back({1, device.mb_per_s});
  model::Curve curve;
  std::string why;
  // Points that are none were refused with the file that holds them.
  return model::Curve::make(points, curve, why) ? curve : model::Curve();
}

AdviceInput ask_devices(const stats::RunReport& report, const ObservedProcess& process,
                        bool may_probe) {
  AdviceInput input;
  const stats::FileReport* const read = file_named(report, process.read_file);
  const bool is_here = report.machine.host.empty() || report.machine.host == this_machine().host;
  if (may_probe && is_here && read != nullptr && is_same_file(*read)) {
    input.rates.copy_s_per_byte = device::cached_read_time(read->path).value_or(0);
    input.rates.read_bytes_per_s = device::device_read_rate(read->path).value_or(0);
    input.rates.window_bytes = static_cast<double>(engine::read_ahead_window_bytes(read->device));
  }
  input.rates.write_copy_s_per_byte = device::copy_time();
  const std::vector<config::Layer> layers =
      config::all_layers({}, environ, config::config_places());
  input.lookahead_bytes = config::run_config(config::resolve(layers)).lookahead_bytes;
  const std::vector<device::Described> devices =
      device::described_devices(config::describe(layers).devices, device::this_node());
  if (const stats::FileReport* const written = file_named(report, process.written_file)) {
    const device::Described* const on =
        device::described_of(devices, written->device, written->path);
    if (on != nullptr) {
      input.write_curve = write_curve_of(on->settings);
    }
  }
  return input;
}

/// Returns true if most of what the program read came from the page cache. Unknown, and false, on
/// file systems without a block device.
bool was_cached(const stats::RunReport& report, const ObservedProcess& process) {
  const stats::FileReport* const read = file_named(report, process.read_file);
  const bool has_block_device = read != nullptr && major(read->device) != 0;
  return has_block_device && report.outcome.storage_read_bytes < process.read_bytes / 2;
}

/// Takes what the program read out of the page cache, so that the next run reads it again.
void drop_inputs(const stats::RunReport& report) {
  for (const stats::FileReport& file : report.files) {
    uint64_t read = file.of(stats::CallClass::read).bytes;
    for (const stats::Series& series : file.series) {
      for (const uint64_t bytes : series.read_bytes) read += bytes;
    }
    if (read < kLeastDropped || !is_same_file(file)) continue;
    const Descriptor opened(open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!opened.is_open()) continue;
    fdatasync(opened.get());
    posix_fadvise(opened.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

/// What is run to verify a prediction.
struct Trial {
  Prediction expected;
  std::vector<std::string> command;
  bool is_woven = true;  ///< by `ioweave run`; else the changed program weaves by itself
};

/// Returns what can be tried; nothing, and `why`, if no command can do it.
std::optional<Trial> trial_of(const AdviseOptions& options, const stats::RunReport& report,
                              const Advice& advice, std::string& why) {
  const std::vector<const Prediction*> ranked = ranking(advice);
  if (!options.changed.empty()) {
    const Prediction* expected =
        ranked.empty() ? best_of_way(advice, Way::write_behind) : ranked.front();
    if (expected == nullptr) {
      why = "the program writes nothing, so no changed program can write it behind";
      return std::nullopt;
    }
    return Trial{*expected, options.changed, expected->way != Way::write_behind};
  }
  if (!ranked.empty() && ranked.front()->way != Way::prefetch) {
    why =
        "no command alone can do it. Change the program and give both: ioweave advise --verify "
        "RUN.jsonl -- CHANGED-PROGRAM";
    return std::nullopt;
  }
  // "Not worth it" is a prediction, too: prefetching is what can be tried.
  const Prediction* const prefetch = best_of_way(advice, Way::prefetch);
  if (prefetch == nullptr) {
    why = "the program reads nothing that could be prefetched";
    return std::nullopt;
  }
  return Trial{*prefetch, report.command, true};
}

/// Runs a trial and notes how long it took. Returns the exit code.
int verify(const AdviseOptions& options, const stats::RunReport& report, const Trial& trial,
           Advice& advice) {
  RunOptions run = options.run;
  run.command = trial.command;
  run.settings = {};
  run.settings.kind = config::LayerKind::command_line;
  const bool stays_cached = was_cached(report, advice.process);
  if (!stays_cached) drop_inputs(report);
  stats::RunReport measured;
  const int code = run_for(run, !trial.is_woven, measured);
  if (measured.outcome.wall_seconds <= 0) return code;
  if (code != 0) {
    complain("advise: the run to verify ended with exit code " + std::to_string(code));
    return code;
  }
  advice.verified = Verified{trial.expected, measured.outcome.wall_seconds, !stays_cached};
  return 0;
}

/// Reads the run file, or runs the program. Returns an exit code if there is no report.
std::optional<int> observe(const AdviseOptions& options, stats::RunReport& report) {
  if (options.run_file.empty()) {
    const int code = run_for(options.run, true, report);
    return report.outcome.wall_seconds > 0 ? std::nullopt : std::optional(code);
  }
  if (options.run_file.ends_with(".darshan")) {
    complain("advise: " + options.run_file +
             " is a Darshan log: make a run file of it: python -m ioweave.compat.darshan LOG "
             "-o run.jsonl");
    return kFailed;
  }
  std::string why;
  if (!stats::read_run_file(options.run_file, report, why)) {
    complain("advise: " + why);
    return kFailed;
  }
  if (!report.runtime.empty()) {
    complain("advise: " + options.run_file +
             " is of a Python runtime: `ioweave report` and Runtime.explain() judge tasks");
    return kFailed;
  }
  const bool is_here = report.machine.host.empty() || report.machine.host == this_machine().host;
  if (options.verify && !is_here) {
    complain("advise: " + options.run_file + " is of the machine " + report.machine.host +
             ": --verify runs the program, and only there");
    return kFailed;
  }
  return std::nullopt;
}

bool write_document(const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  const int error = write_atomically(path, text);
  if (error != 0) complain("advise: cannot write " + path + ": " + std::strerror(-error));
  return error == 0;
}

}  // namespace

int advise_command(Arguments arguments) {
  AdviseOptions options;
  if (const auto code = parse_advise(arguments, options)) return *code;
  stats::RunReport report;
  if (const auto code = observe(options, report)) return *code;
  std::string why;
  std::optional<ObservedProcess> process = observed_process(report, why);
  if (!process) {
    complain("advise: " + why);
    return kFailed;
  }
  const AdviceInput input = ask_devices(report, *process, options.probe);
  Advice advice = advise(report, *std::move(process), input);
  // Standard output belongs to the program, if one was run.
  const bool has_output = options.run_file.empty();
  const auto say = [&](const std::string& text) {
    has_output ? print_error(text) : static_cast<void>(print(text));
  };
  const bool as_json = options.run.json && options.run.json_file.empty();
  if (!as_json) say(advice_text(report, advice));
  int code = 0;
  if (options.verify) {
    const std::optional<Trial> trial = trial_of(options, report, advice, why);
    if (trial) {
      code = verify(options, report, *trial, advice);
    } else {
      complain("advise: nothing to verify: " + why);
    }
    if (!as_json) say(verified_text(advice));
  }
  if (as_json) say(advice_json(report, advice));
  const bool is_written = write_document(options.run.json_file, advice_json(report, advice)) &&
                          write_document(options.picture, advice_svg(report, advice));
  return code == 0 && !is_written ? kFailed : code;
}

}  // namespace ioweave::cli
