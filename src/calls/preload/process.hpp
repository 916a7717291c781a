#pragma once

// What the interposer knows of the process it lives in: the run's configuration, this process
// image's segment, and what fork, exec and exit do to them.
//
// How it works. The constructor maps the run's `config` and creates a segment. No descriptor stays
// open. A forked child owns neither: it is *unborn* until it first makes a call that counts, which
// creates a segment of its own (a shell forks hundreds of children that only exec). A vfork child
// shares the parent's memory and must not touch it: is_visitor() tells, and every wrapper that
// changes state asks. Everything here is async-signal-safe except attach().

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

#include "base/clock.hpp"
#include "stats/segment.hpp"

namespace ioweave::calls {

extern "C" {
/// Set by the vfork and clone wrappers (assembly): from then on pids must be compared.
extern std::atomic<uint32_t> ioweave_memory_was_shared;
}

/// The state of the process; constant-initialised, so usable before any constructor.
/// Thread-safe.
class Process {
 public:
  /// Of the run that this process was started in; null outside of one. No system call.
  [[nodiscard]] static const char* run_directory() noexcept;

  /// From the constructor: maps the configuration and the segment named by IOWEAVE_RUN_DIR.
  /// False: there is no run, or it cannot be joined, and nothing will be done.
  bool attach() noexcept;

  /// In a child after fork(2).
  void became_child() noexcept;

  /// Creates the segment of an unborn child. False where that is not possible or somebody else is
  /// just doing it: then the call at hand passes uncounted.
  bool be_born() noexcept;
  [[nodiscard]] bool unborn() const noexcept { return unborn_.load(std::memory_order_relaxed); }

  /// A child that shares the parent's memory (vfork, CLONE_VM).
  [[nodiscard]] bool is_visitor() const noexcept {
    return ioweave_memory_was_shared.load(std::memory_order_relaxed) != 0 && pid_differs();
  }

  /// A child that was made past fork(2) and clone(3), by syscall(2). It has the parent's memory as
  /// it was, without the parent's other threads.
  [[nodiscard]] bool is_unnoticed_child() const noexcept { return pid_differs(); }

  /// Null before attach() succeeded and while unborn.
  [[nodiscard]] stats::Segment* segment() const noexcept {
    return segment_.load(std::memory_order_acquire);  // pairs with create_segment()
  }
  [[nodiscard]] const config::RunConfig& config() const noexcept { return *config_; }
  /// Null where no run was joined. Shared with the command and all processes.
  [[nodiscard]] stats::RunState* run_state() const noexcept { return run_state_; }

  /// The program confines itself, or forbids the cycle counter, which the C library's clock reads
  /// as well: from now on neither a system call nor a clock of ours. Async-signal-safe.
  void leave_alone() noexcept;
  [[nodiscard]] bool left_alone(
      std::memory_order order = std::memory_order_relaxed) const noexcept {
    return left_alone_.load(order);
  }
  /// In a child of such a process: the segment is its parent's.
  void drop_segment() noexcept { segment_.store(nullptr, std::memory_order_relaxed); }

  /// The image ends by exit or exec; `running` takes an exec back that failed.
  void mark(stats::Segment::State state) noexcept;

  /// Notes the first downgrade or fault, one sentence.
  void explain(const char* why) noexcept;
  static constexpr size_t kPathBytes = 256;
  /// The name of a file of this image: "DIRECTORY/PID-N" and the suffix, in kPathBytes.
  void path_beside_segment(char* out, const char* suffix) const noexcept {
    path_of_image(out, pid_, image_, suffix);
  }
  /// The same of another process of the run.
  void path_of_image(char* out, pid_t pid, int image, const char* suffix) const noexcept;

  /// Returns true if a path lies in the run's directory.
  [[nodiscard]] bool is_of_run_directory(const char* path) const noexcept;

  /// Names the engine in use.
  void name_engine(const char* name) noexcept;

 private:
  [[nodiscard]] bool pid_differs() const noexcept;
  [[nodiscard]] bool map_config() noexcept;
  [[nodiscard]] bool create_segment() noexcept;
  [[nodiscard]] stats::Segment* map_new_segment() noexcept;
  void begin_read_log() noexcept;

  const config::RunConfig* config_ = nullptr;
  stats::RunState* run_state_ = nullptr;
  std::atomic<stats::Segment*> segment_{nullptr};
  std::atomic<bool> unborn_{false};
  std::atomic<bool> left_alone_{false};
  std::atomic<uint32_t> birth_{0};  // 1 while a thread creates the segment
  std::atomic<uint32_t> explained_{0};
  pid_t pid_ = 0;
  int image_ = 0;  // of this pid, in the segment's name
  char directory_[192] = {};
};

extern Process process;

/// now_ticks() for what wraps a call; 0 where the program must not be disturbed by a clock.
inline uint64_t call_ticks() noexcept {
  return process.left_alone() ? 0 : now_ticks();
}

}  // namespace ioweave::calls
