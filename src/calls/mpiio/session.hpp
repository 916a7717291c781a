#pragma once

// What the library keeps of its process: the files that are open, and one plan for all of them.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "calls/mpiio/left_alone.hpp"
#include "calls/mpiio/mpi.hpp"
#include "calls/mpiio/open_file.hpp"
#include "calls/mpiio/run_notes.hpp"
#include "calls/mpiio/settings.hpp"
#include "calls/mpiio/write_behind.hpp"
#include "calls/report_file.hpp"
#include "service/service.hpp"
#include "stream/plan/file_state.hpp"
#include "stream/plan/plan.hpp"
#include "stream/write/write_stream.hpp"

namespace ioweave::calls {

struct MpiioCounts {
  std::atomic<uint64_t> files{0};
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> behind_writes{0};  ///< made behind the program
  std::atomic<uint64_t> behind_bytes{0};
  std::array<std::atomic<uint64_t>, static_cast<size_t>(LeftAlone::count)> left_alone{};

  void leave_alone(LeftAlone why) noexcept {
    left_alone[static_cast<size_t>(why)].fetch_add(1, std::memory_order_relaxed);
  }
};

/// Thread-safe. Never destroyed: a program may read to its very end.
class Session final : private PlanKeeper {
 public:
  /// A file as a handle knows it.
  struct Tracked {
    FileId id;
    std::shared_ptr<OpenFile> file;       ///< null: nothing is read ahead of it
    std::shared_ptr<WriteBehind> writer;  ///< null: what is written is written at once
    bool is_atomic = false;
  };

  /// Opened at the first call. Null where nothing is to be done: without memory, in a forked child,
  /// in a program with other privileges than its user's.
  [[nodiscard]] static Session* get() noexcept;
  /// Null also where none was opened.
  [[nodiscard]] static Session* opened() noexcept;

  /// MPI has opened a file by this name.
  void enter(MPI_File file, MPI_Comm comm, const char* name, int mode) noexcept;
  /// Null for a file that is left alone.
  [[nodiscard]] std::shared_ptr<OpenFile> find(MPI_File file) noexcept;
  /// What is left of a file. Its end closes descriptors, which takes all locks of fcntl(2) on the
  /// file from the process, so it has to come behind MPI's own end.
  struct Left {
    Tracked tracked;
    int error = 0;  ///< -errno of a write behind the program that failed
  };
  [[nodiscard]] Left leave(MPI_File file) noexcept;
  /// Forgets all files, and says what became of them. Nothing is read ahead after that.
  void finish() noexcept;

  // Writes behind the program.

  /// Of a handle whose writes may be left to a writer; otherwise without one.
  [[nodiscard]] Tracked find_to_write(MPI_File file) noexcept;
  /// Settles the file. Returns 0, or -errno of a write of it that failed, once.
  [[nodiscard]] int take_error(MPI_File file) noexcept;
  /// In atomic mode nothing that is written by this handle waits.
  void set_atomic(MPI_File file, bool is_atomic) noexcept;
  /// Before anything else is done to the file.
  void drain(MPI_File file) noexcept;
  void drain_all() noexcept { writers_.drain_all(); }
  /// Before the process ends: drains all, and prints an error that no call can tell any more.
  void end_writes() noexcept;
  [[nodiscard]] bool writes_behind() const noexcept { return settings_.write_behind_bytes != 0; }

  /// For a read, write or the like of the program's; null while nothing has been read ahead.
  [[nodiscard]] stream::Plan* plan() const noexcept {
    return shown_plan_.load(std::memory_order_acquire);
  }
  [[nodiscard]] MpiioCounts& counts() noexcept { return counts_; }

 private:
  Session();
  [[nodiscard]] Tracked* look_up(MPI_File file) noexcept;  // under the lock of the files
  [[nodiscard]] Session* unless_inherited() noexcept {
    return born_ == service::fork_generation() ? this : nullptr;
  }
  [[nodiscard]] stream::Plan* open_plan() noexcept override;
  void open_plan_once();
  [[nodiscard]] bool open_service();
  [[nodiscard]] stream::WriteStream* open_stream();
  [[nodiscard]] Descriptor open_file(const NamedFile& file) noexcept override;
  void note_closed() noexcept override { open_files_.fetch_sub(1, std::memory_order_relaxed); }
  void leave_alone(LeftAlone why) noexcept override { counts_.leave_alone(why); }
  [[nodiscard]] bool find_file(const char* name, MPI_Comm comm, int mode, NamedFile& file);
  void claim(const char* name);
  void claim(const FileId& file);
  void add_report() const;  // under the lock of the plan

  std::string warnings_;
  const MpiioSettings settings_;
  const ReportFile report_;
  const RunNotes run_notes_;
  static std::atomic<Session*> only_;
  const uint32_t born_;
  const uint32_t most_open_;  ///< descriptors of files that are read ahead
  std::atomic<uint32_t> open_files_{0};
  MpiioCounts counts_;

  std::mutex plan_lock_;  ///< of the next five
  service::Service::Owner service_;
  stream::Plan::Owner plan_;
  stream::WriteStream::Owner stream_;
  bool was_opened_ = false;  ///< the plan, or it cannot be
  std::string why_without_;

  Writers writers_;

  std::mutex lock_;  ///< of the next two
  std::unordered_map<MPI_File, Tracked> files_;
  std::set<FileId> claimed_;  ///< told to the command of the run
  std::atomic<stream::Plan*> shown_plan_{nullptr};
};

}  // namespace ioweave::calls
