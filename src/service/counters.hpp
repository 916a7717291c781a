#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "ioweave/ioweave.h"

namespace ioweave::service {

/// What became of requests. Each instance has one writer at a time (the leader of a lane, the
/// thread of a pump), so an addition is a plain load and store; anybody may read.
struct Counters {
  // Relaxed throughout: sums for people, no other data hangs on them.
  std::atomic<uint64_t> completed{0};
  std::atomic<uint64_t> failed{0};
  std::atomic<uint64_t> cancelled{0};
  std::atomic<uint64_t> read_bytes{0};
  std::atomic<uint64_t> written_bytes{0};
  std::atomic<uint64_t> prefetched_bytes{0};
  std::atomic<uint64_t> continued{0};
  std::atomic<uint64_t> reissued{0};

  static void add(std::atomic<uint64_t>& counter, uint64_t amount) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  void completion(const iow_request& request) noexcept {
    add(completed, 1);
    if (request.result < 0) {
      add(request.result == -ECANCELED ? cancelled : failed, 1);
      return;
    }
    switch (request.op) {
      case IOW_OP_READ:
      case IOW_OP_READV:
        return add(read_bytes, static_cast<uint64_t>(request.result));
      case IOW_OP_WRITE:
      case IOW_OP_WRITEV:
        return add(written_bytes, static_cast<uint64_t>(request.result));
      case IOW_OP_PREFETCH:
        return add(prefetched_bytes, static_cast<uint64_t>(request.result));
      default:
        return;
    }
  }

  void add_to(iow_stats& sum) const noexcept {
    const auto read = [](const std::atomic<uint64_t>& counter) {
      return counter.load(std::memory_order_relaxed);
    };
    sum.completed += read(completed);
    sum.failed += read(failed);
    sum.cancelled += read(cancelled);
    sum.read_bytes += read(read_bytes);
    sum.written_bytes += read(written_bytes);
    sum.prefetched_bytes += read(prefetched_bytes);
    sum.continued += read(continued);
    sum.reissued += read(reissued);
  }
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
