#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <vector>

namespace slowfs {

/// One storage server that transfers one request after another, at any speed, in virtual time:
/// it owns nothing but the moment at which it is next free. It banks no credit while it idles, as
/// a token bucket does, so that a burst after a pause is no faster than any other request.
///
/// Thread-safe: requests are ordered by whoever wins the compare-exchange. Immovable.
class Server {
 public:
  /// Queues a request that arrived at `arrival_ns` and needs the server for `service_ns`; answers
  /// when its last byte leaves the server. `slack_ns` forgives that much idle time before the
  /// arrival: the part of the gap that the emulation, not the client, has caused. Then, and only
  /// then, may the answer lie in the past.
  uint64_t admit(uint64_t arrival_ns, uint64_t service_ns, uint64_t slack_ns) noexcept {
    const uint64_t earliest = arrival_ns - std::min(arrival_ns, slack_ns);
    uint64_t free_at = next_free_ns_.load();
    uint64_t done_at;
    do {
      done_at = std::max(free_at, earliest) + service_ns;
    } while (!next_free_ns_.compare_exchange_weak(free_at, done_at));
    return done_at;
  }

 private:
  std::atomic<uint64_t> next_free_ns_{0};
};

/// The two ways through one budget. Half duplex sends both through `reads`.
struct Duplex {
  Server reads;
  Server writes;
};

/// How many files use the device at a moment. A file counts from the arrival of a request until
/// kLinger after its answer, as a program needs a moment between one request and the next; or until
/// it is closed. Thread-safe by a mutex.
class Streams {
 public:
  static constexpr uint64_t kLinger_ns = 10'000'000;

  /// Files in use at `arrival_ns`, `file` among them; answered() must follow.
  unsigned count(const void* file, uint64_t arrival_ns) {
    const std::lock_guard lock(mutex_);
    std::erase_if(used_, [&](const Use& use) { return use.until_ns < arrival_ns; });
    const bool known =
        std::any_of(used_.begin(), used_.end(), [&](const Use& use) { return use.file == file; });
    if (!known) used_.push_back({file, arrival_ns});
    return static_cast<unsigned>(used_.size());
  }

  /// The request will be answered then.
  void answered(const void* file, uint64_t at_ns) {
    const std::lock_guard lock(mutex_);
    for (Use& use : used_) {
      if (use.file == file) use.until_ns = std::max(use.until_ns, at_ns + kLinger_ns);
    }
  }

  /// Nothing more comes, unless it is open elsewhere; the requests in the device go on.
  void closed(const void* file, uint64_t now_ns) {
    const std::lock_guard lock(mutex_);
    std::erase_if(used_, [&](const Use& use) {
      return use.file == file && use.until_ns <= now_ns + kLinger_ns;
    });
  }

 private:
  struct Use {
    const void* file;
    uint64_t until_ns;
  };

  std::mutex mutex_;
  std::vector<Use> used_;
};

/// The part of its bandwidth that a device gives to a number of streams together: points joined by
/// straight lines, the first and the last one going on to both sides.
class Efficiency {
 public:
  struct Point {
    double streams;
    double part;
  };

  Efficiency() = default;
  explicit Efficiency(std::vector<Point> points) : points_(std::move(points)) {}

  [[nodiscard]] bool is_even() const noexcept { return points_.empty(); }

  [[nodiscard]] double of(unsigned streams) const noexcept {
    if (is_even()) return 1;
    const auto after = std::find_if(points_.begin(), points_.end(),
                                    [&](const Point& point) { return point.streams >= streams; });
    if (after == points_.begin()) return after->part;
    if (after == points_.end()) return points_.back().part;
    const Point& before = *(after - 1);
    const double way = (streams - before.streams) / (after->streams - before.streams);
    return before.part + way * (after->part - before.part);
  }

 private:
  std::vector<Point> points_;  // by ascending streams, each part above 0
};

/// What the emulated device can do. Immutable once the file system is mounted.
struct Speed {
  double read_bytes_per_s = 0;   // 0: no limit
  double write_bytes_per_s = 0;  // 0: no limit
  uint64_t latency_ns = 0;       // added to every data request, overlapping with all others
  uint64_t slack_ns = 0;         // see Server::admit
  bool full_duplex = false;      // reads and writes do not delay each other
  Efficiency efficiency = {};    // by the number of streams

  enum class Direction { kRead, kWrite };

  /// When a data request that arrived at `arrival_ns`, while `streams` used the device, is to be
  /// answered.
  uint64_t answer_at(Duplex& budget, Direction direction, uint64_t arrival_ns, uint64_t bytes,
                     unsigned streams) const noexcept {
    const bool reading = direction == Direction::kRead;
    const double bytes_per_s = reading ? read_bytes_per_s : write_bytes_per_s;
    const uint64_t service_ns = transfer_ns(bytes, bytes_per_s * efficiency.of(streams));
    Server& server = reading || !full_duplex ? budget.reads : budget.writes;
    const uint64_t sent_at = server.admit(arrival_ns, service_ns, slack_ns);
    return std::max(sent_at, arrival_ns) + latency_ns;
  }

 private:
  static uint64_t transfer_ns(uint64_t bytes, double bytes_per_s) noexcept {
    if (bytes_per_s <= 0) return 0;
    return static_cast<uint64_t>(std::llround(static_cast<double>(bytes) * 1e9 / bytes_per_s));
  }
};

}  // namespace slowfs
