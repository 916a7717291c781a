#pragma once

// Records from outside what processes read over time that the interposer does not see: by the C
// library's streams, redirected standard input, static and Go programs.
//
// A thread of the command looks at the positions of open files and at how long each process ran
// (/proc/PROCESS/schedstat, its first thread). A process that reads and does not run waits for what
// it reads: all time between two looks in which it neither ran nor waited for a processor counts as
// reading. What it slept or wrote counts, too, so that the times are an upper bound.
//
// Looking costs at most 2 % of one processor.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <sys/types.h>

#include "base/descriptor.hpp"
#include "stats/run_report.hpp"

namespace ioweave::stream {

/// A series that grows as FileSeries does (stats/series.hpp): in slots whose length doubles. Pure
/// logic.
class GrowingSeries {
 public:
  static constexpr size_t kSlots = 64;

  GrowingSeries(uint64_t start_ns, uint64_t slot_ns) : start_ns_(start_ns), slot_ns_(slot_ns) {
    values_.resize(kSlots);
  }

  /// Adds what was read until `now_ns`, and how long that took, to the slots of that time.
  void add_read(uint64_t now_ns, uint64_t calls, uint64_t bytes, double seconds);

  [[nodiscard]] uint64_t slot_ns() const noexcept { return slot_ns_; }
  /// Returns the series without the empty slots at its end. Its start is an absolute time.
  [[nodiscard]] stats::Series finished() const;

 private:
  void join_pairs();

  uint64_t start_ns_;
  uint64_t slot_ns_;
  stats::Series values_;
};

/// One run. One thread, which starts and stops it.
class PositionRecorder {
 public:
  PositionRecorder();
  ~PositionRecorder();
  PositionRecorder(const PositionRecorder&) = delete;
  PositionRecorder& operator=(const PositionRecorder&) = delete;

  /// Starts to look at `program` and the processes that it starts. If no thread can be made,
  /// nothing is recorded.
  void start(pid_t program);

  /// Stops, and returns the files that were read, each with its series.
  [[nodiscard]] std::vector<stats::FileReport> stop();

 private:
  struct Shared;
  class Thread;
  std::shared_ptr<Shared> shared_;
};

}  // namespace ioweave::stream
