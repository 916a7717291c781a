// The C interface of plans: checks what C cannot express, converts, and calls the plan. Contracts
// are in plans.h.

#include "ioweave/plans.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "calls/c_api/conversion.hpp"
#include "calls/thread_errno.hpp"
#include "stream/plan/plan.hpp"
#include "stream/write/buffer_pool.hpp"

using namespace ioweave;
using namespace ioweave::calls;
using stream::Plan;

struct iow_plan {
  Plan::Owner plan;
};

namespace {

constexpr uint64_t kLeastBudget = 64 << 10;
constexpr uint64_t kDefaultBudget = 256 << 20;
constexpr uint64_t kMostSlice = 1 << 30;
constexpr uint64_t kDefaultSlice = 1 << 20;

bool in_bytes(uint64_t value, uint64_t least, uint64_t most, const char* name, std::string& why) {
  if (value >= least && value <= most) {
    return true;
  }
  why = std::string(name) + " must be " + std::to_string(least) + ".." + std::to_string(most) +
        ", not " + std::to_string(value);
  return false;
}

bool to_bytes(const iow_plan_options& given, stream::PlanOptions& options, std::string& why) {
  options.budget_bytes = given.budget_bytes != 0 ? given.budget_bytes : kDefaultBudget;
  if (!in_bytes(options.budget_bytes, kLeastBudget, stream::PlanOptions::kMostBudgetBytes,
                "budget_bytes", why)) {
    return false;
  }
  const uint64_t most = options.budget_bytes / 4 / stream::kPageBytes * stream::kPageBytes;
  options.slice_bytes = given.slice_bytes != 0 ? given.slice_bytes : std::min(kDefaultSlice, most);
  if (!in_bytes(options.slice_bytes, stream::kPageBytes, kMostSlice, "slice_bytes", why)) {
    return false;
  }
  if (options.slice_bytes % stream::kPageBytes != 0) {
    why = "slice_bytes must be a multiple of 4096, not " + std::to_string(options.slice_bytes);
    return false;
  }
  if (options.slice_bytes > most) {
    why = "slice_bytes of " + std::to_string(options.slice_bytes) +
          " is more than a quarter of budget_bytes, " + std::to_string(options.budget_bytes) +
          ": raise budget_bytes or lower slice_bytes";
    return false;
  }
  return true;
}

bool to_flows(const iow_plan_options& given, service::Service& service,
              stream::PlanOptions& options, std::string& why) {
  options.has_flows = given.flow != 0 || given.own_flow != 0;
  options.flow = given.flow;
  options.own_flow = given.own_flow;
  for (const uint32_t flow : {given.flow, given.own_flow}) {
    if (!service.gate().knows(flow)) {
      why = "flow " + std::to_string(flow) + " was not created by iow_flow_create()";
      return false;
    }
  }
  if (options.has_flows && options.schedule != IOW_PLAN_AUTO) {
    why = "a plan with flows has no schedule of its own: set schedule to IOW_PLAN_AUTO";
    return false;
  }
  if ((given.flow == 0) != (given.own_flow == 0)) {
    why = "flow and own_flow belong together: set both or none";
    return false;
  }
  return true;
}

bool to_plan_options(const iow_plan_options& given, service::Service& service,
                     stream::PlanOptions& options, std::string& why) {
  if (!in_range(number_of(given.schedule), IOW_PLAN_AUTO, IOW_PLAN_WEIGHTED, "schedule", why) ||
      !in_range(given.depth, 0, stream::DepthTrial::kMost, "depth", why)) {
    return false;
  }
  options.schedule = given.schedule;
  options.depth = given.depth;
  options.huge_pages = given.small_pages == 0;
  options.is_sole_writer = given.sole_writer != 0;
  return to_bytes(given, options, why) && to_flows(given, service, options, why);
}

/// Calls `body` with the plan, unless this is a forked child.
template <typename Body>
int with_plan(iow_plan* plan, Body&& body) noexcept {
  if (plan->plan->is_inherited()) {
    return -ECANCELED;
  }
  const ThreadErrnoKept kept;
  return guarded(nullptr, [&]() -> int { return body(*plan->plan); });
}

}  // namespace

int iow_plan_open(iow_service* service, iow_plan** plan, const iow_plan_options* options,
                  char** error_text) noexcept {
  return open_on(service, plan, "plan", error_text,
                 [&](service::Service& of, iow_plan*& handle, std::string& why) {
                   iow_plan_options given;
                   stream::PlanOptions wanted;
                   if (!read_options(options, given, "iow_plan_options", why) ||
                       !to_plan_options(given, of, wanted, why)) {
                     return -EINVAL;
                   }
                   auto opened = std::make_unique<iow_plan>();
                   int error = 0;
                   opened->plan = Plan::open(of, wanted, error, why);
                   if (error == 0) {
                     handle = opened.release();
                   }
                   return error;
                 });
}

int iow_plan_add(iow_plan* plan, int fd, int64_t offset, uint64_t bytes) noexcept {
  return with_plan(plan, [&](Plan& of) { return of.add_strided(fd, offset, bytes, 0, 1); });
}

int iow_plan_add_strided(iow_plan* plan, int fd, int64_t offset, uint64_t bytes, int64_t stride,
                         uint64_t count) noexcept {
  return with_plan(plan,
                   [&](Plan& of) { return of.add_strided(fd, offset, bytes, stride, count); });
}

int iow_plan_generate(iow_plan* plan, iow_plan_next next, void* user) noexcept {
  return next == nullptr ? -EINVAL
                         : with_plan(plan, [&](Plan& of) { return of.generate(next, user); });
}

ssize_t iow_plan_read(iow_plan* plan, int fd, void* buffer, size_t bytes, off_t offset) noexcept {
  const ThreadErrnoKept kept;
  return plan->plan->read(fd, buffer, bytes, offset);
}

ssize_t iow_plan_lease_read(iow_plan* plan, iow_plan_lease* lease, int fd, size_t bytes,
                            off_t offset) noexcept {
  const ThreadErrnoKept kept;
  *lease = {};
  stream::LeasedMemory* memory = nullptr;
  const int64_t got = plan->plan->lease(fd, bytes, offset, memory);
  if (memory != nullptr) {
    *lease = {memory->memory.data(), static_cast<size_t>(got), memory};
  }
  return got;
}

void iow_plan_lease_end(iow_plan* plan, iow_plan_lease* lease) noexcept {
  const ThreadErrnoKept kept;
  plan->plan->end_lease(static_cast<stream::LeasedMemory*>(std::exchange(*lease, {}).owner));
}

ssize_t iow_plan_write(iow_plan* plan, int fd, const void* buffer, size_t bytes,
                       off_t offset) noexcept {
  const ThreadErrnoKept kept;
  return plan->plan->write(fd, buffer, bytes, offset);
}

int iow_plan_invalidate(iow_plan* plan, int fd, int64_t offset, uint64_t bytes) noexcept {
  return with_plan(plan, [&](Plan& of) { return of.invalidate(fd, offset, bytes); });
}

int iow_plan_forget(iow_plan* plan, int fd) noexcept {
  return with_plan(plan, [&](Plan& of) { return of.forget(fd); });
}

void iow_plan_close(iow_plan* plan) noexcept {
  const ThreadErrnoKept kept;
  delete plan;
}

int iow_plan_get_stats(iow_plan* plan, iow_plan_stats* stats) noexcept {
  return with_plan(plan, [&](const Plan& of) {
    iow_plan_stats now = of.statistics();
    return give_stats(stats, now);
  });
}
