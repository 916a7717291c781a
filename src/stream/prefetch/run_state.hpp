#pragma once

// What processes of a run ask of the command while it prefetches (stats/segment.hpp, RunState):
// that the files which it has open be closed, because one of them is in the way of a call.
//
// The state is shared with somebody else's program: it is read and written by system calls, never
// mapped, so that a file truncated underneath is an error here and not a SIGBUS.

#include <cstdint>
#include <string>

#include "base/descriptor.hpp"

namespace ioweave::stream {

/// One thread.
class RunState {
 public:
  /// `run_directory`: empty, or without a configuration: nobody will ask.
  explicit RunState(const std::string& run_directory);

  struct Request {
    bool closes = false;  ///< what is open, before answer()
    bool listens =
        false;  ///< somebody hears of opens from now on: processes must be looked at anew
  };
  /// What was asked since the last answer.
  [[nodiscard]] Request request() noexcept;
  /// Nothing is open any more.
  void answer() noexcept;
  void has_none_open() noexcept;
  /// Before a file is opened: whoever asks from now on waits for the answer. False: nobody would
  /// know of it.
  [[nodiscard]] bool will_open() noexcept;
  /// A file is open, and `is_kept` one that its file system would keep under another name if it
  /// were removed.
  void has_open(bool is_kept, uint64_t now_ns) noexcept;

 private:
  Descriptor file_;
  uint32_t asked_ = 0;  // as far as answered
  uint32_t listeners_ = 0;
  uint32_t seen_asked_ = 0;  // by the last request()
  uint32_t seen_listeners_ = 0;
  bool is_open_ = false;  // as told
};

}  // namespace ioweave::stream
