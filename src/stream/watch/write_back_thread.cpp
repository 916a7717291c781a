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

constexpr uint64_t kPieceBytes = 2u << 20;  // after which it looks whether to go on

}  // namespace

struct WriteBackThread::State {
  enum class Thread : uint8_t { none, runs, cannot_run };

  std::mutex lock;
  std::condition_variable changed;
  bool is_busy = false;  // it has a file, or is about to have closed it
  std::shared_ptr<const Descriptor> file;
  FileRange range;  // what is left
  Thread thread = Thread::none;
  bool ends = false;

  void run();
  void write_range(std::unique_lock<std::mutex>& guard);
};

void WriteBackThread::State::run() {
  pthread_setname_np(pthread_self(), "ioweave-early");
  std::unique_lock guard(lock);
  while (true) {
    changed.wait(guard, [this] { return ends || is_busy; });
    if (ends) return;
    write_range(guard);
    std::shared_ptr<const Descriptor> done = std::move(file);
    guard.unlock();
    done.reset();  // the last close of a removed file takes its time
    guard.lock();
    is_busy = false;
    changed.notify_all();
  }
}

void WriteBackThread::State::write_range(std::unique_lock<std::mutex>& guard) {
  const int fd = file->get();
  while (range.bytes != 0 && !ends) {
    const uint64_t bytes = std::min(range.bytes, kPieceBytes);
    const auto offset = static_cast<off64_t>(range.offset);
    guard.unlock();
    (void)sync_file_range(fd, offset, static_cast<off64_t>(bytes), SYNC_FILE_RANGE_WRITE);
    guard.lock();
    const uint64_t done = std::min(bytes, range.bytes);  // 0 left: it was cancelled
    range = {range.offset + done, range.bytes - done};
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
  return !state_->is_busy;
}

bool WriteBackThread::write(std::shared_ptr<const Descriptor> file, FileRange range) {
  const std::lock_guard guard(state_->lock);
  if (state_->is_busy) return false;
  if (state_->thread == State::Thread::none) {
    state_->thread = State::Thread::cannot_run;
    const SignalsMasked masked;
    try {
      std::thread([state = state_] { state->run(); }).detach();
      state_->thread = State::Thread::runs;
    } catch (const std::system_error&) {
      // Nothing is written early in this run.
    }
  }
  if (state_->thread != State::Thread::runs) return false;
  state_->is_busy = true;
  state_->file = std::move(file);
  state_->range = range;
  state_->changed.notify_all();
  return true;
}

bool WriteBackThread::cancel(uint64_t most_ns) noexcept {
  std::unique_lock guard(state_->lock);
  state_->range.bytes = 0;
  return state_->changed.wait_for(guard, std::chrono::nanoseconds(most_ns),
                                  [this] { return !state_->is_busy; });
}

}  // namespace ioweave::stream
