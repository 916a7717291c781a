#include "engine/threads.hpp"

#include <cerrno>
#include <chrono>
#include <new>

#include "base/signals_masked.hpp"
#include "engine/raw_syscall.hpp"
#include "engine/write_back.hpp"

// How it works. submit() links the operation into a list of the owner's own; flush() moves that
// list to the workers under the lock and starts as many workers as there is work for and none
// sleeps to take it, up to the limit. A worker makes the system call without the lock and links
// the operation into the list of completed ones; it signals the reaper only when that has as many
// as the reaper asked for, so a batch costs one wake-up.
//
// Where no thread can be started (a limit on processes) the owner does the work itself at flush,
// and it is reaped like any other: slower, never lost.

namespace ioweave::engine {
namespace {

/// Enough for the deepest path below execute() plus the C library's thread-local storage; it is
/// only touched as far as it is used.
constexpr size_t kStackBytes = 256 << 10;

/// With a position: on a stream (pipe, socket), which has none, it is ignored, as io_uring does.
long transfer(long number, const Operation& operation, const iovec* vectors,
              uint32_t count) noexcept {
  const long moved = raw_syscall(number, operation.fd, vectors, count, operation.offset, 0, 0);
  return moved == -ESPIPE && operation.offset >= 0
             ? raw_syscall(number, operation.fd, vectors, count, kCurrentPosition, 0, 0)
             : moved;
}

long call(const Operation& operation) noexcept {
  const iovec one{operation.buffer, transfer_bytes(operation)};
  switch (operation.op) {
    case Op::read:
      return transfer(SYS_preadv2, operation, &one, 1);
    case Op::write:
      return transfer(SYS_pwritev2, operation, &one, 1);
    case Op::readv:
      return transfer(SYS_preadv2, operation, operation.vectors, operation.vector_count);
    case Op::writev:
      return transfer(SYS_pwritev2, operation, operation.vectors, operation.vector_count);
    case Op::fsync:
      return raw_syscall(SYS_fsync, operation.fd);
    case Op::fdatasync:
      return raw_syscall(SYS_fdatasync, operation.fd);
    case Op::write_back:
      return begin_write_back(operation);
    default:
      return 0;  // nop
  }
}

}  // namespace

// ---- Life --------------------------------------------------------------------------------------

ThreadsBackend::ThreadsBackend(const BackendOptions& options)
    : max_workers_(std::max(options.threads, 1u)),
      workers_(std::make_unique<Worker[]>(max_workers_)),
      shared_(new Shared),
      in_flight_(options.entries) {}

ThreadsBackend::~ThreadsBackend() {
  if (abandoned_) {
    ::operator delete(shared_);  // memory only, see Shared
    return;
  }
  {
    const std::lock_guard guard(shared_->lock);
    shared_->stop = true;
  }
  shared_->work.notify_all();
  for (uint32_t i = 0; i < started_; ++i) pthread_join(workers_[i].thread, nullptr);
  delete shared_;
}

void ThreadsBackend::start_workers(uint32_t wanted) noexcept {
  while (wanted-- > 0 && started_ < max_workers_ && start_worker()) {
  }
}

bool ThreadsBackend::start_worker() noexcept {
  const SignalsMasked masked;
  Worker& worker = workers_[started_];
  worker.backend = this;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  int error = pthread_create(&worker.thread, &attributes, worker_main, &worker);
  if (error == EINVAL) {  // a program with very large thread-local storage
    error = pthread_create(&worker.thread, nullptr, worker_main, &worker);
  }
  pthread_attr_destroy(&attributes);
  if (error != 0) return false;
  ++started_;
  return true;
}

// ---- Owner -------------------------------------------------------------------------------------

Submitted ThreadsBackend::submit(Operation& operation) noexcept {
  if (in_flight_.full()) return Submitted::busy;
  queued_.push(operation);
  in_flight_.add();
  return Submitted::queued;
}

int ThreadsBackend::flush() noexcept {
  if (queued_.empty()) return 0;
  const uint32_t fresh = queued_.size();
  if (started_ == 0) start_workers(std::min(fresh, max_workers_));
  if (started_ == 0) {
    run_inline();
    return 0;
  }
  uint32_t unserved = 0;
  uint32_t to_wake = 0;
  {
    const std::lock_guard guard(shared_->lock);
    shared_->waiting.append(queued_);
    const uint32_t waiting = shared_->waiting.size();
    to_wake = std::min(waiting, shared_->idle);
    unserved = waiting - to_wake;
  }
  for (uint32_t i = 0; i < to_wake; ++i) shared_->work.notify_one();
  start_workers(unserved);
  return 0;
}

void ThreadsBackend::run_inline() noexcept {
  const std::atomic<bool> never{false};
  while (Operation* operation = queued_.pop()) finish(*operation, execute(*operation, never));
}

// ---- Workers -----------------------------------------------------------------------------------

void* ThreadsBackend::worker_main(void* argument) {
  auto* worker = static_cast<Worker*>(argument);
  pthread_setname_np(pthread_self(), "ioweave-io");
  worker->backend->work(*worker);
  return nullptr;
}

void ThreadsBackend::work(Worker& worker) noexcept {
  std::unique_lock guard(shared_->lock);
  for (;;) {
    while (shared_->waiting.empty() && !shared_->stop) {
      ++shared_->idle;
      shared_->work.wait(guard);
      --shared_->idle;
    }
    Operation* operation = shared_->waiting.pop();
    if (operation == nullptr) return;  // stop, and nothing left to do
    worker.running = operation;
    worker.cancelled.store(false, std::memory_order_relaxed);
    guard.unlock();
    operation->result = execute(*operation, worker.cancelled);
    guard.lock();
    worker.running = nullptr;
    if (!complete(*operation)) continue;
    guard.unlock();  // the reaper should not wake only to wait for the lock
    shared_->completed.notify_one();
    guard.lock();
  }
}

int64_t ThreadsBackend::execute(const Operation& operation,
                                const std::atomic<bool>& cancelled) noexcept {
  if (operation.op != Op::prefetch) return call(operation);
  return prefetch(operation.fd, operation.offset, transfer_bytes(operation), windows_, cancelled);
}

bool ThreadsBackend::complete(Operation& operation) noexcept {
  shared_->done.push(operation);
  return shared_->reaper_wants != 0 && shared_->done.size() >= shared_->reaper_wants;
}

void ThreadsBackend::finish(Operation& operation, int64_t result) noexcept {
  operation.result = result;
  bool enough = false;
  {
    const std::lock_guard guard(shared_->lock);
    enough = complete(operation);
  }
  if (enough) shared_->completed.notify_one();
}

// ---- Reaper, waker, canceller ------------------------------------------------------------------

int ThreadsBackend::reap(std::span<Operation*> out, const Reap& how) noexcept {
  if (how.flush) (void)flush();  // cannot fail
  const auto wanted = static_cast<uint32_t>(std::min<size_t>(how.min_completions, out.size()));
  size_t reaped = 0;
  {
    std::unique_lock guard(shared_->lock);
    if (shared_->done.size() < wanted && how.timeout_ns != 0) {
      const auto enough = [&] { return shared_->done.size() >= wanted || shared_->woken; };
      shared_->reaper_wants = wanted;
      if (how.timeout_ns < 0) {
        shared_->completed.wait(guard, enough);
      } else {
        shared_->completed.wait_for(guard, std::chrono::nanoseconds(how.timeout_ns), enough);
      }
      shared_->reaper_wants = 0;
      shared_->woken = false;
    }
    while (reaped < out.size() && !shared_->done.empty()) out[reaped++] = shared_->done.pop();
  }
  if (reaped != 0) in_flight_.remove(reaped);
  return static_cast<int>(reaped);
}

void ThreadsBackend::wake() noexcept {
  {
    const std::lock_guard guard(shared_->lock);
    shared_->woken = true;
  }
  shared_->completed.notify_one();
}

int ThreadsBackend::cancel(Operation& operation) noexcept {
  {
    const std::lock_guard guard(shared_->lock);
    if (!shared_->waiting.remove(operation)) {
      for (uint32_t i = 0; i < max_workers_; ++i) {
        if (workers_[i].running != &operation) continue;
        if (operation.op != Op::prefetch) return -EALREADY;
        workers_[i].cancelled.store(true, std::memory_order_relaxed);
        return 0;
      }
      return -ENOENT;
    }
  }
  finish(operation, -ECANCELED);
  return 0;
}

std::unique_ptr<Backend> open_threads(const BackendOptions& options) {
  return std::make_unique<ThreadsBackend>(options);
}

}  // namespace ioweave::engine
