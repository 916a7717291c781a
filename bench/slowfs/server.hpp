#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>

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

/// What the emulated device can do. Immutable once the file system is mounted.
struct Speed {
  double read_bytes_per_s = 0;   // 0: no limit
  double write_bytes_per_s = 0;  // 0: no limit
  uint64_t latency_ns = 0;       // added to every data request, overlapping with all others
  uint64_t slack_ns = 0;         // see Server::admit
  bool full_duplex = false;      // reads and writes do not delay each other

  enum class Direction { kRead, kWrite };

  /// When a data request that arrived at `arrival_ns` is to be answered. A congestion knee
  /// (efficiency falling with concurrent streams) would scale `service_ns` here.
  uint64_t answer_at(Duplex& budget, Direction direction, uint64_t arrival_ns,
                     uint64_t bytes) const noexcept {
    const bool reading = direction == Direction::kRead;
    const uint64_t service_ns = transfer_ns(bytes, reading ? read_bytes_per_s : write_bytes_per_s);
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
