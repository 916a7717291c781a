// Write streams in C++20 coroutines: leases, flush and sync that are awaited. streams.h holds the
// contracts, and coroutine.hpp says what an executor is.
//
//   ioweave::Lease lease = co_await ioweave::async_lease(stream, executor);
//   lease.append(file, compute(lease.data()));
//   co_await ioweave::async_sync(stream, executor, file);
//
// A coroutine is not suspended while the stream has a free buffer. Otherwise the thread on which a
// write ends posts it to the executor, and so its thread computes meanwhile. What else waits (end,
// close, copies) blocks the thread.
//
// Lifetime: stream and executor must outlive the wait. Do not destroy a coroutine that waits. A
// stream that is closed ends the wait for a lease with ECANCELED.
#ifndef IOWEAVE_STREAMS_COROUTINE_HPP
#define IOWEAVE_STREAMS_COROUTINE_HPP

#include <cerrno>
#include <memory>
#include <utility>

#include "ioweave/coroutine.hpp"
#include "ioweave/streams.hpp"

namespace ioweave {

/// One wait for a lease, which begins when it is awaited. Await it once, in the expression that
/// makes it.
template <Executor E>
class [[nodiscard("nothing is leased until it is awaited")]] LeaseOperation {
 public:
  LeaseOperation(WriteStream& stream, E& executor) noexcept
      : stream_(stream.raw()), of_leases_(stream.of_leases()), executor_(&executor) {}

  bool await_ready() noexcept {
    error_ = iow_lease_begin(stream_, &lease_, 0);
    return error_ != -ETIME;
  }

  // Never inlined: as Operation::await_suspend().
  [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
    resumption_.handle = awaiting;
    error_ = 0;
    if (const int error = iow_lease_begin_async(stream_, &leased, this); error != 0) {
      error_ = error;
      return false;
    }
    return true;  // *this may be gone, so do not touch it
  }

  /// Returns the lease, or throws std::system_error.
  Lease await_resume() {
    check(error_, "async_lease");
    return Lease(lease_, std::move(of_leases_));
  }

 private:
  static void leased(iow_lease lease, void* user) noexcept {
    auto& self = *static_cast<LeaseOperation*>(user);
    self.lease_ = lease;
    self.error_ = lease.data == nullptr ? -ECANCELED : 0;
    detail::post_to(*self.executor_, self.resumption_);  // last: *self may be gone now
  }

  iow_write_stream* stream_;
  std::shared_ptr<detail::StreamOfLeases> of_leases_;
  E* executor_;
  iow_lease lease_{};
  int error_ = 0;
  Resumption resumption_{};
};

/// Awaits to a Lease, or throws std::system_error: EAGAIN where all buffers are in use and the
/// stream has IOW_OVERFLOW_FAIL.
template <Executor E>
auto async_lease(WriteStream& stream, E& executor) noexcept {
  return LeaseOperation<E>(stream, executor);
}

/// One flush or sync, which begins when it is awaited. Await it once, in the expression that makes
/// it.
template <Executor E>
class [[nodiscard("nothing is waited for until it is awaited")]] ReachOperation {
 public:
  using Call = int (*)(iow_write_stream*, int, iow_reached, void*);

  ReachOperation(Call call, iow_write_stream* stream, int file, E& executor) noexcept
      : call_(call), stream_(stream), file_(file), executor_(&executor) {}

  [[nodiscard]] bool await_ready() const noexcept { return false; }

  // Never inlined: as Operation::await_suspend().
  [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
    resumption_.handle = awaiting;
    if (const int error = call_(stream_, file_, &reached, this); error != 0) {
      error_ = error;
      return false;
    }
    return true;  // *this may be gone, so do not touch it
  }

  /// Throws StreamError for a write that failed.
  void await_resume() const { detail::check_files(stream_, file_, error_, "write stream"); }

 private:
  static void reached(int error, void* user) noexcept {
    auto& self = *static_cast<ReachOperation*>(user);
    self.error_ = error;
    detail::post_to(*self.executor_, self.resumption_);  // last: *self may be gone now
  }

  Call call_;
  iow_write_stream* stream_;
  int file_;
  E* executor_;
  int error_ = 0;
  Resumption resumption_{};
};

/// Await what WriteStream::flush() and sync() wait for.
template <Executor E>
auto async_flush(WriteStream& stream, E& executor, int file = IOW_ALL_FILES) noexcept {
  return ReachOperation<E>(&iow_write_stream_flush_async, stream.raw(), file, executor);
}
template <Executor E>
auto async_sync(WriteStream& stream, E& executor, int file = IOW_ALL_FILES) noexcept {
  return ReachOperation<E>(&iow_write_stream_sync_async, stream.raw(), file, executor);
}

}  // namespace ioweave

#endif  // IOWEAVE_STREAMS_COROUTINE_HPP
