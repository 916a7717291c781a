#pragma once

// Brings in what the program will read next, while it computes.
//
// How it works. The program's threads only put observations into a ring and, where it matters, wake
// this thread by a futex; they never take a lock, allocate or see the service. The thread starts
// with the first read that looks worth it and ends when there has been nothing to do for a while:
// a process whose main thread has called pthread_exit ends with its last thread, and that must not
// be ours. It owns a planner per stream; each slice is an operation of the device's prefetch flow,
// so the policy decides when it goes. Under `strict` the policy is told the count of the program's
// own calls on the device, and slices wait for their end.
//
//   program thread: Stream::observe -> hear(), wake()          [futex, where this thread sleeps]
//   this thread:    planners -> cached already? -> SliceQueue -> sleeps until the oldest is there

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "calls/preload/slice_queue.hpp"
#include "calls/preload/stream.hpp"

namespace ioweave::calls {

/// Observations on their way: bounded, many producers, one consumer. A producer never waits, also
/// where a signal handler interrupts another one half-way; a full ring drops the hint.
class ObservationRing {
 public:
  /// False where it was dropped.
  bool push(const Observation& observation) noexcept;
  [[nodiscard]] bool pop(Observation& observation) noexcept;
  void reset() noexcept;

 private:
  static constexpr size_t kCells = 256;
  struct Cell {
    std::atomic<uint32_t> turn{0};  // of position p: p / kCells * 2 while free, + 1 when filled
    Observation observation{};
  };
  std::array<Cell, kCells> cells_{};
  std::atomic<uint32_t> head_{0};
  uint32_t tail_ = 0;  // the consumer's
};

class Prefetcher {
 public:
  // ---- For the program's threads: async-signal-safe, except stop() ----

  void hear(const Observation& observation) noexcept { ring_.push(observation); }
  /// Something should be decided now; starts the thread where there is none and it may be started.
  void wake() noexcept;
  [[nodiscard]] bool running() const noexcept {
    return phase_.load(std::memory_order_acquire) == kRunning;  // pairs with start(), retire()
  }

  /// Around a real call on a device whose `prefetching` is set. Tell the stream before the end, or
  /// slices are asked for that the call has just covered.
  void foreground_begin(Device& device) noexcept;
  void foreground_end(Device& device) noexcept;

  /// Ends the thread for good and waits for that, at most about a second.
  void stop() noexcept;

  /// In a child after fork(2): the thread and its service stayed with the parent.
  void became_child() noexcept;

 private:
  static constexpr uint32_t kIdle = 0;
  static constexpr uint32_t kRunning = 1;
  static constexpr uint32_t kFailed = 2;

  struct Followed;
  struct DeviceSizer;
  struct State;

  void start() noexcept;
  void measure_memory() noexcept;
  void notify() noexcept;
  static void* thread_main(void* self);
  void run();
  [[nodiscard]] bool retire(uint32_t seen);

  void drain_ring();
  void hear_one(const Observation& observation);
  void judge(Followed& followed);
  [[nodiscard]] Followed* followed_of(const Observation& observation);

  void collect_slices();
  void fill_windows();
  [[nodiscard]] bool advance(Followed& followed);
  [[nodiscard]] bool submit(Followed& followed, Range range, Slice& slice);
  void collect(Slice& slice);
  void withdraw_slices(uint16_t stream, Range range);
  void refresh_budget();

  ObservationRing ring_;
  std::atomic<uint32_t> phase_{kIdle};  // a futex word for stop()
  std::atomic<uint32_t> wakes_{0};      // a futex word: the thread sleeps on it
  std::atomic<uint32_t> sleeping_{0};
  std::atomic<bool> stopping_{false};
  PrefetchClock clock_;
  std::atomic<uint64_t> available_bytes_{0};  // of memory, as last measured
  std::atomic<uint64_t> memory_measured_ns_{0};
  State* state_ = nullptr;  // the thread's own; handed to its successor through phase_
};

extern Prefetcher prefetcher;

}  // namespace ioweave::calls
