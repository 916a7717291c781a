#pragma once

#include <atomic>
#include <cerrno>
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

}  // namespace ioweave::service
