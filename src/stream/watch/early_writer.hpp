#pragma once

// Has the kernel write what programs have just written, from outside, while they compute. Their own
// fsync(2) then finds little left to do.
//
// How it works. The watcher finds the files that the run's processes have open for writing. Of each
// that gets longer in order (write_follower.hpp) the part behind its writer is written early
// (write_back_thread.hpp), on a description of the command's own, if that has paid for files of the
// same use (early_trial.hpp): those of one program in one folder, or in folders whose names differ
// in numbers.
//
// Whether the program has had a file written is seen by the last whole page: it was changed, was
// not written early, and is clean (cachestat(2), Linux 6.5). So every way to sync is seen, of any
// process. If the kernel has written it by itself, which it does after 30 seconds, or when much
// memory waits to be written, that looks the same.
//
// What the program could notice. Its file is open a second time. ext4 and XFS begin to write a file
// that was truncated when it is closed for the first time. So that the program's own close stays
// the first, ours comes behind it, some milliseconds later, or after a removal of the file. (Only
// who asks for all files to be closed, or listens to opens, has them closed before.) XFS forgets to
// do that once it has written a part: then the rest is begun here.
//
// Only ext4 and XFS are followed, and no files that are written with O_DIRECT, O_SYNC or O_DSYNC,
// since these have nothing left to write.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <sys/types.h>

#include "base/file_id.hpp"
#include "config/run_config.hpp"
#include "stats/help_report.hpp"
#include "stats/run_report.hpp"
#include "stream/watch/early_trial.hpp"
#include "stream/watch/proc_files.hpp"
#include "stream/watch/write_back_thread.hpp"

namespace ioweave::stream {

/// The writers of a run. One thread.
class EarlyWriter {
 public:
  /// Whoever knows the run.
  class Run {
   public:
    virtual ~Run() = default;
    /// Returns true if a file that a process has open may be opened now. The file is closed when
    /// that process ends (forget_process()).
    [[nodiscard]] virtual bool may_open(pid_t process) = 0;
    /// Returns true if the file is left alone, whatever the settings say.
    [[nodiscard]] virtual bool leaves_alone(const FileId& id) = 0;
    /// Returns all that a process has written; nothing if that is not known.
    [[nodiscard]] virtual std::optional<uint64_t> written_bytes(pid_t process) = 0;
    /// Takes the result of one cycle of a file that was written early.
    virtual void report(stats::EarlyWriteReport cycle) = 0;
    /// Takes why something was done in one cycle of a file, or nothing. `path`: empty if the file
    /// was never to be opened.
    virtual void explain(const FileId& id, const std::string& path,
                         const stats::EarlyHelpReport& cycle) = 0;
  };

  /// Both outlive this.
  EarlyWriter(const config::RunConfig& config, Run& run);
  ~EarlyWriter();
  EarlyWriter(const EarlyWriter&) = delete;
  EarlyWriter& operator=(const EarlyWriter&) = delete;

  /// A scan of the run's processes: begin_scan(), meet() for each file that is open for writing,
  /// keep() for each process that has not run since the last scan, end_scan().
  void begin_scan();
  /// `since_ns`: a moment, by base/clock.hpp's now_ns(), at which it was not open yet.
  void meet(pid_t process, const OpenFile& file, uint64_t since_ns);
  void keep(pid_t process);
  /// Forgets what was not met.
  void end_scan();
  void forget_process(pid_t process);

  /// Looks at the files whose time has come: for at most a fortieth of the time. Returns true if
  /// one is not open any more.
  bool look();
  /// Returns when the next look is due; UINT64_MAX: not before the next scan.
  [[nodiscard]] uint64_t next_look_ns() const noexcept;

  /// Returns how many files are followed.
  [[nodiscard]] size_t files() const noexcept { return files_.size(); }
  /// Returns true if a file is open here.
  [[nodiscard]] bool has_open() const noexcept;
  /// Closes all files. Waits at most so long for what is under way, and returns !has_open().
  bool let_go(uint64_t most_ns);
  /// Forgets all files.
  void finish();

 private:
  struct Opener;
  struct File;
  using Files = std::map<FileId, File>;

  [[nodiscard]] bool make_room();
  template <class Predicate>
  static void drop_openers(File& file, Predicate is_dropped);
  void look_at(const FileId& id, File& file, uint64_t now);
  [[nodiscard]] bool see(const FileId& id, File& file, uint64_t now);
  void note_news(File& file, uint64_t news, uint64_t now);
  void decide(File& file) const noexcept;
  [[nodiscard]] bool open_own(const FileId& id, File& file);
  [[nodiscard]] stats::EarlyHelp why_not_opened(const FileId& id, File& file);
  [[nodiscard]] stats::EarlyHelp why(const File& file,
                                     const EarlyTrial::Cycle& cycle) const noexcept;
  [[nodiscard]] bool was_synced(File& file) const;
  void write_early(const FileId& id, File& file, bool stands_still);
  void end_cycle(const FileId& id, File& file, bool is_synced, uint64_t now);
  Files::iterator forget(Files::iterator file);

  const config::RunConfig& config_;
  Run& run_;
  const size_t most_files_;
  Files files_;
  std::map<std::string, EarlyTrial> trials_;  // by use
  WriteBackThread thread_;
  FileId in_thread_;  // the file that it writes, or wrote last
  uint64_t may_look_ns_ = 0;
};

}  // namespace ioweave::stream
