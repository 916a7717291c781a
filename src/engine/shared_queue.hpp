#pragma once

// A queue that many threads submit to and many reap, where a Backend has one owner. Whoever pauses
// a task in a transfer submits it here, whatever thread the task is on, and whoever comes by next
// collects what has ended: a ring of io_uring would run its completions on the thread that
// submitted, which sleeps with its task then (docs/decisions/0011).

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/backend.hpp"

namespace ioweave::engine {

/// Thread-safe but for abandon() and destruction.
class SharedQueue {
 public:
  /// When no other thread uses it and nothing is in flight.
  virtual ~SharedQueue() = default;
  SharedQueue(const SharedQueue&) = delete;
  SharedQueue& operator=(const SharedQueue&) = delete;

  /// Any thread. True: it is under way and will be reaped. False: this queue does not carry it
  /// without waiting in this call (buffered transfers, what is no transfer, a file system that
  /// cannot say so, no room), or it is an error; it is untouched, and for a Backend.
  [[nodiscard]] virtual bool submit(Operation& operation) noexcept = 0;

  /// Any thread. Whether reap() is worth its system call.
  [[nodiscard]] virtual bool has_ended() const noexcept = 0;

  /// Any thread, several at once. Fills `out` with operations that have ended, each given to one
  /// caller, with their `result`, and returns how many. -EAGAIN as a result: it would have had to
  /// wait for a resource in the kernel, nothing was moved. With `sleep` it waits until there is at
  /// least one, a wake() or a signal.
  [[nodiscard]] virtual size_t reap(std::span<Operation*> out, bool sleep) noexcept = 0;

  /// Any thread, while no other reaps without sleeping: a reap() that sleeps, or the next one that
  /// would, returns.
  virtual void wake() noexcept = 0;

  /// As Backend::abandon.
  virtual void abandon() noexcept = 0;

 protected:
  SharedQueue() = default;
};

/// Over Linux native AIO with RWF_NOWAIT. `entries`: most operations in flight, which the caller
/// keeps to. Null where it cannot be had, with a sentence in `why`.
[[nodiscard]] std::unique_ptr<SharedQueue> open_shared_queue(uint32_t entries, std::string& why);

}  // namespace ioweave::engine
