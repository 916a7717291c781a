#pragma once

// Slices of files on their way into the page cache, and the policy that says when each may go.
//
// This is a driver of the policy core like the service, for one thread: it asks the kernel for a
// slice and sleeps until the oldest one is there. Handing each slice to threads of the service
// instead cost five wake-ups of another processor, more than the slice itself.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "calls/preload/stream.hpp"
#include "calls/stream/prefetch_planner.hpp"
#include "engine/prefetch.hpp"
#include "policy/policy.hpp"

namespace ioweave::calls {

/// How long prefetches have been in flight. One writer (the prefetch thread), any reader.
class PrefetchClock {
 public:
  void begin(uint64_t now) noexcept;
  void end(uint64_t now) noexcept;
  void reset() noexcept {
    in_flight_ = 0;
    set(0, 0);
  }
  /// Ticks with at least one prefetch in flight up to `now`.
  [[nodiscard]] uint64_t busy(uint64_t now) const noexcept;

 private:
  void set(uint64_t before, uint64_t since) noexcept;

  uint32_t in_flight_ = 0;  // the writer's
  // A seqlock: `version_` is odd while the pair changes.
  std::atomic<uint32_t> version_{0};
  std::atomic<uint64_t> before_{0};
  std::atomic<uint64_t> since_{0};  // 0: nothing in flight
};

struct Slice {
  enum class Stage : uint8_t {
    free,
    held,    ///< with the policy
    flying,  ///< asked of the kernel
    ended,   ///< `result` and `end_ticks` are valid
  };

  Stage stage = Stage::free;
  bool disturbed = false;  ///< the program was at work on the device when it went
  bool missing = false;    ///< some of it was not in the page cache
  Stream* stream = nullptr;
  uint32_t generation = 0;  ///< of the stream
  int fd = -1;
  stats::FileRecord* record = nullptr;
  Device* device = nullptr;
  Range range;
  uint64_t begin_ticks = 0;  ///< when it went
  uint64_t end_ticks = 0;
  int64_t result = 0;  ///< bytes in the cache now, or -errno
  engine::PrefetchedRange way;
};

/// One thread, but for the devices' counts of what the program does.
class SliceQueue {
 public:
  static constexpr size_t kSlices = 8;
  /// Enough to keep a device busy between two looks at the program, and no more: what is in flight
  /// when the program enters a call of its own delays that call.
  static constexpr uint32_t kInFlight = 2;

  SliceQueue(policy::Scheduling scheduling, PrefetchClock& clock,
             const std::atomic<bool>& cancelled) noexcept
      : scheduling_(scheduling), clock_(clock), cancelled_(cancelled) {}

  /// A slice to fill in (stream, range) and submit, or null where all are taken.
  [[nodiscard]] Slice* free_slice() noexcept;
  [[nodiscard]] bool idle() const noexcept;
  [[nodiscard]] std::array<Slice, kSlices>& all() noexcept { return slices_; }

  /// It goes now or when the policy says so. False where the descriptor is being closed, or the
  /// policy cannot take the device: `why` then has the reason.
  [[nodiscard]] bool submit(Slice& slice, std::string& why);
  /// Ends it where the policy still holds it.
  void withdraw(Slice& slice);
  /// Sleeps until the oldest in flight is there. False where none is.
  [[nodiscard]] bool await_oldest();
  /// Where slices are held: asks to be woken when the program's calls on their devices end. True
  /// where some have gone instead.
  [[nodiscard]] bool watch_for_quiet();
  /// The devices' calls need not be counted any more, until the next submit().
  void rest() noexcept;

 private:
  struct KnownDevice {
    Device* device;
    policy::DeviceId id;
    policy::FlowId flow;
    uint32_t told = 0;  ///< calls of the program, as the policy knows it
  };

  [[nodiscard]] KnownDevice* known(Device& device, std::string& why);
  [[nodiscard]] policy::OperationId id_of(const Slice& slice) const noexcept {
    return static_cast<policy::OperationId>(&slice - slices_.data());
  }
  void tell_activity(KnownDevice& device);
  void tell(const policy::Event& event);
  void start(Slice& slice);
  void end(Slice& slice, int64_t result);

  const policy::Scheduling scheduling_;
  PrefetchClock& clock_;
  const std::atomic<bool>& cancelled_;
  std::array<Slice, kSlices> slices_;
  std::vector<Slice*> flying_;  // in the order in which they went
  policy::Policy policy_;
  std::vector<policy::Decision> decisions_;
  std::vector<KnownDevice> devices_;
};

}  // namespace ioweave::calls
