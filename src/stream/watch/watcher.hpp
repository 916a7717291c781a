#pragma once

// Prefetches for all processes of a run, and has written early what they write, from outside.
//
// How it works. A thread of the command looks at the positions of the files that the run's
// processes have open (proc_files.hpp), and at the reads and seeks that the interposer notes if it
// is loaded (process_segment.hpp). It works out what each reader will want (read_follower.hpp), and
// starts the kernel's read-ahead there on an open file description of its own
// (engine/read_ahead_walk.hpp); the page cache is shared. So it follows every way to read: the C
// library's streams, inherited descriptors, static and Go programs, and also memory maps, by the
// pages that the process has touched. Reads that move no position, by io_uring or at explicit
// offsets, it follows by the pages that come into the page cache (cache_frontier.hpp). It adds
// nothing to the processes, and so cannot harm them.
//
// Files that the processes write are looked at in the same way (early_writer.hpp).
//
// The only thing that a program could notice is the open file. So the thread opens no file in a run
// one of whose processes listens to opens, nor one on which the program holds a lease. A file is
// open only while something is asked for and the reader moves. It is closed at once when its
// process ends, and with the next look or scan, some milliseconds later, when the process closes or
// unmaps it.
//
// Files that processes of the run have opened by MPI-IO are left to libioweave_mpiio_*.so
// (mpiio_files.hpp).
//
// If the reads of the run are to be recorded, or a plan of them is replayed, the thread also takes
// the reads that the processes note one by one (replay/run_reads.hpp). Files of the plan are read
// ahead by it (replay/replayer.hpp), as long as the program does what it says.
//
// Looking costs processor time: at most 2 % of one processor for processes and files, 5 % for
// positions of readers, and 2.5 % for files that are written.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "config/description.hpp"
#include "stats/help_report.hpp"
#include "stats/run_report.hpp"
#include "stats/segment.hpp"
#include "stream/watch/replay/plan_recorder.hpp"
#include "stream/watch/replay/read_plan.hpp"

namespace ioweave::stream {

/// What is done with the single reads of a run. It takes processes that note them
/// (config::RunConfig::logs_reads).
struct ReadsWanted {
  bool are_recorded = false;
  std::string folder;            ///< names of files below it are recorded relative to it
  std::optional<ReadPlan> plan;  ///< to replay
};

/// One run. start() and stop() from one thread.
class Watcher {
 public:
  /// `run_directory`: the directory of the segments; empty: no process has one. On each of the
  /// `devices` that this node has, the watcher reads no more than the device's budget allows.
  Watcher(const config::RunConfig& config, std::string run_directory,
          std::vector<config::Device> devices, ReadsWanted reads = {});
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// Starts to follow `program` and the processes that it starts. If no thread can be made, nothing
  /// is followed.
  void start(pid_t program);

  /// What was done for each file for which something was done.
  struct Reports {
    std::vector<stats::PrefetchReport> prefetched;
    std::vector<stats::EarlyWriteReport> written_early;
    stats::HelpNotes help;                           ///< why, or why nothing was done
    std::optional<PlanRecorder::Recorded> recorded;  ///< nothing: not wanted, or not in time
    stats::ReplayReport replay;
    uint64_t lost_reads = 0;  ///< that were noted and could not be taken
  };
  /// Stops, and returns the results. Waits for the thread at most a second, so that a file system
  /// that hangs does not hold up the command; the thread then ends with the command.
  Reports stop();

 private:
  struct Shared;
  class Thread;
  std::shared_ptr<Shared> shared_;
};

}  // namespace ioweave::stream
