#pragma once

// The queue that the direct transfers of tasks share (engine/shared_queue.hpp). Whoever starts a
// transfer in a task submits it by himself and collects what has ended meanwhile, on his way to
// other work. A thread collects what ends while nobody comes by.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <pthread.h>

#include "engine/shared_queue.hpp"
#include "service/on_the_spot.hpp"
#include "service/operation_client.hpp"
#include "service/options.hpp"
#include "service/request_list.hpp"

namespace ioweave::service {

/// Thread-safe, except start() (the service's lock), stop(), abandon() and destruction.
class TaskQueue {
 public:
  TaskQueue(OpenTaskQueue open, uint32_t entries, const Processors& processors,
            OperationClient& client) noexcept
      : open_(open), entries_(entries), processors_(processors), client_(client) {}

  /// 0, or -errno with a sentence in `why`.
  [[nodiscard]] int start(std::string& why) noexcept;
  /// Ends the thread; everything posted must have ended. The queue stays until destruction.
  void stop() noexcept;
  /// In a forked child: only async-signal-safe calls.
  void abandon() noexcept;

  /// Whether it is worth a try: where one was refused, some are left to others.
  [[nodiscard]] bool is_worth_it() noexcept { return carried_.is_worth_it(); }
  /// One would have had to wait in the kernel: the next ones are not.
  void stay_away() noexcept { carried_.stay_away(kAway); }

  /// Submits it, or keeps it until there is room; or gives it back to the client at once. The
  /// request may have ended and be gone afterwards.
  void post(iow_request& request) noexcept;

  /// Hands over what has ended, if anything has, without sleeping.
  void collect() noexcept;

  Counters counters{Counters::Writers::several};

 private:
  static constexpr uint32_t kAway = 64;  ///< requests that others carry after one was refused

  static void* thread_main(void* self);
  void reap(bool sleep) noexcept;
  [[nodiscard]] bool reserve_room(uint64_t bytes) noexcept;
  void start_waiting() noexcept;
  [[nodiscard]] iow_request* pop_with_room() noexcept;
  [[nodiscard]] bool submit(iow_request& request) noexcept;

  const OpenTaskQueue open_;
  const uint32_t entries_;
  const Processors& processors_;  ///< of its thread; empty: any
  OperationClient& client_;
  std::unique_ptr<engine::SharedQueue> queue_;
  pthread_t thread_{};
  bool started_ = false;
  std::atomic<bool> stop_{false};
  OnTheSpot carried_{0, 0, kAway};

  std::mutex lock_;         // never held across a system call
  RequestList waiting_;     // under the lock, and so is the rest
  uint32_t in_flight_ = 0;  // with the queue, or about to be
  uint64_t bytes_in_flight_ = 0;
};

}  // namespace ioweave::service
