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

/// Lives in iow_request::internal. Written by whoever has the request in hand (submitter, leader of
/// its lane, pump); what others look at meanwhile is atomic.
struct Journey {
  engine::Operation operation;
  tasking::ThreadEvent event;
  std::atomic<Station> station;
  std::atomic<bool> cancel_wanted;
  uint8_t attempts;         ///< in a row without progress
  bool counted : 1;         ///< as foreground activity of its device
  bool managed : 1;         ///< the gate was asked, and is owed the end
  bool for_workers : 1;     ///< the engine does it worse than a thread
  bool for_task_queue : 1;  ///< a transfer of a task, which the queue of tasks has not refused yet
  std::atomic<Lane*> lane;  ///< whose back end has it; null on its way through the pumps
  Lane* home;               ///< of the submitting thread, where it counts; null where nobody polls
  uint64_t done_bytes;      ///< transferred by earlier operations of the same request
  uint64_t total_bytes;
  uint64_t admission;  ///< the gate's number, of managed requests
};
static_assert(sizeof(Journey) <= sizeof(iow_request::internal));
static_assert(alignof(Journey) <= alignof(iow_request));
static_assert(sizeof(iow_request) == 192);

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

/// What the result of one operation means for its request.
enum class Step : uint8_t {
  complete,  ///< over, the final result is in request.result
  again,     ///< the operation has been set up anew: submit it
};
struct Advance {
  Step step;
  bool continued;  ///< a short transfer goes on
  bool reissued;   ///< the same operation once more
};
[[nodiscard]] Advance advance(iow_request& request, int64_t result) noexcept;

}  // namespace ioweave::service
