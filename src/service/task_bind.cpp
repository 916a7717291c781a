// Transfers bound to a task: the call returns at once, and the task does not end before them. The
// request lies in memory of the service's; its callback stores the result, returns the memory, and
// drops the task's count.

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include <sys/uio.h>

#include "service/service.hpp"
#include "service/without_waiting.hpp"

namespace ioweave::service {

// ---- Memory of bound transfers

BoundTransfer* BoundPool::acquire() noexcept {
  const std::lock_guard guard(lock_);
  if (free_ == nullptr) {
    try {
      auto slab = std::make_unique<std::array<BoundTransfer, kSlab>>();
      slabs_.reserve(slabs_.size() + 1);
      for (BoundTransfer& transfer : *slab) {
        transfer.next_free = std::exchange(free_, &transfer);
      }
      slabs_.push_back(std::move(slab));
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  return std::exchange(free_, free_->next_free);
}

void BoundPool::release(BoundTransfer& transfer) noexcept {
  transfer.vectors.reset();
  const std::lock_guard guard(lock_);
  transfer.next_free = std::exchange(free_, &transfer);
}

// ---- Tasks

/// The task whose end a call of this thread is to hold up, with its count raised; false where there
/// is none.
bool Service::hold_current_task(BoundTask& bound) noexcept {
  bound.event = tasking::CountingEvent::current(this);
  if (bound.event != nullptr) {
    bound.event->hold();
    return true;
  }
  bound.task = current_task();
  return bound.task != nullptr && tasks_.host->has_events() && tasks_.host->hold(bound.task);
}

bool Service::is_in_bindable_task() const noexcept {
  return tasking::CountingEvent::current(this) != nullptr ||
         (current_task() != nullptr && tasks_.host->has_events());
}

int Service::begin_task(void (*done)(void*), void* user) noexcept {
  return tasking::CountingEvent::begin(this, done, user) ? 0 : -ENOMEM;
}

int Service::end_task() noexcept {
  return tasking::CountingEvent::end(this) ? 0 : -ESRCH;
}

// ---- Calls

int Service::bind(const Call& call, ssize_t* result) noexcept {
  if (result == nullptr) {
    return -EINVAL;
  }
  const int error = start_bound(call, result);
  if (error != 0) {
    *result = error;
  }
  return error;
}

int Service::start_bound(const Call& call, ssize_t* result) noexcept {
  if (call.offset < 0) {
    return -EINVAL;
  }
  // A forked child has no reaper, and nobody there says whether it runs a task: the end of the
  // transfer is before that of any.
  if (!is_inherited() && !is_in_bindable_task()) {
    return -ESRCH;
  }
  // Most transfers of the page cache end here, without any memory of ours.
  iow_request request = request_for(call);
  if (const int error = begin_journey(request); error != 0) {
    return error;
  }
  if (is_inherited()) {
    *result = static_cast<ssize_t>(transfer_on_thread(call));
    return 0;
  }
  if (finish_at_once(request)) {
    count_end_at_once(call, request.result);
    *result = static_cast<ssize_t>(request.result);
    return 0;
  }
  if (is_transfer(call.op) && is_stream(journey_of(request).operation)) {
    *result = -ESPIPE;
    return 0;
  }
  const int error = bind_rest(call, request, result);
  if (error == 0 || journey_of(request).done_bytes == 0 || is_read(call.op)) {
    return error;
  }
  *result = static_cast<ssize_t>(finish_on_thread(call, request));  // a part is written already
  return 0;
}

/// Submits what is left of a call, whose request is `begun`, bound to the current task.
int Service::bind_rest(const Call& call, const iow_request& begun, ssize_t* result) noexcept {
  BoundTransfer* const transfer = tasks_.pool.acquire();
  if (transfer == nullptr) {
    return -ENOMEM;
  }
  const auto give_up = [&](int error) {
    tasks_.pool.release(*transfer);
    return error;
  };
  iow_request& request = transfer->request;
  request = begun;
  if (call.op == engine::Op::readv || call.op == engine::Op::writev) {
    const auto* const given = static_cast<const iovec*>(call.buffer);
    transfer->vectors.reset(new (std::nothrow) iovec[call.bytes]);
    if (transfer->vectors == nullptr) {
      return give_up(-ENOMEM);
    }
    std::copy_n(given, call.bytes, transfer->vectors.get());
    request.buffer = transfer->vectors.get();
    load_operation(request);
  }
  transfer->result = result;
  transfer->service = this;
  transfer->task = {};
  if (!hold_current_task(transfer->task)) {
    return give_up(-ESRCH);
  }
  request.callback = [](iow_request*, void* user) {
    auto& ended = *static_cast<BoundTransfer*>(user);
    ended.service->end_bound(ended);
  };
  request.user = transfer;
  *result = -EINPROGRESS;
  tasks_.counters.bound.fetch_add(1, std::memory_order_relaxed);
  tasks_.counters.bound_pending.fetch_add(1, std::memory_order_relaxed);
  submit_for_task(request);
  return 0;
}

/// On the reaper. The task is told last: it and all that it owns may be gone then.
void Service::end_bound(BoundTransfer& transfer) noexcept {
  const BoundTask task = transfer.task;
  *transfer.result = static_cast<ssize_t>(transfer.request.result);
  tasks_.pool.release(transfer);
  tasks_.counters.bound_pending.fetch_sub(1, std::memory_order_relaxed);
  if (task.event != nullptr) {
    task.event->drop();
  } else {
    tasks_.host->release(task.task);
  }
}

}  // namespace ioweave::service
