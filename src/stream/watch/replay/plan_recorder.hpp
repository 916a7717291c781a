#pragma once

// Makes a plan (read_plan.hpp) of the reads that a run has noted.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stream/watch/file_range.hpp"
#include "stream/watch/replay/read_plan.hpp"
#include "stream/watch/replay/run_reads.hpp"

namespace ioweave::stream {

/// One run. One thread.
class PlanRecorder {
 public:
  /// Takes a read of a file (RunReads::file()).
  void take(uint32_t file, FileRange range);

  struct Recorded {
    ReadPlan plan;
    /// Files that have no name any more by which they are found, and the bytes that were read of
    /// them: they were removed, or their paths are too long.
    uint64_t nameless_files = 0;
    uint64_t nameless_bytes = 0;
    uint64_t left_out_reads = 0;  ///< beyond the bounds of a plan
  };
  /// Returns the plan, with the files as they are now. Names in `folder`, an absolute path, become
  /// relative to it; paths that are relative are looked up from the folder of this process.
  [[nodiscard]] Recorded finish(const RunReads& reads, const std::string& folder) &&;

 private:
  std::vector<PlannedReads> reads_;  // by the number of the file
  std::vector<uint32_t> order_;      // of the first reads
  size_t runs_ = 0;
  uint64_t left_out_reads_ = 0;
};

}  // namespace ioweave::stream
