#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stats/run_report.hpp"
#include "stats/segment.hpp"
#include "stats/segment_reader.hpp"

namespace ioweave::cli {

/// The directory that a run shares with its program (stats/segment.hpp): private to the user, on
/// tmpfs where possible, removed at the end with everything in it. It holds a lock on the
/// directory for its lifetime: what a killed command left behind has no lock, and the next run
/// sweeps it away. One thread; the lock's descriptor is close-on-exec.
class RunDirectory {
 public:
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// Makes one in the first place that allows it: XDG_RUNTIME_DIR, /dev/shm, TMPDIR, /tmp. Null
  /// with what went wrong in `why`.
  [[nodiscard]] static std::unique_ptr<RunDirectory> create(std::string& why);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// Leaves it behind, and safe from later sweeps.
  void keep() noexcept;

  /// Writes `config`. 0 or -errno.
  [[nodiscard]] int write_config(const config::RunConfig& config) const;

  /// A path to `library` that LD_PRELOAD can express: the list separates by blanks and colons and
  /// expands '$', and knows no quoting. Such a path gets a link in here. Empty on failure.
  [[nodiscard]] std::string preload_entry(const std::string& library) const;

  /// Takes the segments of processes that have ended out of the directory (all segments where
  /// `last`): a build that starts a hundred thousand compilers must not fill the tmpfs. Faults
  /// become remarks, each kind once.
  void gather(stats::RunGatherer& gatherer, bool last, std::vector<std::string>& remarks);

 private:
  RunDirectory(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  bool keep_ = false;
};

/// Removes what killed commands of this user left in `parent`.
void sweep_stale_run_directories(const std::string& parent);

}  // namespace ioweave::cli
