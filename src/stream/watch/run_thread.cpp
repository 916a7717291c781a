#include "stream/watch/run_thread.hpp"

#include <chrono>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include <sys/eventfd.h>

#include "base/signals_masked.hpp"

namespace ioweave::stream {

RunThread::RunThread() : wake_(eventfd(0, EFD_CLOEXEC)) {}

void RunThread::start(std::shared_ptr<const void> owner, std::function<void()> body) {
  if (!wake_.is_open()) return;
  const SignalsMasked masked;
  try {
    has_ended_ = false;
    std::thread([this, owner = std::move(owner), body = std::move(body)] {
      try {
        body();
      } catch (const std::bad_alloc&) {
        // What it has found until then stands.
      }
      const std::lock_guard guard(lock_);
      has_ended_ = true;
      changed_.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    has_ended_ = true;
  }
}

std::unique_lock<std::mutex> RunThread::stop() {
  if (wake_.is_open()) eventfd_write(wake_.get(), 1);
  std::unique_lock guard(lock_);
  changed_.wait_for(guard, std::chrono::seconds(1), [this] { return has_ended_; });
  return guard;
}

}  // namespace ioweave::stream
