#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/processors.hpp"
#include "engine/backend.hpp"
#include "engine/shared_queue.hpp"
#include "policy/event_log.hpp"
#include "tasking/task_host.hpp"

namespace ioweave::service {

/// How lanes are opened: engine::open_backend, or a test's own, which injects faults.
using OpenBackend = std::unique_ptr<engine::Backend> (*)(const engine::BackendOptions&, int& error,
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
  /// Of the service's threads and the kernel's workers of their queues; empty: any.
  Processors io_processors = {};
  OpenBackend open_backend = &engine::open_backend;
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

}  // namespace ioweave::service
