#pragma once

// Which descriptors are tracked: those of regular files whose open was wrapped.
//
// An array with an entry per descriptor, mapped once and touched as used. A look-up is a bounds
// check and a load; the bound is zero while there is nothing to look up: without a run, after
// stepping aside, and in a forked child that has no segment yet. A descriptor that is closed behind
// our back (by the C library, by a raw system call) leaves a stale entry: what it stands for are
// counters and hints, so that costs accuracy and never correctness.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "calls/preload/process.hpp"
#include "calls/preload/records.hpp"

namespace ioweave::calls {

struct Entry {
  enum Flag : uint32_t {
    engine_reads = 1u << 0,       ///< the engine may make its reads (engine_calls.hpp)
    engine_writes = 1u << 1,      ///< and its writes
    places = 1u << 2,             ///< readable, overlapped: the command follows where it reads
    logs_reads = 1u << 3,         ///< each read is noted in the process's log (read_log.hpp)
    holds_back = 1u << 4,         ///< its writes may be held back, where that is faster
    always_holds_back = 1u << 5,  ///< policy behind: they are, where that is possible
  };
  std::atomic<stats::FileRecord*> record;  ///< null: not tracked
  std::atomic<uint32_t> flags;

  /// Whether it has one of them.
  [[nodiscard]] bool has(uint32_t wanted) const noexcept {
    return (flags.load(std::memory_order_relaxed) & wanted) != 0;
  }
};
static_assert(sizeof(Entry) == 16);  // kDescriptors of them are address space of the program

/// Thread-safe and async-signal-safe, except start().
class DescriptorTable {
 public:
  static constexpr uint32_t kDescriptors = 65536;  ///< higher ones are not tracked

  /// False where there is no memory for it.
  [[nodiscard]] bool start() noexcept;

  /// The entry of a tracked descriptor, or null.
  [[nodiscard]] Entry* find(int fd) noexcept {
    if (static_cast<unsigned>(fd) >= limit_.load(std::memory_order_acquire)) [[unlikely]] {
      return process.unborn() ? find_unborn(fd) : nullptr;
    }
    Entry& entry = entries_[fd];
    // Acquire pairs with put(): who sees the record sees the rest of the entry.
    return entry.record.load(std::memory_order_acquire) != nullptr ? &entry : nullptr;
  }

  /// After a successful open. `said` is the path as the program gave it.
  void opened(int fd, const char* said, int flags, uint64_t ticks) noexcept;
  /// After a successful dup: `to` shares what `from` stands for.
  void duplicated(int from, int to) noexcept;
  /// Before a close. Answers the record, or null where the descriptor was not tracked.
  stats::FileRecord* closing(int fd) noexcept;
  void closing_range(unsigned first, unsigned last) noexcept;

  /// Why the file behind a tracked descriptor is not accelerated.
  void degraded(int fd, stats::Degrade reason) noexcept;
  /// After the status flags of the open file were changed.
  void flags_changed(int fd, int flags) noexcept;

  [[nodiscard]] bool active() const noexcept { return limit_.load(std::memory_order_relaxed) != 0; }
  /// In a child after fork(2): nothing is found until adopt().
  void became_child() noexcept { limit_.store(0, std::memory_order_relaxed); }
  /// In that child once it has a segment: carries the inherited descriptors over to it.
  void adopt() noexcept;
  /// For good: from now on the program is alone with its calls.
  void step_aside() noexcept { limit_.store(0, std::memory_order_relaxed); }

 private:
  [[nodiscard]] Entry* find_unborn(int fd) noexcept;
  [[nodiscard]] bool covers(int fd) const noexcept {
    return static_cast<unsigned>(fd) < kDescriptors && entries_ != nullptr;
  }
  void put(int fd, stats::FileRecord& record, uint32_t flags) noexcept;
  static void release(Entry& entry) noexcept {
    entry.record.store(nullptr, std::memory_order_relaxed);
  }

  std::atomic<uint32_t> limit_{0};
  Entry* entries_ = nullptr;
  std::atomic<uint32_t> highest_{0};  // no descriptor from here on was ever tracked
};

extern DescriptorTable table;

}  // namespace ioweave::calls
