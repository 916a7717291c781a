#pragma once

// Appends the reads of this process to its log (stats/read_log.hpp). Everything is lock-free and
// async-signal-safe, and no descriptor stays open.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stats/read_log.hpp"

namespace ioweave::calls {

struct Entry;

/// Thread-safe, except create(). Constant-initialised.
class ReadLogWriter {
 public:
  /// Makes and maps the file. Returns false if that is not possible: then nothing is noted.
  bool create(const char* path) noexcept;

  /// In a child after fork(2): the log is its parent's.
  void forget() noexcept { log_.store(nullptr, std::memory_order_relaxed); }

  /// Notes a read of `bytes` > 0 in the file of this record. errno stays as it is.
  void note(uint32_t file, uint64_t offset, uint64_t bytes) noexcept;

 private:
  static constexpr size_t kPartReads = 2048;  // 64 KiB, whose memory is made sure of at once
  static constexpr size_t kParts = stats::ReadLog::kReads / kPartReads;
  enum Part : uint8_t { kUnknown, kUsable, kRefused };

  [[nodiscard]] bool is_usable(stats::ReadLog& log, uint64_t slot) noexcept;

  std::atomic<stats::ReadLog*> log_{nullptr};
  std::atomic<uint8_t> parts_[kParts] = {};
};

extern ReadLogWriter read_log;

/// Notes what a call on `fd` has read: `bytes` > 0 from `offset` on, or, if that is negative, up to
/// the position that the descriptor has now. (Another thread that uses the same description may
/// have moved it meanwhile: then the noted place is wrong, which costs a hint.)
void log_read(const Entry& entry, int fd, int64_t offset, int64_t bytes) noexcept;

}  // namespace ioweave::calls
