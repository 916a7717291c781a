#include "tasking/counting_event.hpp"

#include <new>
#include <utility>

namespace ioweave::tasking {
namespace {

constinit thread_local CountingEvent* innermost = nullptr;

}  // namespace

bool CountingEvent::begin(const void* owner, Done done, void* user) noexcept {
  auto* const event = new (std::nothrow) CountingEvent(owner, done, user, innermost);
  if (event == nullptr) {
    return false;
  }
  innermost = event;
  return true;
}

bool CountingEvent::end(const void* owner) noexcept {
  CountingEvent* const event = current(owner);
  if (event == nullptr) {
    return false;
  }
  innermost = event->outer_;
  event->drop();
  return true;
}

CountingEvent* CountingEvent::current(const void* owner) noexcept {
  return innermost != nullptr && innermost->owner_ == owner ? innermost : nullptr;
}

bool CountingEvent::any() noexcept {
  return innermost != nullptr;
}

CountingEvent::Hidden::Hidden() noexcept : innermost_(std::exchange(innermost, nullptr)) {}
CountingEvent::Hidden::~Hidden() {
  innermost = innermost_;
}

void CountingEvent::drop() noexcept {
  // Release: this transfer's result; acquire: those of the others, for whoever runs `done`.
  if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    const Done done = done_;
    void* const user = user_;
    delete this;
    done(user);
  }
}

}  // namespace ioweave::tasking
