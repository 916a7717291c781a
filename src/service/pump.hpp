#pragma once

// A back end and what is posted to it by any thread: submits, reaps in batches, and hands each end
// to its client. As a rule a thread of its own drives it; the reaper of a service whose task
// runtime polls is driven by whoever posts (to submit) and by the polling task (to reap). Two pumps
// exist per service at most: the reaper on the engine, and the workers for what the engine cannot
// do.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <pthread.h>

#include "engine/backend.hpp"
#include "service/operation_client.hpp"
#include "service/options.hpp"
#include "service/request_list.hpp"

namespace ioweave::service {

/// Why start() of a pump, or of a queue with a thread, failed.
inline constexpr const char* kNoThread =
    "no thread could be started: the limit on processes (ulimit -u, pids cgroup) or memory is used "
    "up";

/// Thread-safe, except start() (the service's lock), stop() and destruction.
class Pump {
 public:
  Pump(const engine::BackendOptions& options, OpenBackend open_backend, OperationClient& client);
  /// After stop() of this pump and of those that post to it: their last wake may still be under
  /// way.
  ~Pump() = default;
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  /// With a thread of its own. 0, or -errno with a sentence in `why`; a pump that failed to start
  /// stays unusable.
  [[nodiscard]] int start(std::string& why);
  /// Without one: what is posted is submitted by who posts it, and drive() reaps.
  [[nodiscard]] int start_driven(std::string& why);

  /// Any thread, of a pump without a thread: submits and reaps what there is, without sleeping.
  /// How many operations ended; 0, too, where another thread is at it.
  unsigned drive() noexcept;

  /// Any thread. The request may have ended, and be gone, afterwards.
  void post(iow_request& request) noexcept;

  /// Whether something that was posted has not ended. seq_cst against post().
  [[nodiscard]] bool has_work() const noexcept {
    return unfinished_.load(std::memory_order_seq_cst) != 0;
  }

  /// Ends the thread; everything posted must have ended. The back end stays until destruction.
  void stop() noexcept;

  /// As Backend::cancel.
  [[nodiscard]] int cancel(engine::Operation& operation) noexcept;

  /// In a forked child: gives up the thread and the back end; only async-signal-safe calls.
  void abandon() noexcept;

  Counters counters;  ///< who drives the pump writes

 private:
  enum class Phase : uint32_t { starting, running, failed };

  static void* thread_main(void* self);
  void run() noexcept;
  void drive_submission() noexcept;
  unsigned drive_once() noexcept;
  void submit_backlog() noexcept;
  bool give_to_backend(iow_request& request) noexcept;
  void hand_over(std::span<engine::Operation* const> ended) noexcept;
  unsigned reap(bool may_sleep) noexcept;
  void wake_if_asleep() noexcept;

  const engine::BackendOptions options_;
  const OpenBackend open_backend_;
  OperationClient& client_;
  std::unique_ptr<engine::Backend> backend_;  // made by the thread: it must be the ring's owner
  pthread_t thread_{};
  bool started_ = false;
  bool driven_ = false;               // by others; set before anything is posted
  std::atomic<bool> driving_{false};  // somebody is at it: a lock that is only ever tried
  std::atomic<uint32_t> unfinished_{0};
  std::atomic<uint32_t> phase_{0};
  int start_error_ = 0;
  std::string start_why_;

  Inbox inbox_;
  RequestList backlog_;           // the driver's own: taken from the inbox, not yet submitted
  uint32_t in_flight_ = 0;        // the driver's own
  uint64_t bytes_in_flight_ = 0;  // the driver's own, of transfers
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stop_{false};
};

}  // namespace ioweave::service
