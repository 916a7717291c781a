#pragma once

// The reads of one open descriptor on their way from the program's threads to the prefetcher.
//
// How it works. The program's side is a gate: reads that follow each other at memory speed only
// add up (a few nanoseconds), and the prefetcher hears of them when there is something to decide:
// a slow read, a jump, or enough bytes. Where the position is the descriptor's own, it is asked of
// the kernel at that moment, so dup, fork and the C library may move it as they like. The gate can
// be put to sleep for a number of calls when following the file does not pay.
//
// Nothing here locks or allocates, and only closing waits: a slice in flight holds the open file,
// and with it its locks and its device, beyond close(2).

#include <array>
#include <atomic>
#include <cstdint>

#include "calls/preload/process.hpp"
#include "calls/preload/records.hpp"

namespace ioweave::calls {

/// What the prefetcher hears of a stream.
struct Observation {
  enum class Kind : uint8_t { read, resized, closed };
  Kind kind;
  bool slow;  ///< not at memory speed
  uint16_t stream;
  uint32_t generation;
  uint64_t offset;
  uint64_t bytes;
};

/// Thread-safe. Members marked P are for the prefetcher, the others for the program's threads,
/// which may be in a signal handler.
class alignas(64) Stream {
 public:
  enum class Gate : uint32_t {
    open,
    asleep,            ///< for so many calls
    asleep_until_slow  ///< the same, or until a slow read
  };

  /// After a read of `bytes` > 0 that took `ticks`. `offset`: -1 for the descriptor's position.
  void observe(int64_t offset, uint64_t bytes, uint64_t ticks) noexcept {
    if (followed_.load(std::memory_order_relaxed) == 0 && ticks <= kFastUs * process.ticks_per_us())
        [[likely]] {
      extend_run(offset, bytes);  // nobody cares until a read is slow
    } else {
      observe_closely(offset, bytes, ticks);
    }
  }
  /// Before the descriptor's position is moved.
  void before_seek() noexcept;
  /// The file was cut or extended through this descriptor.
  void resized() noexcept;

  /// P. Looks away for that many calls.
  void sleep(Gate gate, uint32_t calls) noexcept;
  /// P. Lets go of the stream until a read is slow.
  void unfollow() noexcept { followed_.store(0, std::memory_order_relaxed); }
  /// P. Wants to hear after so many bytes even if nothing else happens; implies that the stream is
  /// being followed.
  void notify_every(uint64_t bytes) noexcept;
  /// P. Announces a slice; false where the descriptor is being closed: then there must be none.
  [[nodiscard]] bool begin_slice() noexcept;
  /// P, any of its threads.
  void end_slice() noexcept;

  [[nodiscard]] uint32_t generation() const noexcept {
    return generation_.load(std::memory_order_acquire);  // pairs with StreamPool::open()
  }
  // Constant for the generation.
  int fd = -1;
  uint64_t device_id = 0;
  uint64_t inode = 0;
  stats::FileRecord* record = nullptr;
  Device* device = nullptr;

 private:
  friend class StreamPool;

  /// A read within so many microseconds came from memory, whatever its size.
  static constexpr uint64_t kFastUs = 15;

  void observe_closely(int64_t offset, uint64_t bytes, uint64_t ticks) noexcept;
  /// Adds to the run, or starts a new one; the old one is forgotten.
  void extend_run(int64_t offset, uint64_t bytes) noexcept {
    const bool continues = run_end_.load(std::memory_order_relaxed) == (offset < 0 ? -1 : offset);
    const uint64_t before = continues ? run_bytes_.load(std::memory_order_relaxed) : 0;
    run_bytes_.store(before + bytes, std::memory_order_relaxed);
    run_end_.store(offset < 0 ? -1 : offset + static_cast<int64_t>(bytes),
                   std::memory_order_relaxed);
  }
  [[nodiscard]] static bool is_slow(uint64_t bytes, uint64_t ticks) noexcept;
  [[nodiscard]] bool stays_asleep(Gate gate, bool slow) noexcept;
  void report(bool urgent) noexcept;
  void tell(Observation::Kind kind, uint64_t offset, uint64_t bytes, bool slow,
            bool urgent) noexcept;
  [[nodiscard]] bool wait_for_slices() noexcept;

  // Relaxed: hints. Threads that share a descriptor may garble a run, which costs a wrong guess.
  std::atomic<Gate> gate_{Gate::open};
  std::atomic<uint32_t> calls_to_sleep_{0};
  std::atomic<uint64_t> notify_bytes_{0};
  std::atomic<uint32_t> followed_{0};
  std::atomic<int64_t> run_end_{-1};  // end of a run of explicit offsets; -1: own position
  std::atomic<uint64_t> run_bytes_{0};
  std::atomic<uint32_t> run_slow_{0};
  std::atomic<uint32_t> slow_reads_{0};
  std::atomic<uint32_t> unheard_{0};  // observations since the prefetcher was last woken

  std::atomic<uint32_t> generation_{0};
  std::atomic<uint32_t> slices_{0};  // in flight; a futex word
  std::atomic<uint32_t> closing_{0};
  std::atomic<uint32_t> taken_{0};
};

/// All streams of the process, in static memory: a stale pointer is a wrong hint, never a fault.
/// Thread-safe.
class StreamPool {
 public:
  static constexpr size_t kStreams = 512;

  /// A stream for a descriptor that is worth following, or null where all are taken.
  [[nodiscard]] Stream* open(int fd, const struct stat& status, stats::FileRecord& record,
                             Device* device) noexcept;
  /// Ends it; afterwards no slice touches the descriptor. Waits for those in flight, at most about
  /// a second: a device that hangs must not hang close(2) for good.
  void close(Stream& stream) noexcept;
  /// In a forked child: there is no prefetcher here.
  void forget() noexcept;

  [[nodiscard]] Stream& at(uint16_t number) noexcept { return streams_[number]; }

 private:
  friend class Stream;
  std::array<Stream, kStreams> streams_{};
  std::atomic<uint32_t> hint_{0};
};

extern StreamPool streams;

}  // namespace ioweave::calls
