#pragma once

// Has the kernel write what programs have just written, from outside, while they compute. Their own
// fsync(2) then finds little left to do.
//
// How it works. The watcher finds the files that the run's processes have open for writing. Of each
// that gets longer in order (write_follower.hpp) the part behind its writer is written early
// (write_back_thread.hpp), on a description of the command's own, if that has paid for files of its
// folder (early_trial.hpp). Nothing that the program can see changes: not the file, its times, nor
// where an error of the device is reported.
//
// That a program has synced a file is seen by its last whole page: it was changed, was not written
// early, and is clean now (cachestat(2), Linux 6.5). So every way to sync is seen, of any process.
// A kernel that has written it by itself, which it does after many seconds, looks the same.
//
// Only files on disks of this machine are followed, and none that are written with O_DIRECT, O_SYNC
// or O_DSYNC, since these have nothing left to write.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <sys/types.h>

#include "base/descriptor.hpp"
#include "config/run_config.hpp"
#include "stats/run_report.hpp"
#include "stream/watch/early_trial.hpp"
#include "stream/watch/proc_files.hpp"
#include "stream/watch/write_back_thread.hpp"
#include "stream/watch/write_follower.hpp"

namespace ioweave::stream {

/// The writers of a run. One thread.
class EarlyWriter {
 public:
  /// What it asks of whoever knows the run.
  class Run {
   public:
    virtual ~Run() = default;
    /// Returns true if a file may be opened now, and announces that one will be.
    [[nodiscard]] virtual bool may_open() = 0;
    /// Returns true if the file is left alone, whatever the settings say.
    [[nodiscard]] virtual bool leaves_alone(dev_t device, ino_t inode) = 0;
  };

  /// Both outlive this.
  EarlyWriter(const config::RunConfig& config, Run& run);
  ~EarlyWriter();
  EarlyWriter(const EarlyWriter&) = delete;
  EarlyWriter& operator=(const EarlyWriter&) = delete;

  /// A scan of the run's processes: begin_scan(), meet() for each file that is open for writing,
  /// keep() for each process that has not run since the last scan, end_scan().
  void begin_scan();
  void meet(pid_t process, const OpenFile& file);
  void keep(pid_t process);
  /// Forgets the files that were not met.
  void end_scan();
  void forget_process(pid_t process);

  /// Looks at the writers whose time has come. Returns true if a file is not open any more.
  bool look();
  /// Returns when the next look is due; UINT64_MAX: not before the next scan.
  [[nodiscard]] uint64_t next_look_ns() const noexcept;
  /// Returns the time that the last look took.
  [[nodiscard]] uint64_t looked_ns() const noexcept { return looked_ns_; }

  [[nodiscard]] size_t writers() const noexcept { return writers_.size(); }
  [[nodiscard]] bool has_open() const noexcept;
  /// Closes all files.
  void let_go();

  /// Forgets all writers, and returns what was done for each file.
  [[nodiscard]] std::vector<stats::EarlyWriteReport> finish();

 private:
  struct Writer;
  using Key = std::pair<pid_t, int>;
  using Writers = std::map<Key, Writer>;
  static constexpr size_t kMostWriters = 256;

  [[nodiscard]] bool is_wanted(const Writer& writer) const noexcept;
  void look_at(const Key& key, Writer& writer, uint64_t now);
  [[nodiscard]] bool open_own(const Key& key, Writer& writer);
  [[nodiscard]] bool was_synced(Writer& writer) const;
  void write_early(Writer& writer, bool stands_still);
  void end_cycle(Writer& writer, bool is_synced, uint64_t now);
  Writers::iterator forget(Writers::iterator writer);

  const config::RunConfig& config_;
  Run& run_;
  Writers writers_;
  std::map<std::string, EarlyTrial> trials_;  // by folder
  std::map<pid_t, ProcFile> totals_;
  WriteBackThread thread_;
  uint64_t looked_ns_ = 0;
  std::map<std::string, stats::EarlyWriteReport> reports_;  // by path
};

}  // namespace ioweave::stream
