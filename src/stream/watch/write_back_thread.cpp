#include "stream/watch/write_back_thread.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <pthread.h>

#include "base/signals_masked.hpp"

namespace ioweave::stream {
namespace {

constexpr uint64_t kPieceBytes = 4u << 20;  // after which it looks whether to go on

}  // namespace

struct WriteBackThread::State {
  std::mutex lock;
  std::condition_variable changed;
  std::shared_ptr<const Descriptor> file;  // null: idle
  FileRange range;
  bool has_thread = false;
  bool ends = false;

  void run();
};

void WriteBackThread::State::run() {
  pthread_setname_np(pthread_self(), "ioweave-early");
  std::unique_lock guard(lock);
  while (true) {
    changed.wait(guard, [this] { return ends || file != nullptr; });
    if (ends) return;
    while (range.bytes != 0 && !ends) {
      const int fd = file->get();
      const uint64_t bytes = std::min(range.bytes, kPieceBytes);
      const auto offset = static_cast<off64_t>(range.offset);
      guard.unlock();
      (void)sync_file_range(fd, offset, static_cast<off64_t>(bytes), SYNC_FILE_RANGE_WRITE);
      guard.lock();
      const uint64_t done = std::min(bytes, range.bytes);  // 0 left: it was cancelled
      range = {range.offset + done, range.bytes - done};
    }
    file.reset();
    changed.notify_all();
  }
}

WriteBackThread::WriteBackThread() : state_(std::make_shared<State>()) {}

WriteBackThread::~WriteBackThread() {
  const std::lock_guard guard(state_->lock);
  state_->ends = true;
  state_->changed.notify_all();
}

bool WriteBackThread::is_idle() const noexcept {
  const std::lock_guard guard(state_->lock);
  return state_->file == nullptr;
}

bool WriteBackThread::write(std::shared_ptr<const Descriptor> file, FileRange range) {
  const std::lock_guard guard(state_->lock);
  if (state_->file != nullptr) return false;
  if (!state_->has_thread) {
    const SignalsMasked masked;
    try {
      std::thread([state = state_] { state->run(); }).detach();
      state_->has_thread = true;
    } catch (const std::system_error&) {
      return false;
    }
  }
  state_->file = std::move(file);
  state_->range = range;
  state_->changed.notify_all();
  return true;
}

void WriteBackThread::cancel(uint64_t most_ns) {
  std::unique_lock guard(state_->lock);
  state_->range.bytes = 0;
  state_->changed.wait_for(guard, std::chrono::nanoseconds(most_ns),
                           [this] { return state_->file == nullptr; });
}

}  // namespace ioweave::stream
