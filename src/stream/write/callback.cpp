#include "stream/write/callback.hpp"

#include <memory>

#include "service/driving_here.hpp"
#include "service/local.hpp"

namespace ioweave::stream {

/// Not to be inlined: the caller may have been paused, and be on another thread.
__attribute__((noinline)) void call_back(LinkedList<Callback>& due) noexcept {
  static thread_local LinkedList<Callback>* running = nullptr;
  if (running != nullptr) {
    while (Callback* const callback = due.pop_front()) {
      running->push_back(*callback);
    }
    return;
  }
  if (due.empty()) {
    return;
  }
  running = &due;
  const uint32_t generation = service::fork_generation();
  const service::DrivingHere here;  // in whatever task: calls there must not pause it
  while (Callback* const callback = due.pop_front()) {
    const std::unique_ptr<Callback> owned(callback);
    callback->run();
    if (service::fork_generation() != generation) {
      break;  // the callback has forked, and this is the child: the rest is the parent's
    }
  }
  running = nullptr;
}

}  // namespace ioweave::stream
