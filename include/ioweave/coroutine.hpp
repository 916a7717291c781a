// Ioweave for C++20 coroutines: transfers that are awaited. ioweave.h holds the contracts of the
// transfers; coroutine_task.hpp has a Task and a pool of threads for programs without a coroutine
// library.
//
//   size_t bytes = co_await ioweave::async_read(service, executor, fd, buffer, offset);
//
// How it works. The awaitable lives in the coroutine's frame and holds the request, so nothing is
// allocated. Awaiting it submits the request with a callback. The callback runs on the service's
// thread and does one thing: it posts the coroutine to the executor, whose threads then resume the
// coroutine. So no user code runs on the service's thread, and errors are thrown where the
// coroutine continues.
//
// iow_try() does at once, on the calling thread, what the page cache holds or takes. It suspends,
// submits and posts nothing, so a coroutine that needs nothing else keeps its thread.
//
// Executor: anything with `void post(std::coroutine_handle<>) noexcept` that any thread may call.
// It must not resume the coroutine inside post(): the coroutine would run on the service's thread.
//
// Lifetime: buffers, descriptor, executor and service must outlive the transfer. Do not destroy a
// coroutine that is suspended in a transfer: its frame holds what the kernel works on. Destroy the
// service before the executor: the service completes what is in flight, and so posts.
#ifndef IOWEAVE_COROUTINE_HPP
#define IOWEAVE_COROUTINE_HPP

#include <atomic>
#include <condition_variable>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>

#include <sys/uio.h>

#include "ioweave/ioweave.hpp"

namespace ioweave {

/// A coroutine to resume, as a link that an executor may queue without allocating. It lives in the
/// suspended coroutine, and is gone as soon as the coroutine continues.
struct Resumption {
  std::coroutine_handle<> handle;
  Resumption* next = nullptr;
};

/// Resumes coroutines. If an executor also has `post(Resumption&) noexcept`, that one is called
/// instead, so that the executor needs no memory.
template <typename E>
concept Executor = requires(E& executor, std::coroutine_handle<> handle) {
  { executor.post(handle) } noexcept;
};

namespace detail {

template <Executor E>
void post_to(E& executor, Resumption& resumption) noexcept {
  if constexpr (requires { executor.post(resumption); }) {
    static_assert(noexcept(executor.post(resumption)));
    executor.post(resumption);
  } else {
    executor.post(resumption.handle);
  }
}

/// Lets one thread sleep until another has called set(). It may be destroyed as soon as wait()
/// returns.
class Signal {
 public:
  void set() noexcept {
    const std::lock_guard guard(lock_);
    is_set_ = true;
    changed_.notify_one();  // under the lock: afterwards this object may be gone
  }
  void wait() noexcept {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [this] { return is_set_; });
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

/// Returns true if the request has ended, by iow_try() or because it is malformed.
inline bool try_now(iow_service* service, iow_request* request) noexcept {
  const int tried = iow_try(service, request);
  if (tried < 0) {
    request->result = tried;
  }
  return tried != 0;
}

/// Returns 0, or -errno; after an error the callback does not run.
inline int submit(iow_service* service, iow_request* request) noexcept {
  const int taken = iow_submit(service, &request, 1);
  return taken < 0 ? taken : 0;
}

// What co_await returns for a result of bytes or -errno.
struct BytesOrThrow {
  static size_t of(int64_t result, const char* what) {
    return static_cast<size_t>(check(result, what));
  }
};
struct NothingOrThrow {
  static void of(int64_t result, const char* what) { check(result, what); }
};
struct BytesOrError {
  static int64_t of(int64_t result, const char*) noexcept { return result; }
};

}  // namespace detail

/// One transfer that starts when it is awaited. async_read() and its like make it. Await it once,
/// in the expression that makes it.
template <Executor E, typename Outcome>
class [[nodiscard("nothing is transferred until it is awaited")]] Operation {
 public:
  Operation(iow_service* service, E& executor, Request&& request, const char* what) noexcept
      : service_(service), executor_(&executor), request_(std::move(request)), what_(what) {}

  /// Sets the flow, from iow_flow_create(). The policy then decides when the transfer starts.
  Operation&& flow(uint32_t id) && noexcept {
    request_.flow(id);
    return std::move(*this);
  }
  /// The same transfer, for which co_await returns bytes or -errno and throws nothing.
  [[nodiscard]] Operation<E, detail::BytesOrError> result() && noexcept {
    return {service_, *executor_, std::move(request_), what_};
  }

  bool await_ready() noexcept { return detail::try_now(service_, request_.raw()); }

  // Never inlined: once the request is submitted, another thread may resume and destroy the
  // coroutine, but clang 16 would keep an inlined function's variables in the coroutine's frame
  // (https://github.com/llvm/llvm-project/issues/56301).
  [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
    resumption_.handle = awaiting;
    request_.on_completion(&ended, this);
    if (const int error = detail::submit(service_, request_.raw()); error != 0) {
      request_.raw()->result = error;
      return false;
    }
    return true;  // *this may be gone, so do not touch it
  }

  decltype(auto) await_resume() { return Outcome::of(request_.result(), what_); }

 private:
  static void ended(iow_request* /*request*/, void* user) noexcept {
    auto& self = *static_cast<Operation*>(user);
    detail::post_to(*self.executor_, self.resumption_);  // last: *self may be gone now
  }

  iow_service* service_;
  E* executor_;
  Request request_;
  const char* what_;
  Resumption resumption_{};
};

/// Awaits to the bytes transferred, or throws std::system_error. Fewer bytes than asked mean what
/// they mean for Service::read().
template <Executor E>
auto async_read(Service& service, E& executor, int fd, std::span<std::byte> into,
                off_t offset) noexcept {
  return Operation<E, detail::BytesOrThrow>(service.raw(), executor,
                                            Request::read(fd, into, offset), "async_read");
}
template <Executor E>
auto async_write(Service& service, E& executor, int fd, std::span<const std::byte> from,
                 off_t offset) noexcept {
  return Operation<E, detail::BytesOrThrow>(service.raw(), executor,
                                            Request::write(fd, from, offset), "async_write");
}
/// The array of `vectors` must live until the coroutine continues.
template <Executor E>
auto async_readv(Service& service, E& executor, int fd, std::span<const iovec> vectors,
                 off_t offset) noexcept {
  return Operation<E, detail::BytesOrThrow>(service.raw(), executor,
                                            Request::readv(fd, vectors, offset), "async_readv");
}
template <Executor E>
auto async_writev(Service& service, E& executor, int fd, std::span<const iovec> vectors,
                  off_t offset) noexcept {
  return Operation<E, detail::BytesOrThrow>(service.raw(), executor,
                                            Request::writev(fd, vectors, offset), "async_writev");
}
/// Awaits to nothing, or throws std::system_error.
template <Executor E>
auto async_fsync(Service& service, E& executor, int fd) noexcept {
  return Operation<E, detail::NothingOrThrow>(service.raw(), executor, Request::fsync(fd),
                                              "async_fsync");
}
template <Executor E>
auto async_fdatasync(Service& service, E& executor, int fd) noexcept {
  return Operation<E, detail::NothingOrThrow>(service.raw(), executor, Request::fdatasync(fd),
                                              "async_fdatasync");
}
/// Any other request, without a callback, for this function sets it. Awaits to the bytes
/// transferred, or throws std::system_error.
template <Executor E>
auto async_request(Service& service, E& executor, Request&& request) noexcept {
  return Operation<E, detail::BytesOrThrow>(service.raw(), executor, std::move(request),
                                            "async_request");
}

/// One transfer that starts when it is constructed and is awaited later, after other work or other
/// transfers:
///
///   ioweave::Transfer left(service, executor, ioweave::Request::read(fd, a, 0));
///   ioweave::Transfer right(service, executor, ioweave::Request::read(fd, b, 4096));
///   compute();
///   const size_t bytes = co_await left + co_await right;
///
/// One coroutine may await it, any number of times; it is not suspended if the transfer has ended
/// already. If the transfer was not awaited to its end, the destructor asks to cancel it and sleeps
/// until it has ended, because the buffer is in use until then.
template <Executor E>
class Transfer {
 public:
  /// `request` must not have a callback, for this class sets it. A malformed request is an error of
  /// the transfer, -EINVAL.
  Transfer(Service& service, E& executor, Request&& request) noexcept
      : service_(service.raw()), executor_(&executor), request_(std::move(request)) {
    if (detail::try_now(service_, request_.raw())) {
      state_.store(done(), std::memory_order_relaxed);  // no other thread knows *this yet
      return;
    }
    request_.on_completion(&ended, this);
    if (const int error = detail::submit(service_, request_.raw()); error != 0) {
      request_.raw()->result = error;
      state_.store(done(), std::memory_order_relaxed);
    }
  }
  ~Transfer() {
    if (is_done()) {
      return;
    }
    iow_cancel(service_, request_.raw());
    detail::Signal signal;
    signal_ = &signal;
    // Acquire pairs with ended(); release makes signal_ visible to ended().
    if (state_.exchange(sleeping(), std::memory_order_acq_rel) != done()) {
      signal.wait();
    }
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// Returns true if the transfer has ended, so that awaiting it would not suspend.
  [[nodiscard]] bool is_done() const noexcept {
    return state_.load(std::memory_order_acquire) == done();  // pairs with ended()
  }

  bool await_ready() const noexcept { return is_done(); }
  // Never inlined: as Operation::await_suspend().
  [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
    resumption_.handle = awaiting;
    void* running = nullptr;
    // Pairs with ended(): either ended() sees who awaits, or this call sees the end and the result.
    return state_.compare_exchange_strong(running, this, std::memory_order_acq_rel);
  }
  /// Returns the bytes transferred, or throws std::system_error.
  size_t await_resume() const { return request_.bytes(); }

  /// Await this instead to get bytes or -errno without an exception.
  [[nodiscard]] auto result() noexcept {
    struct Awaitable {
      Transfer& transfer;
      bool await_ready() const noexcept { return transfer.await_ready(); }
      bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
        return transfer.await_suspend(awaiting);
      }
      int64_t await_resume() const noexcept { return transfer.request_.result(); }
    };
    return Awaitable{*this};
  }

 private:
  // state_ is null while the transfer runs and nobody waits, `this` while a coroutine waits, and
  // otherwise done() or sleeping().
  [[nodiscard]] void* done() const noexcept { return const_cast<Request*>(&request_); }
  [[nodiscard]] void* sleeping() noexcept { return &signal_; }

  static void ended(iow_request* /*request*/, void* user) noexcept {
    auto& self = *static_cast<Transfer*>(user);
    // If nobody waits, *self may be gone as soon as it is done, so its addresses are taken before.
    void* const coroutine = &self;
    void* const sleeper = self.sleeping();
    const void* const waiting = self.state_.exchange(self.done(), std::memory_order_acq_rel);
    if (waiting == coroutine) {
      detail::post_to(*self.executor_, self.resumption_);
    } else if (waiting == sleeper) {
      self.signal_->set();
    }
  }

  iow_service* service_;
  E* executor_;
  Request request_;
  std::atomic<void*> state_{nullptr};
  Resumption resumption_{};
  detail::Signal* signal_ = nullptr;
};

}  // namespace ioweave

#endif  // IOWEAVE_COROUTINE_HPP
