// One run: resolves the settings, prepares the directory and the environment, launches the program,
// gathers what its processes left, and reports. If Ioweave lacks something that it needs (a
// directory, a file size limit, the C library), the program runs as without Ioweave, and the report
// says why. Only a broken installation or a wrong command line keeps the program from running.

#include "cli/run_program.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.hpp"
#include "base/clock.hpp"
#include "cli/bench/profile_file.hpp"
#include "cli/launch.hpp"
#include "cli/locations.hpp"
#include "cli/mpi_program.hpp"
#include "cli/output.hpp"
#include "cli/plan_files.hpp"
#include "cli/program.hpp"
#include "cli/remarks.hpp"
#include "cli/report_facts.hpp"
#include "cli/run_directory.hpp"
#include "config/description.hpp"
#include "config/layers.hpp"
#include "config/mpiio_variables.hpp"
#include "config/names.hpp"
#include "device/described.hpp"
#include "device/expectation.hpp"
#include "engine/available_memory.hpp"
#include "engine/backend.hpp"
#include "engine/polled_size.hpp"
#include "engine/system_facts.hpp"
#include "stats/mpiio_report.hpp"
#include "stats/run_file.hpp"
#include "stream/watch/position_recorder.hpp"
#include "stream/watch/replay/read_plan.hpp"
#include "stream/watch/watcher.hpp"

namespace ioweave::cli {
namespace {

// The names of config stand for the enumerations of the engine, which config cannot see.
static_assert(config::kEngineNames[static_cast<size_t>(engine::Kind::uring)] == "uring");
static_assert(config::kEngineNames[static_cast<size_t>(engine::Kind::aio)] == "aio");
static_assert(config::kEngineNames[static_cast<size_t>(engine::Kind::threads)] == "threads");
static_assert(config::kEngineModeNames[static_cast<size_t>(engine::UringMode::plain)] == "plain");
static_assert(config::kEngineModeNames[static_cast<size_t>(engine::UringMode::sqpoll)] == "sqpoll");
static_assert(config::kEngineModeNames[static_cast<size_t>(engine::UringMode::iopoll)] == "iopoll");

constexpr const char* kPreload = "LD_PRELOAD";
constexpr const char* kSanitizer = "ASAN_OPTIONS";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// The state of one run.
struct Run {
  const RunOptions& options;
  const RunKind& kind;
  config::Resolved settings;
  std::vector<config::Device> devices;  ///< described
  Program program;
  std::string library;
  std::unique_ptr<RunDirectory> directory;  ///< null: the program runs unobserved
  stats::RunReport report;
  stream::ReadsWanted reads;
  std::string unobservable;          ///< why it runs unobserved, as a sentence for the report
  std::vector<std::string> remarks;  ///< on problems of gathering

  [[nodiscard]] bool is_quiet() const { return settings.flag(config::Key::quiet); }
};

// ---- Before -------------------------------------------------------------------------------------

/// The size of large pages for buffers of programs. Others than those of x86-64 and of aarch64 with
/// pages of 4 KiB are too large for most buffers. Where memory is scarce, there are none to spare.
uint64_t usable_large_page_bytes() {
  constexpr uint64_t kScarceBytes = 512u << 20;
  const uint64_t bytes = engine::large_page_bytes();
  const bool are_usable = bytes <= config::RunConfig::kMostLargePageBytes &&
                          engine::available_memory_bytes() >= kScarceBytes;
  return are_usable ? bytes : 0;
}

/// Before Linux 6.12 a polled transfer may never end (engine/polled_size.hpp), and the process of a
/// program cannot look up what its device takes at once.
void leave_polling_to_newer_kernels(Run& run) {
  uint32_t& mode = run.report.config.engine_mode;
  const bool polls = mode == static_cast<uint32_t>(engine::UringMode::iopoll);
  if (!polls || engine::splits_polled_transfers()) return;
  mode = static_cast<uint32_t>(engine::UringMode::plain);
  if (!run.is_quiet()) complain("warning: mode iopoll needs Linux 6.12; mode plain is used");
}

/// What is expected of the ways of calls, of each device with a profile.
void add_expectations(Run& run) {
  config::RunConfig& config = run.report.config;
  const bool polls = config.engine_mode == static_cast<uint32_t>(engine::UringMode::iopoll);
  uint32_t count = 0;
  for (const device::Described& device :
       device::described_devices(run.devices, device::this_node())) {
    if (device.settings.profile.empty() || count == config::RunConfig::kMaxDevices) continue;
    device::Profile profile;
    std::string why;
    if (load_profile(device.settings.profile, profile, why)) {
      config.expectation[count++] = device::expectation_of(
          profile, device.number, polls ? device::IoWay::iopoll : device::IoWay::uring);
    } else if (!run.is_quiet()) {
      complain("warning: device '" + device.settings.name + "': " + why);
    }
  }
}

void resolve_settings(Run& run) {
  const config::ConfigPlaces places = config::config_places();
  config::Layer command_line = run.options.settings;
  for (config::RuleEntry& rule : command_line.rules) rule.directory = places.working_directory;
  const std::vector<config::Layer> layers =
      config::all_layers(std::move(command_line), environ, places);
  run.settings = config::resolve(layers);
  run.devices = config::describe(layers).devices;
  run.report.config = config::run_config(run.settings);
  run.report.directory = places.working_directory;
  if (run.kind.observe_only) {
    run.report.config.policy = config::RunPolicy::off;
    run.report.config.rules = 0;
  }
  leave_polling_to_newer_kernels(run);
  add_expectations(run);
  run.report.config.large_page_bytes = usable_large_page_bytes();
  if (run.is_quiet()) return;
  for (const std::string& warning : run.settings.warnings) complain("warning: " + warning);
}

/// Prepares what the options want of single reads. Returns what is wrong with it, or an empty text.
std::string prepare_reads(Run& run) {
  const RunOptions& options = run.options;
  run.report.record.plan = options.record_file;
  run.report.replay.plan = options.replay_file;
  run.reads.are_recorded = !options.record_file.empty();
  run.reads.folder = run.report.directory;
  struct stat pids {};
  if (stat("/proc/self/ns/pid", &pids) == 0) run.report.config.pid_namespace = pids.st_ino;
  run.report.config.logs_reads = run.reads.are_recorded || !options.replay_file.empty() ? 1 : 0;
  std::string why;
  if (run.reads.are_recorded) why = explain_unwritable_plan(options.record_file);
  if (!why.empty() || options.replay_file.empty()) return why;
  if (!config::may_overlap(run.report.config)) {
    return "--replay reads ahead, which policy '" +
           std::string(config::kRunPolicyNames[static_cast<size_t>(run.report.config.policy)]) +
           "' forbids: leave it out, or say --policy auto";
  }
  (void)stream::read_plan(options.replay_file, run.reads.plan.emplace(), why);
  return why;
}

/// Warns of an output file that cannot be written, before a long run rather than after it.
void warn_of_unwritable(const std::string& path, bool is_quiet) {
  if (path.empty() || is_quiet) return;
  const bool exists = access(path.c_str(), F_OK) == 0;
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (access(exists ? path.c_str() : folder.c_str(), W_OK) == 0) return;
  complain("warning: " + path + " cannot be written: " + std::strerror(errno));
}

/// Says what keeps the program's processes from having segments; empty if nothing does.
std::string explain_unobservable(const Run& run) {
  if (preload_would_disturb(run.program.followable)) return explanation(run.program) + ".";
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < sizeof(stats::Segment)) {
    return "Nothing was observed: the limit on file sizes (ulimit -f) is below 1 MiB.";
  }
  return {};
}

void prepare_directory(Run& run) {
  run.unobservable = explain_unobservable(run);
  if (!run.unobservable.empty()) return;
  std::string why;
  run.directory = RunDirectory::create(why);
  const int error = run.directory ? run.directory->write_config(run.report.config) : 0;
  if (error != 0) {
    why = run.directory->path() + ": " + std::strerror(-error);
    run.directory = nullptr;
  }
  if (!run.directory) {
    run.unobservable = "Nothing was observed: no place for the run's directory was found (" + why +
                       "). Set XDG_RUNTIME_DIR or TMPDIR to a writable folder with free space.";
    return;
  }
  if (run.options.keep_run_directory) run.directory->keep();
}

/// Puts a library in front of a list, unless it is there already (a run within a run).
std::string with_first(const std::string& entry, const std::string& list) {
  const bool is_first =
      list.starts_with(entry) &&
      (list.size() == entry.size() || std::strchr(" :", list[entry.size()]) != nullptr);
  if (list.empty() || is_first) return is_first ? list : entry;
  return entry + ":" + list;
}

/// Returns LD_PRELOAD with the interposer in front. Files that MPI opens are its library's to read
/// ahead of, where reads are to be overlapped.
std::string preload_list(const Run& run, const std::string& entry) {
  std::string before = variable(kPreload);
  if (with_first(entry, before) == before) return before;
  const std::string mpiio =
      config::overlaps(run.report.config.policy) ? find_mpiio_library(run.program) : std::string{};
  return with_first(entry, mpiio.empty() ? before : with_first(mpiio, before));
}

/// Returns the options of AddressSanitizer. A program built with it requires its own library to
/// come first, and would refuse to start with ours before it.
std::string sanitizer_options() {
  constexpr const char* kCheck = "verify_asan_link_order";
  std::string before = variable(kSanitizer);
  if (before.find(kCheck) != std::string::npos) return before;
  return before + (before.empty() ? "" : ":") + kCheck + "=0";
}

std::vector<std::string> added_variables(Run& run) {
  if (!run.directory) return {};
  const std::string entry = run.directory->preload_entry(run.library);
  if (entry.empty()) {
    run.unobservable = "Nothing was observed: LD_PRELOAD cannot express the path " + run.library +
                       ". Install Ioweave under a path without blanks, ':' and '$'.";
    return {};
  }
  return {std::string(kPreload) + "=" + preload_list(run, entry),
          std::string(kSanitizer) + "=" + sanitizer_options(),
          std::string(config::kRunDirVariable) + "=" + run.directory->path()};
}

// ---- After --------------------------------------------------------------------------------------

/// Says why the program did not start, as a shell would.
int explain_failure(const Run& run, const LaunchResult& result) {
  const std::string& name = run.options.command[0];
  std::string text = "'" + name + "': " + std::strerror(result.error);
  if (name.empty()) {
    text = "the program's name is empty";
  } else if (result.error == ENOENT && run.program.error == 0) {
    text += ": its interpreter or loader does not exist";
  } else if (result.error == ENOENT && name.find('/') == std::string::npos) {
    text = "'" + name + "' was not found in PATH";
    if (access(name.c_str(), X_OK) == 0) text += "; there is one here: write ./" + name;
  } else if (std::error_code unused; std::filesystem::is_directory(name, unused)) {
    text = "'" + name + "' is a directory";
  } else if (result.error == EACCES) {
    text += "; " + remedy(run.program);
  }
  if (run.options.program_behind_json) text += "; did you mean --json=" + name + "?";
  complain(text);
  return result.error == ENOENT ? kNotFound : kNotExecutable;
}

void write_report(const std::string& path, const std::string& text, const char* what) {
  const int error = write_atomically(path, text);
  if (error == 0) return;
  complain(std::string("the ") + what + " " + path + " was not written: " + std::strerror(-error));
}

Detail detail_of(const Run& run) {
  constexpr size_t kAll = SIZE_MAX;
  if (run.options.verbose >= 2) return {kAll, kAll, true};
  return run.options.verbose == 1 ? run.kind.verbose : run.kind.brief;
}

/// Takes over what the watcher has found of single reads.
void take_reads(Run& run, const stream::Watcher::Reports& reports) {
  stats::RunReport& report = run.report;
  if (!report.record.plan.empty() && run.directory) {
    report.record.lost_reads = reports.lost_reads;
    std::vector<std::string> remarks{
        "The reads were not recorded in time, and no plan was written."};
    if (reports.recorded) remarks = write_plan(*reports.recorded, report.record);
    std::ranges::move(remarks, std::back_inserter(run.remarks));
  }
  if (!report.replay.plan.empty()) {
    const std::string plan = std::move(report.replay.plan);
    report.replay = reports.replay;
    report.replay.plan = plan;
    report.replay.lost_reads = reports.lost_reads;
    std::ranges::move(remarks_on_replay(report.replay), std::back_inserter(run.remarks));
  }
}

void complete_report(Run& run) {
  stats::RunReport& report = run.report;
  report.version = IOWEAVE_VERSION;
  report.command = run.options.command;
  report.remarks = run.unobservable.empty() ? remarks_on(report, run.program)
                                            : std::vector<std::string>{run.unobservable};
  for (std::string& remark : run.remarks) report.remarks.push_back(std::move(remark));
  const bool leaves_file = !run.settings[config::Key::output].text.empty() || run.options.json ||
                           run.kind.on_report != nullptr;
  if (!leaves_file) return;
  report.machine = this_machine();
  add_file_systems(report);
}

void publish(const Run& run) {
  const std::string& output = run.settings[config::Key::output].text;
  if (!output.empty()) write_report(output, stats::run_file_text(run.report), "run file");
  if (!run.options.json_file.empty() && !run.kind.on_report) {
    write_report(run.options.json_file, stats::report_json(run.report), "JSON report");
  }
  if (run.kind.on_report) run.kind.on_report(run.report);
  if (run.is_quiet() || run.kind.on_report) return;
  const bool json_for_text = run.options.json && run.options.json_file.empty();
  print_error(json_for_text ? stats::report_json(run.report)
                            : run.kind.text(run.report, detail_of(run)));
  if (run.directory && run.options.keep_run_directory) {
    complain("the run's directory is kept: " + run.directory->path());
  }
}

}  // namespace

int run_program(const RunOptions& options, const RunKind& kind) {
  Run run{options, kind, {}, {}, {}, {}, nullptr, {}, {}, {}, {}};
  std::string why;
  resolve_settings(run);
  const bool holds_writes = config::may_hold_writes(run.report.config);
  run.library = locate(holds_writes ? Location::preload_behind : Location::preload, why);
  if (run.library.empty()) {
    complain(why);
    return kFailed;
  }
  if (const std::string mistake = prepare_reads(run); !mistake.empty()) {
    complain(mistake);
    return kFailed;
  }
  warn_of_unwritable(run.settings[config::Key::output].text, run.is_quiet());
  warn_of_unwritable(options.json_file, run.is_quiet());
  run.program = inspect_program(options.command[0], variable("PATH"));
  prepare_directory(run);

  stats::RunGatherer gatherer;
  LaunchRequest request;
  request.command = options.command;
  request.added = added_variables(run);
  const auto gather = [&](bool last) {
    if (run.directory) run.directory->gather(gatherer, last, run.remarks);
  };
  request.on_tick = [&] { gather(false); };
  constexpr int kSoonMs = 50;  // until what a killed process had written is in its files
  if (holds_writes) request.tick_ms = kSoonMs;
  const bool records_positions = kind.records_positions || run.reads.are_recorded;
  stream::Watcher watcher(run.report.config, run.directory ? run.directory->path() : "",
                          std::move(run.devices), std::move(run.reads));
  stream::PositionRecorder recorder;
  request.on_start = [&](pid_t program) {
    watcher.start(program);
    if (records_positions) recorder.start(program);
  };
  run.report.started = utc_now();
  run.report.start_ns = now_ns();
  const LaunchResult result = launch(request);
  stream::Watcher::Reports reports = watcher.stop();
  take_reads(run, reports);
  for (stats::PrefetchReport& file : reports.prefetched) gatherer.add(std::move(file));
  for (stats::EarlyWriteReport& file : reports.written_early) gatherer.add(std::move(file));
  gatherer.add(std::move(reports.help));
  if (records_positions) {
    for (stats::FileReport& file : recorder.stop()) gatherer.add_seen(std::move(file));
  }
  gather(true);
  std::move(gatherer).finish(run.report);
  if (run.directory) {
    run.report.behind = run.directory->behind();
    stats::add_mpiio_lines(run.directory->content(config::kMpiioReportName), run.report);
  }
  if (!options.keep_run_directory) run.directory = nullptr;
  release_signals();

  if (result.error != 0 && !result.started) return explain_failure(run, result);
  if (result.without_added) {
    run.unobservable = "Nothing was observed: the arguments leave no room for LD_PRELOAD.";
  }
  run.report.outcome = result.outcome;
  complete_report(run);
  publish(run);
  return result.outcome.exit_code;
}

}  // namespace ioweave::cli
