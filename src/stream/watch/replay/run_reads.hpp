#pragma once

// The reads that the processes of a run note one by one (stats/read_log.hpp), over all of them, in
// the order of their times.
//
// A log is data that another program writes. It is read and written by system calls and never
// mapped, as a segment is. Where its numbers make no sense, reads are lost and nothing else.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/descriptor.hpp"
#include "base/file_id.hpp"
#include "stream/watch/file_range.hpp"

namespace ioweave::stream {

/// A file of which a process noted a read.
struct ReadFile {
  FileId id;
  std::vector<std::string> paths;  ///< as the processes told them, each once: the first few
};

/// One thread.
class RunReads {
 public:
  /// `run_directory`: where the logs are; empty: there are none.
  explicit RunReads(std::string run_directory);

  struct Read {
    uint64_t ticks = 0;
    uint32_t file = 0;  ///< for file()
    pid_t process = 0;
    FileRange range;
  };
  /// Returns what was noted since the last call, in the order of time as far as it was noted by
  /// then; at most some hundred thousand reads. The answer is valid until the next call. It is
  /// empty only if nothing more was noted.
  [[nodiscard]] const std::vector<Read>& take();

  /// The run is over: from now on each take() looks for new logs, and waits for no slot that is
  /// not published.
  void take_all() noexcept { takes_all_ = true; }

  [[nodiscard]] const ReadFile& file(uint32_t number) const { return files_[number]; }
  /// Returns the reads that found no room in their log, or were garbled.
  [[nodiscard]] uint64_t lost() const noexcept;

 private:
  struct Log {
    pid_t process = 0;
    Descriptor file;
    Descriptor segment;
    uint64_t taken = 0;
    uint64_t lost = 0;              ///< by the process, as last seen
    uint64_t stuck_ns = 0;          ///< since when the next read is not published; 0: it is not so
    std::vector<uint32_t> numbers;  ///< of its records, for file(); 0: not known yet, else + 1
  };

  void find_logs();
  void close_ended();
  void add_log(const std::string& name);
  [[nodiscard]] bool take_from(Log& log);
  [[nodiscard]] size_t published(Log& log, size_t wanted);
  [[nodiscard]] size_t unpublished(const Log& log, size_t wanted) const;
  void add_reads(Log& log, size_t count);
  [[nodiscard]] uint32_t file_of(Log& log, uint32_t record);
  [[nodiscard]] uint32_t number_of(const FileId& id, const char* path);
  [[nodiscard]] static bool is_over(const Log& log);

  std::string directory_;
  const size_t most_logs_;
  std::map<std::string, Log> logs_;
  std::set<std::string> closed_;  // names of logs that were closed before they were removed
  std::vector<ReadFile> files_;
  std::map<FileId, uint32_t> numbers_;
  std::vector<Read> reads_;
  std::vector<std::byte> slots_;
  uint64_t lost_ = 0;  // of logs that are over, and what was garbled
  uint64_t find_ns_ = 0;
  bool takes_all_ = false;
};

}  // namespace ioweave::stream
