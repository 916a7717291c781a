#pragma once

// The service drives one request through its journey and is the only part that sees policy, engine
// and tasking at once.
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
// What passes by the policy is told to it as Activity, so that `strict` holds for the fast path
// too.
//
// fork: the child's submissions are carried out at once by plain system calls (see ioweave.h).

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/backend.hpp"
#include "engine/fixed_table.hpp"
#include "engine/shared_queue.hpp"
#include "gate/gate.hpp"
#include "ioweave/ioweave.h"
#include "ioweave/tasks.h"
#include "policy/event_log.hpp"
#include "policy/policy.hpp"
#include "tasking/task_host.hpp"

namespace ioweave::service {

/// The arguments of a blocking call, as those of pread(2) and its like.
struct Call {
  engine::Op op = engine::Op::nop;
  int fd = -1;
  void* buffer = nullptr;  ///< of readv and writev: the vectors
  uint64_t bytes = 0;      ///< of readv and writev: their number
  int64_t offset = 0;
  bool exact = false;  ///< one system call's worth: short transfers are not continued
};

/// How lanes are opened: engine::open_lane, or a test's own, which injects faults.
using OpenLane = std::unique_ptr<engine::Backend> (*)(const engine::LaneOptions&, int& error,
                                                      std::string& why);

/// How the queue of tasks is opened: engine::open_shared_queue, or a test's own.
using OpenTaskQueue = std::unique_ptr<engine::SharedQueue> (*)(uint32_t entries, std::string& why);

struct Options {
  engine::Kind engine = engine::Kind::uring;
  engine::UringMode mode = engine::UringMode::plain;
  bool required = false;       ///< fail instead of falling back
  uint32_t queue_depth = 256;  ///< per lane
  uint32_t threads = 4;        ///< of the worker pool for what the engine cannot do
  /// False: what a lane does not carry is carried out by the thread that submits it, as where no
  /// thread can be had. For a process whose threads are not ours to add to.
  bool own_threads = true;
  OpenLane open_lane = &engine::open_lane;
  tasking::HostKind tasks = tasking::HostKind::none;
  /// Null: direct transfers of tasks go the way of the others.
  OpenTaskQueue open_task_queue = &engine::open_shared_queue;
  bool reap_in_task = false;    ///< IOW_REAPER_TASK
  uint32_t max_paused = 0;      ///< tasks at once; 0: what the machine has room for
  uint32_t poll_min_us = 20;    ///< of reap_in_task
  uint32_t poll_max_us = 1000;  ///< of reap_in_task
  /// Unless empty: given the policy's event log line by line (policy/event_log.hpp), for
  /// policy::replay(). Called under a lock; must not call back nor throw.
  policy::Recorder::Sink policy_log = {};
};

/// Thread-safe, except destruction, which must come last.
class Service {
 public:
  /// Null on failure, with -errno in `error` and a sentence in `why`; on success `why` says which
  /// engines were passed over, or is empty.
  [[nodiscard]] static std::unique_ptr<Service> open(const Options& options, int& error,
                                                     std::string& why);
  /// Completes everything in flight or waiting first.
  ~Service();
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

  /// One blocking operation, continued until done, end of file or error: pauses the task where the
  /// caller is one, of a runtime that can; otherwise on the calling thread. Bytes, 0 or -errno.
  [[nodiscard]] int64_t transfer(const Call& call) noexcept;

  // Tasks: the contracts of ioweave/tasks.h.
  [[nodiscard]] int bind(const Call& call, ssize_t* result) noexcept;
  [[nodiscard]] int task_begin(void (*done)(void*), void* user) noexcept;
  [[nodiscard]] int task_end() noexcept;
  [[nodiscard]] const char* task_host_name() const noexcept;
  [[nodiscard]] const char* task_host_reason() const noexcept;
  void task_statistics(iow_task_stats& stats) const noexcept;
  /// Whether the calling thread runs a task that transfer() would pause.
  [[nodiscard]] bool in_pausable_task() const noexcept;

  /// In a child after fork(2): fixed() and gate() have locks that a thread of the parent may have
  /// held, and must not be used.
  [[nodiscard]] bool is_inherited() const noexcept;

  [[nodiscard]] engine::FixedTable& fixed() noexcept;

  /// Where devices and flows are added and asked about.
  [[nodiscard]] gate::Gate& gate() noexcept;

  /// Foreground I/O on `device` that somebody does by himself (the interposer's real calls): lower
  /// classes under `strict` yield meanwhile. About 10 ns each while no lower class waits. Begin
  /// answers whether it was counted (a device without lower classes does not count), and only then
  /// is end owed.
  [[nodiscard]] bool foreground_begin(policy::DeviceId device) noexcept;
  void foreground_end(policy::DeviceId device) noexcept;

  // I/O that others do: the contracts of iow_admit and its like.
  [[nodiscard]] int64_t admit(uint32_t flow, uint64_t bytes) noexcept;
  [[nodiscard]] int64_t admit(uint32_t flow, uint64_t bytes,
                              void (*admitted)(int64_t operation, void* user), void* user) noexcept;
  [[nodiscard]] int finish(int64_t operation, int64_t result) noexcept;
  [[nodiscard]] int withdraw(int64_t operation) noexcept;

  void statistics(iow_stats& stats) const noexcept;

 private:
  class Impl;
  explicit Service(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Marks the foreground busy for a scope.
class ForegroundScope {
 public:
  ForegroundScope(Service& service, policy::DeviceId device) noexcept
      : service_(service), device_(device), counted_(service.foreground_begin(device)) {}
  ~ForegroundScope() {
    if (counted_) {
      service_.foreground_end(device_);
    }
  }
  ForegroundScope(const ForegroundScope&) = delete;
  ForegroundScope& operator=(const ForegroundScope&) = delete;

 private:
  Service& service_;
  const policy::DeviceId device_;
  const bool counted_;
};

}  // namespace ioweave::service
