#pragma once

// Brings the reads of a plan (read_plan.hpp) into the page cache ahead of a program that makes them
// again, from outside.
//
// How it works. The reads that the run's processes note (run_reads.hpp) tell where in the plan each
// file is (plan_follower.hpp). What comes next of it is asked for by advice, exactly these ranges
// and nothing between them, on a description of the command's own. It is opened when the program
// has made its first read of the file, under the rules of the watcher (watcher.hpp): it is closed
// when nothing more is to be asked for, when the program stands still for a tenth of a second, when
// it closes the file, and at once when it ends.
//
// Of files that no process has read yet, the first reads are asked for ahead of the first process:
// of a few files, and a few megabytes. They are open only for that moment.
//
// Files that are read in long stretches in order are left to the ordinary follower, whose
// read-ahead is cheaper. So are files of which the program reads something else than the plan says.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/file_id.hpp"
#include "stats/run_report.hpp"
#include "stream/watch/bandwidth_budget.hpp"
#include "stream/watch/proc_files.hpp"
#include "stream/watch/replay/read_plan.hpp"
#include "stream/watch/replay/run_reads.hpp"

namespace ioweave::stream {

/// One run. One thread.
class Replayer {
 public:
  /// Whoever knows the run.
  class Run {
   public:
    virtual ~Run() = default;
    /// Returns true if a file may be opened now.
    [[nodiscard]] virtual bool may_open() = 0;
    /// The same of a file that a process has open. The file is closed when that process ends
    /// (forget_process()).
    [[nodiscard]] virtual bool may_open(pid_t process) = 0;
    /// Returns true if the open files had to be closed just now, or have to be soon (let_go()).
    [[nodiscard]] virtual bool must_let_go() = 0;
    /// Returns true if the file is left alone, whatever the plan says.
    [[nodiscard]] virtual bool leaves_alone(const FileId& id) = 0;
    /// Returns true if the settings allow that a file of this path is read ahead.
    [[nodiscard]] virtual bool policy_allows(const std::string& path) = 0;
    /// Returns the budget of the device of a file; null: none.
    [[nodiscard]] virtual BandwidthBudget* budget_for(dev_t device, const std::string& path) = 0;
    /// Returns the window of the kernel's read-ahead.
    [[nodiscard]] virtual uint64_t window_bytes(dev_t device) = 0;
    /// Returns true if files on this device lose what is cached of them when they are opened.
    [[nodiscard]] virtual bool is_forgetful(dev_t device) = 0;
    virtual void note_forgetful(dev_t device) = 0;
    /// Notes that a file is open, or was a moment ago. `is_kept`: see RunState::announce_open().
    virtual void note_open(bool is_kept) = 0;
  };

  /// Finds the files of the plan, which outlives this, as `run` does.
  Replayer(const ReadPlan& plan, Run& run);
  ~Replayer();
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;

  /// Takes what processes have read since the last call.
  void take(const RunReads& reads, const std::vector<RunReads::Read>& news);
  /// Asks for what comes next, until there is enough of it or others should have their turn.
  void look();
  /// Returns when the next look is due.
  [[nodiscard]] uint64_t next_look_ns() const noexcept { return look_ns_; }

  /// Returns true if this file is read ahead here, and by nobody else.
  [[nodiscard]] bool leads(const FileId& id) const;

  /// Sets how many bytes may be ahead in each file.
  void set_lookahead(uint64_t bytes) noexcept { lookahead_bytes_ = bytes; }
  /// Returns how many files are open.
  [[nodiscard]] size_t open_files() const noexcept;
  /// Returns true if a file is open that its file system would keep if it were removed.
  [[nodiscard]] bool keeps_file() const noexcept;
  void let_go();
  void forget_process(pid_t process);

  struct Results {
    stats::ReplayReport report;
    std::vector<stats::PrefetchReport> files;
  };
  [[nodiscard]] Results finish();

 private:
  struct File;

  void find_file(File& file);
  [[nodiscard]] File* file_of(const RunReads& reads, uint32_t number);
  [[nodiscard]] File* find_by_path(const ReadFile& read);
  void meet(File& file);
  void look_at(File& file, uint64_t now);
  [[nodiscard]] bool is_over(File& file, uint64_t now) const;
  [[nodiscard]] bool ask(File& file, unsigned most);
  [[nodiscard]] bool open_own(File& file);
  [[nodiscard]] bool find_opener(File& file);
  void begin_unread();
  void begin_file(File& file);
  [[nodiscard]] bool may_help(const File& file);

  Run& run_;
  std::vector<std::unique_ptr<File>> files_;  // in the order of the plan
  std::map<FileId, File*> by_id_;
  std::unordered_map<std::string, File*> by_path_;
  std::unordered_map<uint32_t, File*> by_number_;  // of RunReads; null: not in the plan
  std::vector<File*> active_;                      // met, and not done
  size_t unread_ = 0;                              // the next file to begin ahead
  size_t met_ = 0;                                 // files up to the last one met
  std::deque<std::pair<File*, uint64_t>> begun_;   // ahead, with the bytes asked for
  uint64_t begun_bytes_ = 0;
  uint64_t lookahead_bytes_ = 128u << 20;
  uint64_t look_ns_ = 0;
  uint64_t moved_ns_ = 0;
  stats::ReplayReport report_;
};

}  // namespace ioweave::stream
