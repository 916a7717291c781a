#pragma once

// The requests of a run's processes to the command while it prefetches (stats/segment.hpp,
// RunState): to close its open files, because one of them is in the way of a call.
//
// The state is shared with another program. It is read and written by system calls and never
// mapped, so that a file truncated meanwhile is an error here and not a SIGBUS.

#include <cstdint>
#include <string>

#include "base/descriptor.hpp"

namespace ioweave::stream {

/// One thread.
class RunState {
 public:
  /// If `run_directory` is empty or has no configuration, no process will ask.
  explicit RunState(const std::string& run_directory);

  struct Request {
    bool closes = false;  ///< close all files, then answer()
    /// A process listens to opens from now on, so all processes must be scanned again.
    bool listens = false;
  };
  /// Returns what was asked since the last answer.
  [[nodiscard]] Request request() noexcept;
  /// Answers: no file is open any more.
  void answer() noexcept;
  void announce_none_open() noexcept;
  /// Announces that a file will be opened: a process that asks from now on waits for the answer.
  /// Returns false if no process could know of it.
  [[nodiscard]] bool announce_opening() noexcept;
  /// Announces that a file is open. `is_kept`: its file system would keep it under another name if
  /// it were removed.
  void announce_open(bool is_kept, uint64_t now_ns) noexcept;

 private:
  Descriptor file_;
  uint32_t asked_ = 0;  // requests that were answered
  uint32_t listeners_ = 0;
  uint32_t seen_asked_ = 0;  // by the last request()
  uint32_t seen_listeners_ = 0;
  bool is_open_ = false;  // as announced
};

}  // namespace ioweave::stream
