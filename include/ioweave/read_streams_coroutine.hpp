// Read streams in C++20 coroutines: the next item is awaited. read_streams.h holds the contracts,
// and coroutine.hpp says what an executor is.
//
//   while (ioweave::ReadLease lease = co_await ioweave::async_next(results, executor)) {
//     use(lease.data());
//   }
//
// A coroutine is not suspended where the item has been read already. Otherwise the thread on which
// its read ends posts it to the executor. Several coroutines may await items of one stream: each
// item goes to one of them, in the order in which they began to wait.
//
// Lifetime: stream and executor must outlive the wait. Do not destroy a coroutine that waits. A
// stream that is closed ends the wait with ECANCELED.
#ifndef IOWEAVE_READ_STREAMS_COROUTINE_HPP
#define IOWEAVE_READ_STREAMS_COROUTINE_HPP

#include <cerrno>

#include "ioweave/coroutine.hpp"
#include "ioweave/read_streams.hpp"

namespace ioweave {

/// One wait for what comes next, which begins when it is awaited. Await it once, in the expression
/// that makes it.
template <Executor E>
class [[nodiscard("nothing is leased until it is awaited")]] NextOperation {
 public:
  NextOperation(iow_read_stream* stream, E& executor) noexcept
      : stream_(stream), executor_(&executor) {}

  bool await_ready() noexcept {
    result_ = iow_read_stream_next(stream_, &lease_, 0);
    return result_ != -ETIME;
  }

  // Never inlined: as Operation::await_suspend().
  [[gnu::noinline]] bool await_suspend(std::coroutine_handle<> awaiting) noexcept {
    resumption_.handle = awaiting;
    if (const int error = iow_read_stream_next_async(stream_, &told, this); error != 0) {
      result_ = error;
      return false;
    }
    return true;  // *this may be gone, so do not touch it
  }

  /// Returns the lease, which is none behind the last item. Throws std::system_error for what
  /// cannot be read.
  ReadLease await_resume() {
    if (result_ == -ECANCELED) {
      check(result_, "async_next");  // the stream may be gone, so do not ask it
    }
    detail::check_read(stream_, lease_, result_);
    return ReadLease(lease_);
  }

 private:
  static void told(iow_read_lease lease, int result, void* user) noexcept {
    auto& self = *static_cast<NextOperation*>(user);
    self.lease_ = lease;
    self.result_ = result;
    detail::post_to(*self.executor_, self.resumption_);  // last: *self may be gone now
  }

  iow_read_stream* stream_;
  E* executor_;
  iow_read_lease lease_{};
  int result_ = 0;
  Resumption resumption_{};
};

/// Awaits to a ReadLease, as ReadStream::next() returns it.
template <Executor E>
auto async_next(ReadStream& stream, E& executor) noexcept {
  return NextOperation<E>(stream.raw(), executor);
}

}  // namespace ioweave

#endif  // IOWEAVE_READ_STREAMS_COROUTINE_HPP
