#pragma once

// The service's state and the stages of a request's journey.
//
// One request: submit() -> take() -> submit_direct() into the lane of the calling thread, or
// submit_pumped() to the policy and a pump (submission.cpp). Back ends end operations in settle()
// (lanes), ended() (pumps) and ended_in_task_queue(); all continue short transfers through
// advance() and finish in one of the two finish_* functions, after which the request is its owner's
// again and is not touched (completion.cpp). Calls inside tasks are in task_io.cpp. Opening,
// closing, threads that end and fork are in service.cpp.
//
// Locks: none on the fast path (a lane has one submitter and one leader); the gate's around the
// policy; `lanes_lock_` around creating lanes and starting pumps. None is held across a system
// call that does I/O, nor while a callback runs.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/futex.hpp"
#include "gate/gate.hpp"
#include "service/admissions.hpp"
#include "service/counters.hpp"
#include "service/lane.hpp"
#include "service/local.hpp"
#include "service/pump.hpp"
#include "service/service.hpp"
#include "service/task_io.hpp"
#include "service/task_poller.hpp"
#include "service/task_queue.hpp"

namespace ioweave::service {

inline bool runs_on_poll(const iow_request& request) noexcept {
  return request.callback == nullptr || (request.flags & IOW_CALLBACK_ON_POLL) != 0;
}

/// The request that a blocking call is.
inline iow_request request_for(const Call& call) noexcept {
  iow_request request{};
  request.op = static_cast<uint8_t>(call.op);
  request.flags = call.exact ? IOW_EXACT : 0;
  request.fd = call.fd;
  request.buffer = call.buffer;
  request.bytes = call.bytes;
  request.offset = call.offset;
  return request;
}

inline void run_callback(iow_request& request) noexcept {
  // Completed first: the callback may submit the request again.
  journey_of(request).event.complete();
  request.callback(&request, request.user);
}

class Service::Impl final : public gate::Executor,
                            public PumpClient,
                            public TaskQueueClient,
                            public LaneHost {
 public:
  Impl(const engine::LaneOptions& lane_options, const Options& options, std::string engine_name,
       std::string why)
      : gate_(options.policy_log),
        lane_options_(lane_options),
        open_lane_(options.open_lane),
        own_threads_(options.own_threads),
        // A test's own lanes are to see all transfers.
        opens_task_queue_(options.open_task_queue != nullptr &&
                          (options.open_lane == &engine::open_lane ||
                           options.open_task_queue != &engine::open_shared_queue)),
        engine_name_(std::move(engine_name)),
        why_(std::move(why)),
        reaper_(reaper_options(), open_lane_, *this),
        workers_(worker_options(), open_lane_, *this),
        task_queue_(options.open_task_queue, lane_options.entries, *this),
        poller_(reaper_, pumped_unfinished_) {
    lane_options_.fixed = &fixed_;
    tasks_.host = tasking::open_task_host(options.tasks, tasks_.why);
    if (tasks_.host != nullptr) {
      tasks_.limit_paused(options.max_paused);
    }
    tasks_.reap_in_task = options.reap_in_task;
    tasks_.poll_min_ns = options.poll_min_us * uint64_t{1000};
    tasks_.poll_max_ns = options.poll_max_us * uint64_t{1000};
  }

  ~Impl() {
    for (Lane* lane = all_lanes_.load(std::memory_order_relaxed); lane != nullptr;) {
      delete std::exchange(lane, lane->next);
    }
  }

  [[nodiscard]] int enlist() noexcept {
    id_ = register_host(*this);
    return id_ != 0 ? 0 : -EMFILE;
  }

  /// False in a forked child, where nothing but memory is ours.
  [[nodiscard]] bool ours() const noexcept { return born_ == fork_generation(); }

  int submit(std::span<iow_request* const> requests) noexcept;
  int try_at_once(iow_request& request) noexcept;
  int test(iow_request& request) noexcept;
  int wait(iow_request& request, const Deadline& deadline) noexcept;
  int poll(unsigned min, const Deadline& deadline) noexcept;
  int cancel(iow_request& request) noexcept;
  int64_t transfer(const Call& call) noexcept;
  void close() noexcept;
  void statistics(iow_stats& sum) const noexcept;

  int bind(const Call& call, ssize_t* result) noexcept;
  int start_bound(const Call& call, ssize_t* result) noexcept;
  [[nodiscard]] bool in_pausable_task() const noexcept;
  void task_statistics(iow_task_stats& stats) const noexcept;
  int64_t admit(uint32_t flow, uint64_t bytes) noexcept;

  gate::Gate gate_;
  Admissions admissions_{gate_};
  engine::FixedTable fixed_;
  engine::LaneOptions lane_options_;
  const OpenLane open_lane_;
  const bool own_threads_;
  const bool opens_task_queue_;
  TaskIo tasks_;

  const char* engine_name() const noexcept;
  const char* fallback_reason() const noexcept;

 private:
  class Submitting;
  void explain(const char* what, std::string_view why) noexcept;
  [[nodiscard]] bool refuses_polling(int64_t result) noexcept;
  [[nodiscard]] bool polling_refused() const noexcept {
    return polling_refused_.load(std::memory_order_relaxed);
  }

  // Submission.
  int take(iow_request& request, Lane* lane) noexcept;
  int submit_direct(iow_request& request, Lane& lane) noexcept;
  void submit_pumped(iow_request& request, Lane* home) noexcept;
  void settle_one(engine::Operation& operation, Lane& lane) noexcept;
  void make_room(Lane& lane) noexcept;
  void flush(Lane& lane) noexcept;
  int64_t transfer_on_thread(const Call& call) noexcept;
  int64_t transfer_request(const Call& call, int64_t first) noexcept;
  int submit_inline(std::span<iow_request* const> requests) noexcept;
  void post(iow_request& request) noexcept;
  void carry_out_inline(iow_request& request) noexcept;
  [[nodiscard]] int cancel_in_pumps(engine::Operation& operation) noexcept;

  // Tasks.
  int64_t transfer_in_task(const Call& call) noexcept;
  bool ended_at_once(iow_request& request) noexcept;
  int64_t pause_until_admitted(uint32_t flow, uint64_t bytes) noexcept;
  void note_end_at_once(const Call& call, int64_t result) noexcept;
  [[nodiscard]] bool choose_way(Journey& journey) noexcept;
  bool is_alone() noexcept;
  bool may_pause() noexcept;
  void pause_task(iow_request& request) noexcept;
  int64_t help_reaper() noexcept;
  int64_t finish_on_thread(const Call& call, iow_request& request) noexcept;
  void submit_for_task(iow_request& request) noexcept;
  [[nodiscard]] tasking::Task current_task() const noexcept;
  bool in_bindable_task() noexcept;
  bool hold_current_task(BoundTask& bound) noexcept;
  int bind_rest(const Call& call, uint64_t done, ssize_t* result) noexcept;
  void bound_ended(BoundTransfer& transfer) noexcept;

  // Completion.
  unsigned settle(std::span<engine::Operation*> ended, Lane& lane, bool is_owner) noexcept;
  void resubmit(iow_request& request, Lane& lane, bool is_owner) noexcept;
  void finish_direct(iow_request& request, Lane& lane) noexcept;
  void finish_pumped(iow_request& request) noexcept;
  void one_less_unfinished() noexcept;
  unsigned collect(Lane& lane, unsigned want, const Deadline& deadline) noexcept;
  unsigned collect_elsewhere(Lane& lane) noexcept;
  unsigned run_callbacks(RequestList& ready) noexcept;
  unsigned lead_once(Lane& lane, unsigned min, int64_t timeout_ns, bool is_owner) noexcept;
  void end_activity(iow_request& request) noexcept;

  // gate::Executor, PumpClient, TaskQueueClient and LaneHost.
  void start(void* operation) noexcept override;
  void ended(iow_request& request, Pump& pump) noexcept override;
  void refused(iow_request& request, Pump& pump) noexcept override;
  void ended_in_task_queue(iow_request& request) noexcept override;
  void refused_by_task_queue(iow_request& request) noexcept override;
  void thread_ends(Lane& lane) noexcept override;
  void abandon() noexcept override;

  // Lanes and pumps.
  Lane* make_lane() noexcept;
  void drain(Lane& lane) noexcept;
  bool is_direct(const iow_request& request, Lane* lane) noexcept;
  Pump* pump_for(iow_request& request) noexcept;
  template <typename Start>
  bool is_started(uint32_t bit, const Start& start) noexcept;
  bool is_started(Pump& pump, uint32_t bit) noexcept;
  bool has_task_queue() noexcept;
  int start_pump(Pump& pump, std::string& why) noexcept;
  bool start_poller() noexcept;
  [[nodiscard]] bool engine_is_threads() const noexcept {
    return lane_options_.kind == engine::Kind::threads;
  }
  [[nodiscard]] engine::LaneOptions reaper_options() const noexcept {
    engine::LaneOptions options = lane_options_;
    options.single_owner = true;
    options.fixed = &fixed_;
    return options;
  }
  [[nodiscard]] engine::LaneOptions worker_options() const noexcept {
    engine::LaneOptions options = lane_options_;
    options.kind = engine::Kind::threads;
    options.mode = engine::UringMode::plain;
    return options;
  }

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
  std::atomic<bool> polling_refused_{false};

  /// Requests with policy or pumps, and submissions of them that have not left; a futex word.
  std::atomic<uint32_t> pumped_unfinished_{0};
  std::atomic<uint64_t> submitted_without_lane_{0};  ///< a statistic
  std::atomic<uint64_t> fallbacks_{0};  ///< operations sent to the workers; a statistic
  BlockingBytes blocking_bytes_;
  Counters inline_counters_;  ///< under lanes_lock_

  Pump reaper_;
  Pump workers_;
  TaskQueue task_queue_;
  TaskPoller poller_;
};

}  // namespace ioweave::service
