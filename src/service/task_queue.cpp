#include "service/task_queue.hpp"

#include <array>
#include <cerrno>
#include <new>

#include "base/signals_masked.hpp"
#include "service/driving_here.hpp"
#include "service/pump.hpp"

namespace ioweave::service {

// ---- Life

int TaskQueue::start(std::string& why) noexcept {
  try {
    queue_ = open_(entries_, why);
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
  if (queue_ == nullptr) {
    return -EOPNOTSUPP;
  }
  const SignalsMasked masked;
  const int error = pthread_create(&thread_, nullptr, &TaskQueue::thread_main, this);
  if (error != 0) {
    why = kNoThread;
    queue_.reset();
    return -error;
  }
  started_ = true;
  return 0;
}

void TaskQueue::stop() noexcept {
  if (!started_) {
    return;
  }
  started_ = false;
  stop_.store(true, std::memory_order_release);  // pairs with thread_main(); the wake comes after
  queue_->wake();
  pthread_join(thread_, nullptr);
}

void TaskQueue::abandon() noexcept {
  started_ = false;  // the thread does not exist in the child
  if (queue_ != nullptr) {
    queue_->abandon();
  }
}

void* TaskQueue::thread_main(void* self) {
  pthread_setname_np(pthread_self(), "ioweave-tasks");
  auto& queue = *static_cast<TaskQueue*>(self);
  if (!queue.processors_.empty()) {
    static_cast<void>(sched_setaffinity(0, sizeof(cpu_set_t), &queue.processors_.raw()));
  }
  while (!queue.stop_.load(std::memory_order_acquire)) {
    queue.reap(true);
  }
  return nullptr;
}

// ---- Submission

void TaskQueue::post(iow_request& request) noexcept {
  {
    const std::lock_guard guard(lock_);
    if (!waiting_.empty() || !reserve_room(journey_of(request).total_bytes)) {
      waiting_.push(request);  // something is in flight, whose end starts it
      return;
    }
  }
  if (!submit(request)) {
    start_waiting();  // in the room that it gave back
  }
}

/// Under the lock: whether so many bytes more may be in flight, and then they are.
bool TaskQueue::reserve_room(uint64_t bytes) noexcept {
  const bool has_room =
      in_flight_ == 0 || (in_flight_ < entries_ && bytes_in_flight_ + bytes <= kMostBytesInFlight);
  if (has_room) {
    ++in_flight_;
    bytes_in_flight_ += bytes;
  }
  return has_room;
}

/// What has its room. False where it was refused and is the client's again.
bool TaskQueue::submit(iow_request& request) noexcept {
  const uint64_t bytes = journey_of(request).total_bytes;
  journey_of(request).station.store(Station::in_flight, std::memory_order_relaxed);
  if (queue_->submit(journey_of(request).operation)) {
    return true;
  }
  {
    const std::lock_guard guard(lock_);
    --in_flight_;
    bytes_in_flight_ -= bytes;
  }
  stay_away();
  client_.reroute(request);
  return false;
}

void TaskQueue::start_waiting() noexcept {
  const DrivingHere here;  // what is refused may be carried out, and end, on this thread
  while (iow_request* const request = pop_with_room()) {
    static_cast<void>(submit(*request));  // where it was refused there is room for the next
  }
}

iow_request* TaskQueue::pop_with_room() noexcept {
  const std::lock_guard guard(lock_);
  if (waiting_.empty()) {
    return nullptr;
  }
  iow_request& request = waiting_.pop();
  if (reserve_room(journey_of(request).total_bytes)) {
    return &request;
  }
  waiting_.push_front(request);
  return nullptr;
}

// ---- Completion

void TaskQueue::collect() noexcept {
  if (!DrivingHere::any() && queue_->has_ended()) {
    reap(false);
  }
}

void TaskQueue::reap(bool sleep) noexcept {
  std::array<engine::Operation*, kReapBatch> ended;
  const size_t reaped = queue_->reap(ended, sleep);
  if (reaped == 0) {
    return;
  }
  {
    const std::lock_guard guard(lock_);
    for (size_t i = 0; i < reaped; ++i) {
      --in_flight_;
      bytes_in_flight_ -= journey_of(request_of(*ended[i])).total_bytes;
    }
  }
  const DrivingHere here;
  start_waiting();  // first: the device should not wait for those who are told
  client_.end_operations(std::span(ended).first(reaped), counters);
}

}  // namespace ioweave::service
