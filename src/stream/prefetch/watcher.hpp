#pragma once

// Prefetches for all processes of a run, from outside.
//
// How it works. A thread of the command looks at the positions of the files that the run's
// processes have open (proc_files.hpp) and at the reads and seeks that the interposer notes where
// it is loaded (process_segment.hpp), works out what each reader will want (read_follower.hpp), and
// starts the kernel's read-ahead there on an open file description of its own
// (engine/read_ahead_walk.hpp); the page cache is shared. Whatever reads is followed: the C
// library's streams, inherited descriptors, static and Go programs; and memory maps, by the pages
// that the process has touched. Nothing is added to the processes, and nothing in them can be hurt
// by it. io_uring moves no position and is not seen.
//
// What somebody could notice is the open file. So nothing is opened in a run one of whose processes
// listens to opens, nor where the program holds a lease; it is open only while something is asked
// for and the reader moves; and it is closed at once when its process ends, and with the next look
// or scan, some milliseconds later, when the process closes or unmaps it.
//
// Looking costs processor time: at most 2 % of one processor for processes and files, and 5 % for
// positions.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "config/description.hpp"
#include "stats/run_report.hpp"
#include "stats/segment.hpp"

namespace ioweave::stream {

/// One run. start() and stop() from one thread.
class Watcher {
 public:
  /// `run_directory`: of the segments; empty: none of the processes has one. From each of the
  /// `devices` that this node has, no more is brought in than its budget allows.
  Watcher(const config::RunConfig& config, std::string run_directory,
          std::vector<config::Device> devices);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// Starts to follow `program` and what it starts. Without the means for a thread nothing is
  /// followed.
  void start(pid_t program);

  /// Ends it, and tells what came of it for each file for which something was asked. Waits for the
  /// thread at most a second: a file system that hangs must not keep the command; the thread ends
  /// with the command then.
  std::vector<stats::PrefetchReport> stop();

 private:
  struct Shared;
  class Thread;
  std::shared_ptr<Shared> shared_;
};

}  // namespace ioweave::stream
