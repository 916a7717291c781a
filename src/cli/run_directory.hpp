#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stats/run_report.hpp"
#include "stats/segment.hpp"
#include "stats/segment_reader.hpp"

namespace ioweave::cli {

/// The directory that a run shares with its program (stats/segment.hpp): private to the user, on
/// tmpfs if possible, removed at the end with everything in it. This object locks the directory for
/// its lifetime. A directory that a killed command left behind has no lock, and the next run
/// removes it. One thread; the lock's descriptor is close-on-exec.
class RunDirectory {
 public:
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// Makes a directory in the first place that allows it: XDG_RUNTIME_DIR, /dev/shm, TMPDIR, /tmp.
  /// On failure returns null; `why` says what went wrong.
  [[nodiscard]] static std::unique_ptr<RunDirectory> create(std::string& why);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// Keeps the directory at the end, and from later sweeps.
  void keep() noexcept;

  /// Writes `config`. Returns 0 or -errno.
  [[nodiscard]] int write_config(const config::RunConfig& config) const;

  /// Returns a path to `library` that LD_PRELOAD can express. That list is separated by blanks and
  /// colons, expands '$', and knows no quotes; a path with such characters gets a link in the
  /// directory. Empty on failure.
  [[nodiscard]] std::string preload_entry(const std::string& library) const;

  /// Returns what the file of this name holds, its first megabytes; empty if there is none.
  [[nodiscard]] std::string content(const char* name) const;

  /// Writes what killed processes have held back, whose writes were promised
  /// (stats/behind_pool.hpp). Reads and removes the segments of processes that have ended (with
  /// `last`, all segments), so that a build that starts a hundred thousand compilers does not fill
  /// the tmpfs. Errors become remarks, each kind once.
  void gather(stats::RunGatherer& gatherer, bool last, std::vector<std::string>& remarks);

  /// Returns what gather() has found of writes that were held back.
  [[nodiscard]] const stats::BehindReport& behind() const noexcept { return behind_; }

 private:
  void end_writes(const std::string& name, bool last, std::vector<std::string>& remarks);

  RunDirectory(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  bool keep_ = false;
  stats::BehindReport behind_;
};

/// Removes the directories that killed commands of this user left in `parent`.
void sweep_stale_run_directories(const std::string& parent);

}  // namespace ioweave::cli
