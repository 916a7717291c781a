#pragma once

// The service drives one request through its journey: the policy by its gate, the engine, and
// tasking.
//
// How it works. Every thread that submits gets a *lane* of its own, an engine back end in which it
// alone submits; foreground requests without a constraint go straight there (the fast path) and are
// reaped by whoever waits: the owner as a rule, or any thread that waits for a request in it. What
// the policy may hold back (constrained flows, lower classes) asks the *gate* (gate/gate.hpp),
// under its lock; what that starts, and what completes by callback, goes through a *pump*: a thread
// with a back end of its own that takes submissions from an inbox, submits, reaps in batches and
// runs callbacks. There are two, the reaper on the engine and the workers for what the engine
// cannot do. Blocking calls are plain system calls on the calling thread, but in a task that can be
// paused: there, as transfers bound to a task, they go to the reaper (task_io.cpp).
//
// One request: submit() -> submit_one() -> submit_to_lane() into the lane of the calling thread, or
// submit_pumped() to the policy and a pump (submission.cpp). Back ends hand what has ended to
// end_operations(), the one loop that continues short transfers and finishes requests, after which
// a request is its owner's again and is not touched (completion.cpp). Calls inside tasks are in
// task_io.cpp and task_bind.cpp. Opening, closing, threads that end and fork are in service.cpp.
//
// What passes by the policy is told to it as Activity, so that `strict` holds for the fast path
// too.
//
// Locks: none on the fast path (a lane has one submitter and one leader); the gate's around the
// policy; `lanes_lock_` around creating lanes and starting pumps. None is held across a system
// call that does I/O, nor while a callback runs.
//
// fork: the child's submissions are carried out at once by plain system calls (see ioweave.h).

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/futex.hpp"
#include "engine/fixed_table.hpp"
#include "gate/gate.hpp"
#include "ioweave/ioweave.h"
#include "ioweave/tasks.h"
#include "service/admissions.hpp"
#include "service/counters.hpp"
#include "service/lane.hpp"
#include "service/local.hpp"
#include "service/options.hpp"
#include "service/pump.hpp"
#include "service/request.hpp"
#include "service/task_io.hpp"
#include "service/task_poller.hpp"
#include "service/task_queue.hpp"
#include "service/wait.hpp"

namespace ioweave::service {

/// Thread-safe, except its end, which must come last.
class Service final : private gate::Executor, private OperationClient, private LaneHost {
 public:
  /// Completes everything in flight or waiting, then frees the service. In a forked child it is
  /// left alone: threads and locks of the parent cannot be taken down there.
  struct Closer {
    void operator()(Service* service) const noexcept;
  };
  using Owner = std::unique_ptr<Service, Closer>;

  /// Null on failure, with -errno in `error` and a sentence in `why`; on success `why` says which
  /// engines were passed over, or is empty.
  [[nodiscard]] static Owner open(const Options& options, int& error, std::string& why);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// The contract of iow_service_engine.
  [[nodiscard]] const char* engine_name() const noexcept;
  [[nodiscard]] const char* fallback_reason() const noexcept;

  // Requests: the contracts of iow_submit, iow_try, iow_test, iow_wait, iow_poll and iow_cancel.
  [[nodiscard]] int submit(std::span<iow_request* const> requests) noexcept;
  [[nodiscard]] int try_at_once(iow_request& request) noexcept;
  [[nodiscard]] int test(iow_request& request) noexcept;
  [[nodiscard]] int wait(iow_request& request, int64_t timeout_ns) noexcept;
  [[nodiscard]] int poll(unsigned min, int64_t timeout_ns) noexcept;
  [[nodiscard]] int cancel(iow_request& request) noexcept;
  /// Cancels the request only if the gate still holds it back: true, and it ends with -ECANCELED.
  /// The caller knows that it has been submitted, and that its memory is not used anew.
  [[nodiscard]] bool cancel_if_held(iow_request& request) noexcept;

  /// One blocking operation, continued until done, end of file or error: pauses the task where the
  /// caller is one, of a runtime that can; otherwise on the calling thread. Bytes, 0 or -errno.
  [[nodiscard]] int64_t transfer(const Call& call) noexcept;

  // Tasks: the contracts of ioweave/tasks.h.
  [[nodiscard]] int bind(const Call& call, ssize_t* result) noexcept;
  [[nodiscard]] int begin_task(void (*done)(void*), void* user) noexcept;
  [[nodiscard]] int end_task() noexcept;
  [[nodiscard]] const char* task_host_name() const noexcept;
  [[nodiscard]] const char* task_host_reason() const noexcept;
  void task_statistics(iow_task_stats& stats) const noexcept;
  /// Whether the calling thread runs a task that transfer() would pause.
  [[nodiscard]] bool is_in_pausable_task() const noexcept;

  /// In a child after fork(2): fixed() and gate() have locks that a thread of the parent may have
  /// held, and must not be used.
  [[nodiscard]] bool is_inherited() const noexcept { return born_ != fork_generation(); }

  [[nodiscard]] engine::FixedTable& fixed() noexcept { return fixed_; }

  /// Where devices and flows are added and asked about.
  [[nodiscard]] gate::Gate& gate() noexcept { return gate_; }

  // I/O that others do: the contracts of iow_admit and its like.
  [[nodiscard]] int64_t admit(uint32_t flow, uint64_t bytes) noexcept;
  [[nodiscard]] int64_t admit(uint32_t flow, uint64_t bytes, Admissions::Admitted admitted,
                              void* user) noexcept;
  [[nodiscard]] int finish(int64_t operation, int64_t result) noexcept;
  [[nodiscard]] int withdraw(int64_t operation) noexcept;

  /// Waits for something that ends elsewhere; pauses the task where the caller is one that can be
  /// paused, and then without regard to the time. 0; -ETIME: withdrawn, the time is over; -EAGAIN:
  /// withdrawn, for the caller is in a task that can neither be paused nor let others run.
  [[nodiscard]] int wait_for(Wait& wait, int64_t timeout_ns) noexcept;

  void statistics(iow_stats& sum) const noexcept;

 private:
  friend class Wait::Pause;
  class Submitting;
  class PausedTransfer;

  Service(const engine::BackendOptions& backend_options, const Options& options, std::string why);
  ~Service();
  void close() noexcept;
  void explain(const char* what, std::string_view why) noexcept;
  [[nodiscard]] bool is_iopoll_refused() const noexcept {
    return iopoll_refused_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool engine_is_threads() const noexcept {
    return lane_options_.kind == engine::Kind::threads;
  }

  // Submission.
  int submit_one(iow_request& request, Lane* lane) noexcept;
  [[nodiscard]] bool may_take_lane(const iow_request& request, Lane* lane) const noexcept;
  int submit_to_lane(iow_request& request, Lane& lane) noexcept;
  void submit_pumped(iow_request& request, Lane* home) noexcept;
  void make_room(Lane& lane) noexcept;
  void flush(Lane& lane) noexcept;
  void post(iow_request& request) noexcept;
  [[nodiscard]] Pump* find_pump(Journey& journey) noexcept;
  void leave_engine(Journey& journey) noexcept;
  void carry_out_inline(iow_request& request) noexcept;
  int submit_inline(std::span<iow_request* const> requests) noexcept;
  int64_t transfer_on_thread(const Call& call) noexcept;
  int64_t transfer_request(const Call& call, int64_t first) noexcept;

  // Completion.
  unsigned lead_once(Lane& lane, unsigned min, int64_t timeout_ns) noexcept;
  void end_at_submission(engine::Operation& operation, Lane& lane) noexcept;
  [[nodiscard]] Step judge_end(iow_request& request) noexcept;
  [[nodiscard]] bool refuses_polling(const Journey& journey) noexcept;
  [[nodiscard]] bool refuses_to_wait(const iow_request& request, Journey& journey) noexcept;
  void resubmit(iow_request& request) noexcept;
  void finish_request(iow_request& request, Counters& counters) noexcept;
  void end_activity(iow_request& request) noexcept;
  void drop_unfinished() noexcept;
  unsigned collect(Lane& lane, unsigned want, const Deadline& deadline) noexcept;
  unsigned collect_elsewhere(Lane& lane) noexcept;
  bool look_after_own_lane() noexcept;
  void run_own_callbacks(Lane& own) noexcept;
  [[nodiscard]] int64_t patience_elsewhere(int64_t left_ns) noexcept;
  [[nodiscard]] bool withdraw_held(iow_request& request) noexcept;
  [[nodiscard]] int cancel_in_pumps(engine::Operation& operation) noexcept;

  // Tasks.
  int64_t transfer_in_task(const Call& call) noexcept;
  [[nodiscard]] bool finish_at_once(iow_request& request) noexcept;
  void count_end_at_once(const Call& call, int64_t result) noexcept;
  [[nodiscard]] bool choose_way(Journey& journey) noexcept;
  [[nodiscard]] bool is_alone() noexcept;
  [[nodiscard]] bool count_pause() noexcept;
  void pause_task(iow_request& request) noexcept;
  void pause_until_ended(Wait& wait) noexcept;
  int64_t help_reaper() noexcept;
  int64_t finish_on_thread(const Call& call, iow_request& request) noexcept;
  void submit_for_task(iow_request& request) noexcept;
  [[nodiscard]] tasking::Task current_task() const noexcept;
  [[nodiscard]] bool is_in_bindable_task() const noexcept;
  [[nodiscard]] bool hold_current_task(BoundTask& bound) noexcept;
  int start_bound(const Call& call, ssize_t* result) noexcept;
  int bind_rest(const Call& call, const iow_request& begun, ssize_t* result) noexcept;
  void end_bound(BoundTransfer& transfer) noexcept;

  // gate::Executor, OperationClient and LaneHost.
  void start(void* operation) noexcept override;
  void end_operations(std::span<engine::Operation* const> ended,
                      Counters& counters) noexcept override;
  void reroute(iow_request& request) noexcept override;
  void end_thread(Lane& lane) noexcept override;
  void abandon() noexcept override;

  // Lanes and pumps.
  Lane* make_lane() noexcept;
  void drain(Lane& lane) noexcept;
  template <typename Start>
  bool ensure_started(uint32_t bit, const Start& start) noexcept;
  bool ensure_started(Pump& pump, uint32_t bit) noexcept;
  bool ensure_task_queue() noexcept;
  int start_pump(Pump& pump, std::string& why) noexcept;
  bool start_poller() noexcept;

  gate::Gate gate_;
  Admissions admissions_{gate_};
  engine::FixedTable fixed_;
  const engine::BackendOptions lane_options_;
  const OpenBackend open_backend_;
  const bool own_threads_;
  const Processors io_processors_;
  const bool opens_task_queue_;
  TaskIo tasks_;

  uint64_t id_ = 0;
  const uint32_t born_ = fork_generation();
  std::mutex lanes_lock_;
  std::atomic<Lane*> all_lanes_{nullptr};  ///< push only: the fork handler walks it without a lock
  std::vector<Lane*> free_lanes_;
  std::atomic<uint32_t> lane_count_{0};
  static constexpr uint32_t kReaperBit = 1;
  static constexpr uint32_t kWorkersBit = 2;
  static constexpr uint32_t kTaskQueueBit = 4;
  std::atomic<uint32_t> pumps_started_{0};
  std::atomic<uint32_t> pumps_failed_{0};

  const std::string engine_name_;
  const std::string why_;
  std::string late_why_;  ///< once: written under lanes_lock_ before late_
  std::atomic<bool> late_{false};
  std::atomic<bool> iopoll_refused_{false};

  /// Requests that are not in a lane, and submissions of them that have not left; a futex word.
  std::atomic<uint32_t> unfinished_{0};
  std::atomic<uint64_t> submitted_without_lane_{0};  ///< a statistic
  std::atomic<uint64_t> fallbacks_{0};  ///< operations sent to the workers; a statistic
  BlockingBytes blocking_bytes_;
  Counters inline_counters_{Counters::Writers::several};

  Pump reaper_;
  Pump workers_;
  TaskQueue task_queue_;
  TaskPoller poller_;
};

}  // namespace ioweave::service
