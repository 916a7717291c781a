#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "ioweave/ioweave.h"
#include "service/request.hpp"

namespace ioweave::service {

/// What became of requests. One writer at a time (the leader of a lane, the thread of a pump) adds
/// by a plain load and store; instances for several say so. Anybody may read.
class Counters {
 public:
  Counters() = default;
  enum class Writers : uint8_t { one, several };
  explicit Counters(Writers writers) noexcept : writers_(writers) {}

  /// The request has completed.
  void count_end(const iow_request& request) noexcept {
    add(completed_, 1);
    if (request.result < 0) {
      add(request.result == -ECANCELED ? cancelled_ : failed_, 1);
      return;
    }
    switch (request.op) {
      case IOW_OP_READ:
      case IOW_OP_READV:
        return add(read_bytes_, static_cast<uint64_t>(request.result));
      case IOW_OP_WRITE:
      case IOW_OP_WRITEV:
        return add(written_bytes_, static_cast<uint64_t>(request.result));
      case IOW_OP_PREFETCH:
        return add(prefetched_bytes_, static_cast<uint64_t>(request.result));
      default:
        return;
    }
  }
  /// The request goes on.
  void count_step(Step step) noexcept {
    if (step != Step::refused) {
      add(step == Step::continued ? continued_ : reissued_, 1);
    }
  }

  void add_to(iow_stats& sum) const noexcept {
    const auto read = [](const std::atomic<uint64_t>& counter) {
      return counter.load(std::memory_order_relaxed);
    };
    sum.completed += read(completed_);
    sum.failed += read(failed_);
    sum.cancelled += read(cancelled_);
    sum.read_bytes += read(read_bytes_);
    sum.written_bytes += read(written_bytes_);
    sum.prefetched_bytes += read(prefetched_bytes_);
    sum.continued += read(continued_);
    sum.reissued += read(reissued_);
  }

 private:
  // Relaxed throughout: sums for people, no other data hangs on them.
  void add(std::atomic<uint64_t>& counter, uint64_t amount) const noexcept {
    if (writers_ == Writers::several) {
      counter.fetch_add(amount, std::memory_order_relaxed);
    } else {
      counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    }
  }

  std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> cancelled_{0};
  std::atomic<uint64_t> read_bytes_{0};
  std::atomic<uint64_t> written_bytes_{0};
  std::atomic<uint64_t> prefetched_bytes_{0};
  std::atomic<uint64_t> continued_{0};
  std::atomic<uint64_t> reissued_{0};
  const Writers writers_ = Writers::one;
};

/// Bytes moved by blocking calls, which have no lane: spread over cache lines, as every thread of
/// the program adds to it.
class BlockingBytes {
 public:
  void add(bool is_read, int64_t result) noexcept {
    if (result > 0) {
      Shard& shard = shards_[shard_of_thread()];
      (is_read ? shard.read : shard.written)
          .fetch_add(static_cast<uint64_t>(result), std::memory_order_relaxed);
    }
  }
  void add_to(iow_stats& sum) const noexcept {
    for (const Shard& shard : shards_) {
      sum.read_bytes += shard.read.load(std::memory_order_relaxed);
      sum.written_bytes += shard.written.load(std::memory_order_relaxed);
    }
  }

 private:
  static constexpr size_t kShards = 16;
  struct alignas(64) Shard {
    std::atomic<uint64_t> read{0};
    std::atomic<uint64_t> written{0};
  };
  static size_t shard_of_thread() noexcept {
    static std::atomic<uint32_t> next{0};
    thread_local constinit uint32_t mine = 0;
    if (mine == 0) {
      mine = next.fetch_add(1, std::memory_order_relaxed) % kShards + 1;
    }
    return mine - 1;
  }
  std::array<Shard, kShards> shards_;
};

}  // namespace ioweave::service
