#pragma once

// The file records of this process's segment.
//
// Looked up by (device, inode, last part of the path) in an open-addressing index in private
// memory; an inode number alone is reused as soon as a file is removed. Everything is lock-free
// and async-signal-safe: open(2) may be called from a signal handler.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <sys/stat.h>

#include "base/clock.hpp"
#include "stats/segment.hpp"

namespace ioweave::calls {

/// Thread-safe.
class Records {
 public:
  /// Takes a fresh, zeroed segment into use. False where its memory cannot be had.
  bool attach(stats::Segment& segment, const config::RunConfig& config) noexcept;

  /// The record of an open regular file. Never null once attached: when all are taken, the common
  /// record 0. `path` is what the program said; the record keeps what /proc says.
  [[nodiscard]] stats::FileRecord* of_file(int fd, const char* path,
                                           const struct stat& status) noexcept;
  /// The counterpart of a record of the parent's segment in a forked child.
  [[nodiscard]] stats::FileRecord* inherit(const stats::FileRecord& theirs) noexcept;

  /// The series of a record; null where its memory cannot be had. `ticks`: when the call began that
  /// is to be noted.
  [[nodiscard]] stats::FileSeries* series_of(stats::FileRecord& record, uint64_t ticks) noexcept {
    const uint32_t number = record.series.load(std::memory_order_acquire);  // pairs with claim
    return number != 0 ? &segment_->series[number] : find_series(record, ticks);
  }

 private:
  struct Key {
    uint64_t device;
    uint64_t inode;
    const char* path;
  };
  void forget() noexcept;
  [[nodiscard]] stats::FileRecord* find_or_add(int fd, const Key& key) noexcept;
  [[nodiscard]] uint32_t add(int fd, const Key& key) noexcept;
  [[nodiscard]] bool populate(uint32_t record) noexcept;
  [[nodiscard]] stats::FileSeries* find_series(stats::FileRecord& record, uint64_t ticks) noexcept;
  [[nodiscard]] uint32_t claim_series(uint64_t ticks) noexcept;
  [[nodiscard]] bool begin_series(uint32_t number, uint64_t ticks) noexcept;
  [[nodiscard]] stats::FileSeries* common_series(uint64_t ticks) noexcept;
  void name(stats::FileRecord& record, const char* path, const char* said) const noexcept;
  void name_with_stack(stats::FileRecord& record, int fd, const char* said) const noexcept;

  static constexpr size_t kIndex = 4096;  // a power of two, several times Segment::kFiles

  stats::Segment* segment_ = nullptr;
  const config::RunConfig* config_ = nullptr;
  std::atomic<uint32_t> populated_{0};  // records whose memory is certain
  enum : uint32_t { kCommonUnused, kCommonRefused, kCommonBegun };
  std::atomic<uint32_t> common_{kCommonUnused};  // the series of the files without one
  std::atomic<uint32_t> index_[kIndex] = {};     // record number + 1
};

extern Records records;

/// The first reason stays.
inline void degrade(stats::FileRecord& record, stats::Degrade reason) noexcept {
  auto none = static_cast<uint32_t>(stats::Degrade::none);
  record.degrade.compare_exchange_strong(none, static_cast<uint32_t>(reason),
                                         std::memory_order_relaxed);
}

/// Whether the calling thread may add to the record's owned counters. The first thread to come
/// owns it. A thread is named by its control block; one that gets the block of an ended thread is
/// a rightful heir, since the two are never alive together.
[[nodiscard]] inline bool owns(stats::FileRecord& record) noexcept {
  const auto me = reinterpret_cast<uint64_t>(__builtin_thread_pointer());
  uint64_t owner = record.owner.load(std::memory_order_relaxed);
  if (owner == 0) [[unlikely]] {
    return record.owner.compare_exchange_strong(owner, me, std::memory_order_relaxed);
  }
  return owner == me;
}

/// Notes one call: a result below 0 is an error. Returns whether the calling thread owns the
/// record.
inline bool count_call(stats::FileRecord& record, stats::CallClass call, int64_t result,
                       uint64_t ticks) noexcept {
  const bool owned = owns(record);
  stats::CallCounters& counters = record.call[static_cast<unsigned>(call)];
  counters.calls.add(1, owned);
  counters.ticks.add(ticks, owned);
  if (result > 0) {
    counters.bytes.add(static_cast<uint64_t>(result), owned);
  } else if (result < 0) [[unlikely]] {
    counters.errors.add(1, owned);
  }
  return owned;
}

}  // namespace ioweave::calls
