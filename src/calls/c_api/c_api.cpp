// The C interface: checks what C cannot express, converts, and calls the service. Contracts are in
// ioweave.h. No exception leaves.

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include <fcntl.h>

#include "base/cancellation_off.hpp"
#include "base/futex.hpp"
#include "calls/c_api/conversion.hpp"
#include "calls/task_preload/report.hpp"
#include "calls/thread_errno.hpp"
#include "config/task_variables.hpp"
#include "ioweave/ioweave.h"
#include "ioweave/tasks.h"
#include "policy/constraint_text.hpp"
#include "policy/explanation.hpp"
#include "service/service.hpp"

using namespace ioweave;
using namespace ioweave::calls;

namespace {

bool to_task_options(const iow_options& given, service::Options& options, std::string& why) {
  if (!in_range(number_of(given.tasks), IOW_TASKS_AUTO, IOW_TASKS_TBB, "tasks", why) ||
      !in_range(number_of(given.task_reaper), IOW_REAPER_AUTO, IOW_REAPER_TASK, "task_reaper",
                why)) {
    return false;
  }
  static_assert(static_cast<int>(tasking::HostKind::automatic) == IOW_TASKS_AUTO &&
                static_cast<int>(tasking::HostKind::tbb) == IOW_TASKS_TBB);
  options.tasks = static_cast<tasking::HostKind>(given.tasks);
  options.reap_in_task = given.task_reaper == IOW_REAPER_TASK;
  options.max_paused = given.max_paused;
  options.poll_min_us = given.poll_min_us != 0 ? given.poll_min_us : options.poll_min_us;
  options.poll_max_us = given.poll_max_us != 0 ? given.poll_max_us
                                               : std::max(options.poll_max_us, options.poll_min_us);
  constexpr uint32_t kMost = 1'000'000;
  return in_range(options.max_paused, 0, kMost, "max_paused", why) &&
         in_range(options.poll_min_us, 1, kMost, "poll_min_us", why) &&
         in_range(options.poll_max_us, options.poll_min_us, kMost, "poll_max_us", why);
}

bool to_io_processors(const iow_options& given, service::Options& options, std::string& why) {
  if (given.io_processors == nullptr) {
    return true;
  }
  if (!Processors::parse(given.io_processors, options.io_processors, why)) {
    why = "io_processors: " + why;
    return false;
  }
  const Processors allowed = Processors::allowed();
  for (unsigned i = 0; i < CPU_SETSIZE; ++i) {
    if (options.io_processors.has(i) && !allowed.has(i)) {
      why = "io_processors: this process may not use processor " + std::to_string(i) + ", only " +
            allowed.to_text();
      return false;
    }
  }
  return true;
}

bool to_service_options(const iow_options& given, service::Options& options, std::string& why) {
  if (!in_range(number_of(given.engine), IOW_ENGINE_AUTO, IOW_ENGINE_THREADS, "engine", why) ||
      !in_range(number_of(given.mode), IOW_MODE_PLAIN, IOW_MODE_IOPOLL, "mode", why)) {
    return false;
  }
  if (given.mode != IOW_MODE_PLAIN && given.engine > IOW_ENGINE_URING) {
    why = "mode sqpoll and iopoll belong to the io_uring engine";
    return false;
  }
  options.engine = given.engine <= IOW_ENGINE_URING ? engine::Kind::uring
                   : given.engine == IOW_ENGINE_AIO ? engine::Kind::aio
                                                    : engine::Kind::threads;
  options.mode = static_cast<engine::UringMode>(given.mode);
  options.required = given.required != 0;
  options.queue_depth = given.queue_depth != 0 ? given.queue_depth : options.queue_depth;
  options.threads = given.threads != 0 ? given.threads : options.threads;
  if (given.log != nullptr) {
    options.policy_log = [log = given.log, user = given.log_user](std::string_view line) {
      log(line.data(), line.size(), user);
    };
  }
  return to_io_processors(given, options, why) && to_task_options(given, options, why) &&
         in_range(options.queue_depth, 1, 4096, "queue_depth", why) &&
         in_range(options.threads, 1, 256, "threads", why);
}

service::Call call_of(engine::Op op, int fd, const void* buffer, uint64_t bytes,
                      off_t offset) noexcept {
  return {op, fd, const_cast<void*>(buffer), bytes, offset, false};
}

ssize_t transfer(iow_service* service, const service::Call& call) noexcept {
  const ThreadErrnoKept kept;
  return static_cast<ssize_t>(service->service->transfer(call));
}

ssize_t transfer_vectors(iow_service* service, engine::Op op, int fd, const iovec* vectors,
                         int count, off_t offset) noexcept {
  return count < 0
             ? -EINVAL
             : transfer(service, call_of(op, fd, vectors, static_cast<uint64_t>(count), offset));
}

int bind(iow_service* service, const service::Call& call, ssize_t* result) noexcept {
  const ErrnoKept kept;
  return service->service->bind(call, result);
}

int bind_vectors(iow_service* service, engine::Op op, int fd, const iovec* vectors, int count,
                 off_t offset, ssize_t* result) noexcept {
  // No array is so long: what is refused there stays refused.
  const auto length = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  return bind(service, call_of(op, fd, vectors, length, offset), result);
}

/// There are words.
bool read_constraint(const iow_flow_options& given, policy::Constraint& constraint,
                     std::string& why) {
  if (given.constraint_mb_per_s != 0) {
    why = "constraint and constraint_mb_per_s are both set: leave one of them out";
    return false;
  }
  return policy::parse_constraint_words(given.constraint, given.max_in_flight, constraint, why);
}

/// Gives a text about a flow, to be freed with free(3).
template <typename Tell>
int tell_of_flow(iow_service* service, uint32_t flow, char** text, Tell tell) noexcept {
  const ErrnoKept kept;
  if (text == nullptr) {
    return -EINVAL;
  }
  *text = nullptr;
  if (is_inherited(service, nullptr)) {
    return -ECANCELED;
  }
  gate::Gate& gate = service->service->gate();
  if (!gate.knows(flow)) {
    return -EINVAL;
  }
  return guarded(text, [&] {
    *text = ::strdup(tell(gate).c_str());
    return *text != nullptr ? 0 : -ENOMEM;
  });
}

ReportFile task_report_file() {
  const char* const path = ::secure_getenv(config::kTaskReportVariable);
  return ReportFile(path != nullptr ? path : "");
}

/// As libioweave_tasks.so tells of a program that knows nothing of tasks' I/O.
void report_tasks(const iow_service& service) noexcept {
  if (!service.task_report.is_wanted() || service.service->is_inherited()) {
    return;
  }
  TaskReport report{service.service->task_host_name(), service.service->task_host_reason(), {}};
  service.service->task_statistics(report.stats);
  if (report.has_calls()) {
    try {
      service.task_report.add(format_report(report));
    } catch (const std::bad_alloc&) {
      // There is no line.
    }
  }
}

}  // namespace

const char* iow_version_string() noexcept {
  return IOWEAVE_VERSION;
}

int iow_service_open(iow_service** service, const iow_options* options,
                     char** error_text) noexcept {
  const ErrnoKept kept;
  give_text(error_text, {});
  return guarded(error_text, [&]() -> int {
    if (service == nullptr) {
      give_text(error_text, "service must not be NULL: it receives the service");
      return -EINVAL;
    }
    *service = nullptr;
    iow_options given;
    service::Options wanted;
    std::string why;
    if (!read_options(options, given, "iow_options", why) ||
        !to_service_options(given, wanted, why)) {
      give_text(error_text, why);
      return -EINVAL;
    }
    int error = 0;
    auto opened = service::Service::open(wanted, error, why);
    if (opened == nullptr) {
      give_text(error_text, why);
      return error;
    }
    *service = new (std::nothrow) iow_service{std::move(opened), task_report_file()};
    return *service != nullptr ? 0 : -ENOMEM;
  });
}

void iow_service_close(iow_service* service) noexcept {
  const ErrnoKept kept;
  const CancellationOff uncancelled;  // waits for threads
  if (service != nullptr) {
    report_tasks(*service);
  }
  delete service;
}

const char* iow_service_engine(const iow_service* service, const char** why) noexcept {
  if (why != nullptr) {
    *why = service->service->fallback_reason();
  }
  return service->service->engine_name();
}

ssize_t iow_pread(iow_service* service, int fd, void* buffer, size_t bytes, off_t offset) noexcept {
  return transfer(service, call_of(engine::Op::read, fd, buffer, bytes, offset));
}

ssize_t iow_pwrite(iow_service* service, int fd, const void* buffer, size_t bytes,
                   off_t offset) noexcept {
  return transfer(service, call_of(engine::Op::write, fd, buffer, bytes, offset));
}

ssize_t iow_preadv(iow_service* service, int fd, const iovec* vectors, int count,
                   off_t offset) noexcept {
  return transfer_vectors(service, engine::Op::readv, fd, vectors, count, offset);
}

ssize_t iow_pwritev(iow_service* service, int fd, const iovec* vectors, int count,
                    off_t offset) noexcept {
  return transfer_vectors(service, engine::Op::writev, fd, vectors, count, offset);
}

int iow_fsync(iow_service* service, int fd) noexcept {
  return static_cast<int>(transfer(service, call_of(engine::Op::fsync, fd, nullptr, 0, 0)));
}

int iow_fdatasync(iow_service* service, int fd) noexcept {
  return static_cast<int>(transfer(service, call_of(engine::Op::fdatasync, fd, nullptr, 0, 0)));
}

int iow_submit(iow_service* service, iow_request* const* requests, unsigned count) noexcept {
  const ErrnoKept kept;
  return count > INT_MAX ? -EINVAL : service->service->submit({requests, count});
}

int iow_try(iow_service* service, iow_request* request) noexcept {
  const ErrnoKept kept;
  return service->service->try_at_once(*request);
}

int iow_test(iow_service* service, iow_request* request) noexcept {
  const ErrnoKept kept;
  return service->service->test(*request);
}

int iow_wait(iow_service* service, iow_request* request, int64_t timeout_ns) noexcept {
  const ErrnoKept kept;
  return service->service->wait(*request, timeout_ns);
}

int iow_wait_all(iow_service* service, iow_request* const* requests, unsigned count,
                 int64_t timeout_ns) noexcept {
  const ErrnoKept kept;
  const Deadline deadline(timeout_ns);
  for (unsigned i = 0; i < count; ++i) {
    if (const int error = service->service->wait(*requests[i], deadline.left_ns()); error != 0) {
      return error;
    }
  }
  return 0;
}

int iow_poll(iow_service* service, unsigned min, int64_t timeout_ns) noexcept {
  const ErrnoKept kept;
  return service->service->poll(min, timeout_ns);
}

int iow_cancel(iow_service* service, iow_request* request) noexcept {
  const ErrnoKept kept;
  return service->service->cancel(*request);
}

int iow_register_buffer(iow_service* service, void* base, size_t bytes) noexcept {
  const ErrnoKept kept;
  if (is_inherited(service, nullptr)) {
    return -ECANCELED;
  }
  if (base == nullptr || bytes == 0) {
    return -EINVAL;
  }
  return guarded(nullptr, [&] { return service->service->fixed().add_buffer(base, bytes); });
}

int iow_register_file(iow_service* service, int fd) noexcept {
  const ErrnoKept kept;
  if (is_inherited(service, nullptr)) {
    return -ECANCELED;
  }
  if (::fcntl(fd, F_GETFD) < 0) {
    return -EBADF;
  }
  return guarded(nullptr, [&] { return service->service->fixed().add_file(fd); });
}

int iow_unregister_buffer(iow_service* service, int id) noexcept {
  const ErrnoKept kept;
  if (is_inherited(service, nullptr)) {
    return -ECANCELED;
  }
  return id <= 0 || id > UINT16_MAX
             ? -ENOENT
             : service->service->fixed().remove_buffer(static_cast<uint16_t>(id));
}

int iow_unregister_file(iow_service* service, int id) noexcept {
  const ErrnoKept kept;
  if (is_inherited(service, nullptr)) {
    return -ECANCELED;
  }
  return id <= 0 || id > UINT16_MAX
             ? -ENOENT
             : service->service->fixed().remove_file(static_cast<uint16_t>(id));
}

int iow_device_create(iow_service* service, const char* name, const iow_device_options* options,
                      char** error_text) noexcept {
  return on_service(service, error_text, [&](service::Service& of, std::string& why) {
    iow_device_options given;
    if (!read_options(options, given, "iow_device_options", why) ||
        !in_range(number_of(given.scheduling), IOW_SCHEDULE_NONE, IOW_SCHEDULE_WEIGHTED,
                  "scheduling", why)) {
      return -EINVAL;
    }
    policy::DeviceConfig config;
    config.name = name != nullptr ? name : "";
    config.budget_mb_per_s = given.budget_mb_per_s;
    config.max_in_flight = given.max_in_flight;
    config.scheduling = static_cast<policy::Scheduling>(given.scheduling);
    config.begins_at = given.begins_at;
    for (size_t i = 0; i < config.weights.size(); ++i) {
      config.weights[i] = given.weights[i] != 0 ? given.weights[i] : config.weights[i];
    }
    return static_cast<int>(of.gate().add_device(config, why, given.is_measured != 0));
  });
}

int iow_flow_create(iow_service* service, const char* name, const iow_flow_options* options,
                    char** error_text) noexcept {
  return on_service(service, error_text, [&](service::Service& of, std::string& why) {
    iow_flow_options given;
    if (!read_options(options, given, "iow_flow_options", why) ||
        !in_range(number_of(given.priority), IOW_FOREGROUND, IOW_PREFETCH, "priority", why)) {
      return -EINVAL;
    }
    policy::FlowConfig config;
    config.name = name != nullptr ? name : "";
    config.device = given.device;
    config.priority = static_cast<policy::Class>(given.priority);
    config.max_in_flight = given.max_in_flight;
    config.learned = given.learned != nullptr ? given.learned : "";
    if (given.constraint_mb_per_s != 0) {
      config.constraint = {policy::Constraint::Kind::fixed, given.constraint_mb_per_s};
    }
    if (given.constraint != nullptr && !read_constraint(given, config.constraint, why)) {
      why = "flow '" + config.name + "': " + why;
      return -EINVAL;
    }
    return static_cast<int>(of.gate().add_flow(config, why));
  });
}

int iow_flow_explain(iow_service* service, uint32_t flow, char** json) noexcept {
  return tell_of_flow(service, flow, json,
                      [&](gate::Gate& gate) { return policy::to_json(gate.explain(flow)); });
}

int iow_flow_learned(iow_service* service, uint32_t flow, char** text) noexcept {
  return tell_of_flow(service, flow, text, [&](gate::Gate& gate) { return gate.learned(flow); });
}

int iow_device_sample(iow_service* service, uint32_t device, double bytes_per_second,
                      double seconds) noexcept {
  const ErrnoKept kept;
  if (is_inherited(service, nullptr)) {
    return -ECANCELED;
  }
  const bool can_be = std::isfinite(bytes_per_second) && bytes_per_second >= 0 &&
                      std::isfinite(seconds) && seconds > 0;
  if (!can_be) {
    return -EINVAL;
  }
  return guarded(nullptr, [&] {
    return service->service->gate().sample(device, bytes_per_second, seconds) ? 0 : -EINVAL;
  });
}

int iow_device_needs_samples(iow_service* service, uint32_t device) noexcept {
  const ErrnoKept kept;
  if (is_inherited(service, nullptr)) {
    return -ECANCELED;
  }
  gate::Gate& gate = service->service->gate();
  return !gate.knows_device(device) ? -EINVAL : gate.needs_samples(device) ? 1 : 0;
}

int64_t iow_admit(iow_service* service, uint32_t flow, uint64_t bytes) noexcept {
  const ThreadErrnoKept kept;
  return service->service->admit(flow, bytes);
}

int64_t iow_admit_async(iow_service* service, uint32_t flow, uint64_t bytes, iow_admitted admitted,
                        void* user) noexcept {
  const ErrnoKept kept;
  return service->service->admit(flow, bytes, admitted, user);
}

int iow_finish(iow_service* service, int64_t operation, int64_t result) noexcept {
  const ErrnoKept kept;
  return service->service->finish(operation, result);
}

int iow_withdraw(iow_service* service, int64_t operation) noexcept {
  const ErrnoKept kept;
  return service->service->withdraw(operation);
}

int iow_service_stats(iow_service* service, iow_stats* stats) noexcept {
  const ErrnoKept kept;
  iow_stats now{};
  service->service->statistics(now);
  return give_stats(stats, now);
}

int iow_service_flow_stats(iow_service* service, uint32_t flow, iow_flow_stats* stats) noexcept {
  const ErrnoKept kept;
  if (is_inherited(service, nullptr)) {
    return -ECANCELED;
  }
  if (!service->service->gate().knows(flow)) {
    return -EINVAL;
  }
  const gate::FlowState state = service->service->gate().state_of(flow);
  iow_flow_stats now{0, state.limit, state.operations.waiting, state.operations.running,
                     state.moved_bytes};
  return give_stats(stats, now);
}

// ---- Tasks

const char* iow_service_tasks(const iow_service* service, const char** why) noexcept {
  if (why != nullptr) {
    *why = service->service->task_host_reason();
  }
  return service->service->task_host_name();
}

int iow_ta_pread(iow_service* service, int fd, void* buffer, size_t bytes, off_t offset,
                 ssize_t* result) noexcept {
  return bind(service, call_of(engine::Op::read, fd, buffer, bytes, offset), result);
}

int iow_ta_pwrite(iow_service* service, int fd, const void* buffer, size_t bytes, off_t offset,
                  ssize_t* result) noexcept {
  return bind(service, call_of(engine::Op::write, fd, buffer, bytes, offset), result);
}

int iow_ta_preadv(iow_service* service, int fd, const iovec* vectors, int count, off_t offset,
                  ssize_t* result) noexcept {
  return bind_vectors(service, engine::Op::readv, fd, vectors, count, offset, result);
}

int iow_ta_pwritev(iow_service* service, int fd, const iovec* vectors, int count, off_t offset,
                   ssize_t* result) noexcept {
  return bind_vectors(service, engine::Op::writev, fd, vectors, count, offset, result);
}

int iow_ta_fsync(iow_service* service, int fd, ssize_t* result) noexcept {
  return bind(service, call_of(engine::Op::fsync, fd, nullptr, 0, 0), result);
}

int iow_ta_fdatasync(iow_service* service, int fd, ssize_t* result) noexcept {
  return bind(service, call_of(engine::Op::fdatasync, fd, nullptr, 0, 0), result);
}

int iow_task_begin(iow_service* service, void (*done)(void* user), void* user) noexcept {
  return done == nullptr ? -EINVAL : service->service->begin_task(done, user);
}

int iow_task_end(iow_service* service) noexcept {
  return service->service->end_task();
}

int iow_service_task_stats(iow_service* service, iow_task_stats* stats) noexcept {
  iow_task_stats now{};
  service->service->task_statistics(now);
  return give_stats(stats, now);
}
