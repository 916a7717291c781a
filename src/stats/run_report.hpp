#pragma once

// What a run did, in seconds and bytes: the plain values for the summary, `ioweave stat`, the run
// file and later tools. segment_reader.hpp makes them from segments (segment.hpp). Nothing here
// depends on shared memory, ticks or JSON.
//
//   exposed   time the program's threads spent inside I/O calls on regular files
//   hidden    time that prefetching and early writing saved the program, from its pace with and
//             without them, both measured while it ran (stream/watch/help_trial.hpp,
//             early_trial.hpp); negative if they cost time
//   I/O time  exposed + hidden: the time that the I/O would have taken without Ioweave

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/machine.hpp"
#include "choice/expectation.hpp"
#include "choice/large_pages.hpp"
#include "config/mpiio_variables.hpp"
#include "device/mounts.hpp"
#include "stats/help_report.hpp"
#include "stats/segment.hpp"

namespace ioweave::stats {

struct CallTotals {
  uint64_t calls = 0;
  uint64_t bytes = 0;
  uint64_t errors = 0;
  double seconds = 0;

  CallTotals& operator+=(const CallTotals& other) noexcept;
};
using CallTable = std::array<CallTotals, kCallClasses>;

/// What the calls of one process image on a file did over time. The lists have one value a slot,
/// and equal lengths; seconds are those of calls that ended within the slot.
struct Series {
  /// Where the values come from.
  enum class Source : uint32_t {
    calls,     ///< the interposer, which times each call
    positions  ///< positions in /proc, and the time in which the process did not run
  };

  int32_t pid = 0;
  Source source = Source::calls;
  double start_s = 0;  ///< of the first slot, since the program was started
  double slot_s = 0;   ///< the length of a slot
  uint64_t jumps = 0;  ///< reads that neither continued the one before nor kept its distance
  std::vector<uint64_t> read_calls;
  std::vector<uint64_t> read_bytes;
  std::vector<double> read_seconds;
  /// Reads that did not follow the one before at once: between, the program did something else.
  std::vector<uint64_t> read_turns;
  std::vector<uint64_t> write_calls;
  std::vector<uint64_t> write_bytes;
  std::vector<double> write_seconds;
  std::vector<uint64_t> write_turns;
  std::vector<double> sync_seconds;

  [[nodiscard]] size_t slots() const noexcept { return read_calls.size(); }
  void resize(size_t slots);
};
inline constexpr std::array<std::string_view, 2> kSeriesSourceNames{"calls", "positions"};

/// What the command had written early.
struct EarlyWrites {
  uint64_t cycles = 0;  ///< between two moments at which a file was synced
  uint64_t bytes = 0;
  uint64_t lost_bytes = 0;  ///< of these, not synced afterwards, or written again before

  EarlyWrites& operator+=(const EarlyWrites& other) noexcept;
};

/// Which way the calls of one kind on a file went in one process, and why (choice/way_choice.hpp).
struct ChoiceReport {
  struct OfWay {
    bool is_usable = false;
    uint64_t calls = 0;
    uint64_t bytes = 0;
    double seconds = 0;  ///< of the calls, and of what they made the program wait for later
    uint64_t refused = 0;
    uint64_t examined = 0;
    double expected = 0;  ///< speed over plain, known beforehand; 0: it was not
    double measured = 0;  ///< speed over that of the way in use, when both were compared; 0: never
  };

  int32_t pid = 0;
  choice::Operation operation = choice::Operation::read;
  uint32_t size_class = 0;
  choice::Way in_use = choice::Way::plain;
  choice::Way first = choice::Way::plain;
  uint64_t used_since_bytes = 0;  ///< how much had been moved when it was taken
  choice::Pieces pieces;          ///< how Way::pieces cuts a transfer
  std::array<OfWay, choice::kWays> of{};

  [[nodiscard]] const OfWay& of_way(choice::Way which) const noexcept {
    return of[static_cast<size_t>(which)];
  }
  /// Returns what the calls by the engine took beyond plain ones; below 0, it was faster.
  [[nodiscard]] double engine_cost_seconds() const noexcept;
};

/// What became of buffers that a process laid in large pages (choice/large_pages.hpp).
struct LargePagesReport {
  /// Transfers of one operation and range of sizes, of which some had such a buffer.
  struct OfKind {
    choice::Operation operation = choice::Operation::read;
    uint32_t size_class = 0;
    double faster = 0;  ///< the median pace in small pages over that in large ones; 0: not known
    choice::LargePages::Verdict verdict = choice::LargePages::Verdict::unknown;
  };

  uint64_t bytes = 0;
  double seconds = 0;  ///< that it took to lay them there
  std::vector<OfKind> kinds;

  [[nodiscard]] bool is_empty() const noexcept { return seconds <= 0; }
  /// Of a kind that both have, that of the lesser gain stays.
  LargePagesReport& operator+=(const LargePagesReport& other);
};

/// One path, in one process or over all processes.
struct FileReport {
  std::string path;  ///< empty: all files beyond the capacity of a process
  std::string file_system;
  uint64_t device = 0;
  uint64_t inode = 0;
  config::RunPolicy policy = config::RunPolicy::automatic;
  Degrade degrade = Degrade::none;
  uint64_t opens = 0;
  uint32_t processes = 1;
  CallTable call;
  uint64_t prefetched_bytes = 0;
  uint64_t prefetched_used_bytes = 0;
  EarlyWrites early;
  ReadHelpReport read_help;
  EarlyHelpReport early_help;
  double hidden_seconds = 0;   ///< below 0: prefetching and early writing of this file cost time
  std::vector<Series> series;  ///< one for each process image, up to kMostSeries
  std::vector<ChoiceReport> choices;  ///< of each kind of calls, up to kMostChoices

  static constexpr size_t kMostSeries = 16;
  static constexpr size_t kMostChoices = 64;

  [[nodiscard]] const CallTotals& of(CallClass which) const noexcept {
    return call[static_cast<size_t>(which)];
  }
  /// Returns 0 for pipes, sockets and terminals, which do not wait for storage.
  [[nodiscard]] double exposed_seconds() const noexcept;
};

/// One process image. A process that calls exec has several.
struct ProcessReport {
  enum class End : uint32_t { running, exited, replaced, killed };

  int32_t pid = 0;
  int32_t parent_pid = 0;
  bool active = false;  ///< false: the interposer did nothing in it, and `why` says why
  End end = End::running;
  double seconds = 0;  ///< from its start to its last sign of life
  std::string program;
  std::string engine;
  std::string why;
  uint64_t engine_operations = 0;
  double engine_cost_seconds = 0;  ///< what these took beyond the time of plain calls
  LargePagesReport large_pages;
  double exposed_seconds = 0;
  double start_seconds = 0;    ///< when this image began, since the program was started
  std::vector<Series> series;  ///< of its files without a series of their own: one, or none
};
inline constexpr std::array<std::string_view, 4> kProcessEndNames{"running", "exited", "replaced",
                                                                  "killed"};

/// What the command prefetched for one reader of a file.
struct PrefetchReport {
  std::string path;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t operations = 0;
  uint64_t bytes = 0;       ///< brought into the page cache
  uint64_t used_bytes = 0;  ///< the part that the program read afterwards
  double saved_seconds = 0;
  bool is_compared = false;  ///< whether its pace was measured with and without prefetching
  double trial_seconds = 0;  ///< what this comparison cost
};

/// What the command had written early of a file, in one cycle or in several.
struct EarlyWriteReport {
  std::string path;
  uint64_t device = 0;
  uint64_t inode = 0;
  EarlyWrites writes;
  double saved_seconds = 0;
  bool is_compared = false;  ///< whether there were cycles without it to compare with
};

/// What libioweave_mpiio_*.so did in the ranks of a run: sums over those that reached MPI_Finalize.
struct MpiioReport {
  uint64_t ranks = 0;
  uint64_t settled_ranks = 0;  ///< whose schedule and depth are given, or have been measured
  std::array<uint64_t, config::kScheduleNames.size()> schedules{};  ///< how many ranks use each
  uint64_t least_depth = 0;  ///< slices at once; 0: no rank read ahead
  uint64_t most_depth = 0;
  /// What two slices at once get from the device, over what one gets; 0: no rank measured it.
  double least_gain_of_two = 0;
  double most_gain_of_two = 0;
  uint64_t files = 0;
  uint64_t reads = 0;  ///< the programs' calls
  uint64_t behind_writes = 0;
  uint64_t behind_bytes = 0;
  // The next are those of iow_plan_stats.
  uint64_t planned_reads = 0;
  uint64_t planned_bytes = 0;
  uint64_t ahead_bytes = 0;
  uint64_t hit_reads = 0;
  uint64_t late_reads = 0;
  uint64_t unplanned_reads = 0;
  uint64_t hit_bytes = 0;
  uint64_t own_bytes = 0;
  uint64_t unread_bytes = 0;
  uint64_t stale_bytes = 0;
  uint64_t failed_slices = 0;
  uint64_t cached_bytes = 0;
  uint64_t wait_ns = 0;
  std::map<std::string, uint64_t> left_alone;  ///< files and reads, by the reason
  std::vector<std::string> why;                ///< what kept ranks from reading ahead, each once
};

/// The sums of a MpiioReport, as they are called in a rank's line and in the run file.
struct MpiioCount {
  const char* name;
  uint64_t MpiioReport::*value;
};
inline constexpr std::array<MpiioCount, 17> kMpiioCounts{
    {{"files", &MpiioReport::files},
     {"reads", &MpiioReport::reads},
     {"behind_writes", &MpiioReport::behind_writes},
     {"behind_bytes", &MpiioReport::behind_bytes},
     {"planned_reads", &MpiioReport::planned_reads},
     {"planned_bytes", &MpiioReport::planned_bytes},
     {"ahead_bytes", &MpiioReport::ahead_bytes},
     {"hit_reads", &MpiioReport::hit_reads},
     {"late_reads", &MpiioReport::late_reads},
     {"unplanned_reads", &MpiioReport::unplanned_reads},
     {"hit_bytes", &MpiioReport::hit_bytes},
     {"own_bytes", &MpiioReport::own_bytes},
     {"unread_bytes", &MpiioReport::unread_bytes},
     {"stale_bytes", &MpiioReport::stale_bytes},
     {"failed_slices", &MpiioReport::failed_slices},
     {"cached_bytes", &MpiioReport::cached_bytes},
     {"wait_ns", &MpiioReport::wait_ns}}};

/// What `ioweave run --record` wrote, and what it could not see.
struct RecordReport {
  std::string plan;  ///< the file; empty: nothing was to be recorded
  uint64_t files = 0;
  uint64_t reads = 0;
  uint64_t bytes = 0;
  uint64_t unseen_files = 0;  ///< read by other ways than wrapped calls, as their positions tell
  uint64_t unseen_bytes = 0;
  uint64_t mapped_files = 0;    ///< mapped into memory: what is read there is not seen
  uint64_t nameless_files = 0;  ///< removed before the end, or their paths are too long
  uint64_t nameless_bytes = 0;
  uint64_t left_out_reads = 0;  ///< beyond the bounds of a plan
  uint64_t lost_reads = 0;      ///< noted faster than they were looked at
};

/// What `ioweave run --replay` found of its plan, and did.
struct ReplayReport {
  std::string plan;  ///< the file; empty: nothing was to be replayed
  uint64_t files = 0;
  uint64_t reads = 0;
  uint64_t bytes = 0;
  uint64_t missing_files = 0;
  uint64_t changed_files = 0;   ///< of another size or time than recorded
  uint64_t followed_files = 0;  ///< read in order, and left to the ordinary follower
  uint64_t given_up_files = 0;  ///< of which the program read something else
  uint64_t seen_reads = 0;      ///< reads of the run that were noted, of any file
  uint64_t seen_bytes = 0;
  uint64_t named_reads = 0;  ///< those that the plan named
  uint64_t named_bytes = 0;
  uint64_t asked_bytes = 0;  ///< brought into the page cache by the plan
  uint64_t asked_operations = 0;
  uint64_t lost_reads = 0;  ///< noted faster than they were looked at
};

/// What policy `behind` held back, and what became of it, over all processes.
struct BehindReport {
  uint64_t calls = 0;  ///< writes of programs that were held back
  uint64_t bytes = 0;
  uint64_t writes = 0;  ///< that were made of them, by their processes
  uint64_t written_bytes = 0;
  uint64_t waited_ns = 0;   ///< by programs, for room and for writes to end
  uint64_t errors = 0;      ///< writes that failed
  uint64_t rest_bytes = 0;  ///< that killed processes left, written by the command
  uint64_t lost_bytes = 0;  ///< that could not be written
};

/// Their numbers, as they are called in the run file.
template <class Report>
struct ReportCount {
  const char* name;
  uint64_t Report::*value;
};
inline constexpr std::array<ReportCount<RecordReport>, 10> kRecordCounts{
    {{"files", &RecordReport::files},
     {"reads", &RecordReport::reads},
     {"bytes", &RecordReport::bytes},
     {"unseen_files", &RecordReport::unseen_files},
     {"unseen_bytes", &RecordReport::unseen_bytes},
     {"mapped_files", &RecordReport::mapped_files},
     {"nameless_files", &RecordReport::nameless_files},
     {"nameless_bytes", &RecordReport::nameless_bytes},
     {"left_out_reads", &RecordReport::left_out_reads},
     {"lost_reads", &RecordReport::lost_reads}}};
inline constexpr std::array<ReportCount<ReplayReport>, 14> kReplayCounts{
    {{"files", &ReplayReport::files},
     {"reads", &ReplayReport::reads},
     {"bytes", &ReplayReport::bytes},
     {"missing_files", &ReplayReport::missing_files},
     {"changed_files", &ReplayReport::changed_files},
     {"followed_files", &ReplayReport::followed_files},
     {"given_up_files", &ReplayReport::given_up_files},
     {"seen_reads", &ReplayReport::seen_reads},
     {"seen_bytes", &ReplayReport::seen_bytes},
     {"named_reads", &ReplayReport::named_reads},
     {"named_bytes", &ReplayReport::named_bytes},
     {"asked_bytes", &ReplayReport::asked_bytes},
     {"asked_operations", &ReplayReport::asked_operations},
     {"lost_reads", &ReplayReport::lost_reads}}};

inline constexpr std::array<ReportCount<BehindReport>, 8> kBehindCounts{
    {{"calls", &BehindReport::calls},
     {"bytes", &BehindReport::bytes},
     {"writes", &BehindReport::writes},
     {"written_bytes", &BehindReport::written_bytes},
     {"waited_ns", &BehindReport::waited_ns},
     {"errors", &BehindReport::errors},
     {"rest_bytes", &BehindReport::rest_bytes},
     {"lost_bytes", &BehindReport::lost_bytes}}};

/// A task of a Python runtime; an I/O task has one for each of its devices.
struct TaskReport {
  std::string name;
  std::string device;  ///< empty: it computes
  uint64_t calls = 0;
  uint64_t failed = 0;
  uint64_t bytes = 0;
  double seconds = 0;  ///< summed over calls
  std::string policy;  ///< the policy of its constraint
  uint32_t limit = 0;  ///< the last limit of calls at once on a node; 0: any number
};

/// Sums over all processes of a run.
struct RunTotals {
  double io_seconds = 0;
  double hidden_seconds = 0;    ///< below 0: prefetching and early writing cost time
  bool hidden_is_known = true;  ///< false: something was done, but too little to compare
  double trial_seconds = 0;     ///< what comparing cost, by reads without prefetching
  double exposed_seconds = 0;
  CallTable call;  ///< of regular files
  uint64_t files = 0;
  uint64_t processes = 0;  ///< distinct process ids
  uint64_t images = 0;     ///< process images: fork and exec each make one
  uint64_t prefetch_operations = 0;
  uint64_t engine_operations = 0;
  double engine_cost_seconds = 0;  ///< below 0: the engine was faster
  LargePagesReport large_pages;
  uint64_t prefetched_bytes = 0;
  uint64_t prefetched_used_bytes = 0;
  EarlyWrites early;

  /// Returns true if something was done to save time.
  [[nodiscard]] bool was_helped() const noexcept {
    return prefetch_operations > 0 || early.cycles > 0;
  }
  /// Returns the part of the I/O time that was hidden, at most 1; below 0: it cost time.
  [[nodiscard]] double hidden_share() const noexcept {
    return io_seconds > 0 ? hidden_seconds / io_seconds : 0;
  }
};

/// How the program ended and what it took, by wait4(2).
struct Outcome {
  double wall_seconds = 0;
  double user_seconds = 0;
  double system_seconds = 0;
  uint64_t storage_read_bytes = 0;  ///< from block devices, in any way
  int exit_code = 0;                ///< as passed on: 128 + signal if a signal killed it
  int signal = 0;                   ///< 0: none
};

struct RunReport {
  std::string version;  ///< of Ioweave
  std::string started;  ///< ISO 8601, UTC
  std::vector<std::string> command;
  std::string directory;
  Machine machine;
  std::vector<device::Mount> mounts;  ///< the mounts that hold a file of the run
  config::RunConfig config;
  Outcome outcome;
  std::vector<ProcessReport> processes;
  std::vector<FileReport> files;  ///< most exposed first
  std::string runtime;            ///< kind of the Python runtime that ran it; empty: `ioweave run`
  std::vector<TaskReport> tasks;  ///< the tasks of such a runtime
  uint64_t start_ns = 0;          ///< base/clock.hpp now_ns() when the program was started
  RunTotals totals;
  MpiioReport mpiio;
  RecordReport record;
  ReplayReport replay;
  BehindReport behind;
  std::string engine;                ///< engine in use, empty if none was needed
  std::vector<std::string> remarks;  ///< sentences: why nothing was seen or gained, and errors
};

/// Gathers the processes of a run while they end. One thread.
class RunGatherer {
 public:
  void add(ProcessReport process, std::vector<FileReport> files);
  void add(PrefetchReport prefetch);
  void add(EarlyWriteReport early);
  /// Adds why files were helped, or not.
  void add(HelpNotes notes) { notes_ = std::move(notes); }
  /// Adds a file that was looked at from outside. Its series counts only where no process of the
  /// run counted reads of that file.
  void add_seen(FileReport file);

  /// Puts processes, files, totals and engine into the report.
  void finish(RunReport& report) &&;

  [[nodiscard]] size_t images() const noexcept { return processes_.size(); }

 private:
  void merge(FileReport file);
  void add_unseen_series();

  void add_notes();

  HelpNotes notes_;
  std::vector<FileReport> seen_;
  uint64_t unseen_files_ = 0;  // of these, not counted by a process
  uint64_t unseen_bytes_ = 0;
  std::vector<ProcessReport> processes_;
  std::vector<FileReport> files_;
  uint64_t prefetch_operations_ = 0;
  bool is_compared_ = false;  ///< what was done for some file, with doing nothing
  double trial_seconds_ = 0;
  std::unordered_map<std::string, size_t> index_;  // path -> position in files_
};

}  // namespace ioweave::stats
