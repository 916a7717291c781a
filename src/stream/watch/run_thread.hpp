#pragma once

// A thread of the command that looks at a run from outside. Nobody joins it: a file system that
// hangs must not hold up the command, with which the thread ends then.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "base/descriptor.hpp"

namespace ioweave::stream {

/// What the command and its thread share. start() and stop() from one thread.
class RunThread {
 public:
  RunThread();
  RunThread(const RunThread&) = delete;
  RunThread& operator=(const RunThread&) = delete;

  /// Runs `body` on a thread, with all signals masked. `owner` keeps this object until it ends. If
  /// no thread can be made, or memory runs out in it, the run goes on without.
  void start(std::shared_ptr<const void> owner, std::function<void()> body);

  /// Asks it to end, and waits for that at most a second. Results may be taken under the lock.
  [[nodiscard]] std::unique_lock<std::mutex> stop();

  // For the thread itself.

  /// Readable: it is to end.
  [[nodiscard]] int wake() const noexcept { return wake_.get(); }
  /// For what it has found.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(lock_); }

 private:
  const Descriptor wake_;
  std::mutex lock_;
  std::condition_variable changed_;
  bool has_ended_ = true;
};

}  // namespace ioweave::stream
