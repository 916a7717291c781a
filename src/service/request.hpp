#pragma once

// A request on its journey: the private half of iow_request and how an operation is made of it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "engine/backend.hpp"
#include "ioweave/ioweave.h"
#include "tasking/thread_event.hpp"

namespace ioweave::service {

class Lane;

/// Ends handed over in one go.
inline constexpr size_t kReapBatch = 64;

/// What tasks want to move may be a great many bytes at once. Devices are as fast with some of them
/// in flight as with all, and steadier: of 128 transfers of 4 MiB some waited for half a second.
/// Transfers beyond this wait, unless they are alone.
inline constexpr uint64_t kMostBytesInFlight = 64 << 20;

/// Where a request is, for cancellation.
enum class Station : uint8_t {
  none,       ///< not submitted, or completed
  held,       ///< waits for the gate
  posted,     ///< on its way to a pump
  in_flight,  ///< with a back end
};

/// Who carries a request out that does not go by the lane of its thread.
enum class Way : uint8_t {
  engine,      ///< the reaper
  task_queue,  ///< the queue that the direct transfers of tasks share
  workers,     ///< threads, which do it better than the engine; the engine where there are none
  no_engine,   ///< threads, or whoever posts it: the engine cannot
};

/// Lives in iow_request::internal. Written by whoever has the request in hand (submitter, leader of
/// its lane, pump); what others look at meanwhile is atomic.
struct Journey {
  engine::Operation operation;
  tasking::ThreadEvent event;
  std::atomic<Station> station;
  std::atomic<bool> cancel_wanted;
  uint8_t attempts;  ///< in a row without progress
  bool counted : 1;  ///< as foreground activity of its device
  bool managed : 1;  ///< the gate was asked, and is owed the end
  Way way;
  std::atomic<Lane*> lane;  ///< whose back end has it; null where it goes another way
  Lane* home;               ///< of the submitting thread, where it counts; null where nobody polls
  uint64_t done_bytes;      ///< transferred by earlier operations of the same request
  uint64_t total_bytes;
  uint64_t admission;  ///< the gate's number, of managed requests
};
static_assert(sizeof(Journey) <= sizeof(iow_request::internal));
static_assert(alignof(Journey) <= alignof(iow_request));
static_assert(sizeof(iow_request) == 192);

/// The arguments of a blocking call, as those of pread(2) and its like.
struct Call {
  engine::Op op = engine::Op::nop;
  int fd = -1;
  void* buffer = nullptr;  ///< of readv and writev: the vectors
  uint64_t bytes = 0;      ///< of readv and writev: their number
  int64_t offset = 0;
  bool exact = false;  ///< one system call's worth: short transfers are not continued
};

/// The request that a blocking call is.
inline iow_request request_for(const Call& call) noexcept {
  iow_request request{};
  request.op = static_cast<uint8_t>(call.op);
  request.flags = call.exact ? IOW_EXACT : 0;
  request.fd = call.fd;
  request.buffer = call.buffer;
  request.bytes = call.bytes;
  request.offset = call.offset;
  return request;
}

inline bool ends_with_owner(const iow_request& request) noexcept {
  return request.callback == nullptr || (request.flags & IOW_CALLBACK_ON_POLL) != 0;
}

inline Journey& journey_of(iow_request& request) noexcept {
  return *std::launder(reinterpret_cast<Journey*>(request.internal));
}

inline iow_request& request_of(engine::Operation& operation) noexcept {
  static_assert(offsetof(Journey, operation) == 0);
  return *reinterpret_cast<iow_request*>(reinterpret_cast<std::byte*>(&operation) -
                                         offsetof(iow_request, internal));
}

/// Checks the public half and sets up the private one; the event is pending afterwards. 0, -EINVAL
/// or -EBUSY, with nothing changed.
[[nodiscard]] int begin_journey(iow_request& request) noexcept;

/// Sets the operation to what is left after `done_bytes`.
void load_operation(iow_request& request) noexcept;

/// What the end of one operation means for its request.
enum class Step : uint8_t {
  complete,   ///< it is over; the final result is in request.result
  continued,  ///< a short transfer: the operation has been set to the rest of it
  reissued,   ///< the same operation once more
  refused,    ///< the same operation, by another back end
};

/// Completes the request, or sets its operation to what has to be submitted next: never `refused`.
[[nodiscard]] Step advance(iow_request& request, int64_t result) noexcept;

/// Tells whoever waits for the request that it has completed. It may be gone afterwards.
inline void tell_owner(iow_request& request) noexcept {
  const iow_callback callback = request.callback;
  void* const user = request.user;
  journey_of(request).event.complete();  // before the callback, which may submit it again
  if (callback != nullptr) {
    callback(&request, user);
  }
}

}  // namespace ioweave::service
