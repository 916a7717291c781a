#pragma once

// What is bound to threads and processes: which lane a thread has in which service, what happens
// to it when the thread ends, and what fork(2) leaves of a service.

#include <atomic>
#include <cstdint>

namespace ioweave::service {

class Lane;

/// What local.cpp needs of a service.
class LaneHost {
 public:
  /// On the ending thread: complete what it submitted, then take the lane back for another thread.
  virtual void end_thread(Lane& lane) noexcept = 0;
  /// In a forked child, where only async-signal-safe calls are allowed.
  virtual void abandon() noexcept = 0;

 protected:
  ~LaneHost() = default;
};

/// Services alive in this process. Registration makes the hooks for thread end and fork work.
/// Returns an id that is never used again, or 0 where too many services are open.
[[nodiscard]] uint64_t register_host(LaneHost& host) noexcept;
/// Afterwards no hook calls the host; waits for those that run.
void unregister_host(LaneHost& host) noexcept;

namespace detail {
extern constinit std::atomic<uint32_t> fork_generation;
}

/// Counts fork generations: a service of another generation belongs to the parent.
[[nodiscard]] inline uint32_t fork_generation() noexcept {
  return detail::fork_generation.load(std::memory_order_relaxed);
}

/// The calling thread's lane in the service with this id, or null.
[[nodiscard]] Lane* local_lane(uint64_t host_id) noexcept;
/// Binds one; false without memory or where the thread has ended already (the caller keeps the
/// lane).
[[nodiscard]] bool bind_local_lane(uint64_t host_id, Lane& lane) noexcept;

}  // namespace ioweave::service
