#pragma once

// What the policy counts for `climb`, on one node, or on all where the device is shared.

#include <algorithm>
#include <cstdint>

#include "policy/backlog.hpp"
#include "policy/event.hpp"

namespace ioweave::policy {

/// What operations of a device's flows with `climb` did since the last sample.
struct Climbing {
  uint32_t running = 0;        ///< at its end
  double at_once = 0;          ///< ran meanwhile, mean over the time
  bool limit_reached = false;  ///< the limit, not a lack of work, held operations back all the time
  uint32_t ended = 0;          ///< well
  uint64_t ended_bytes = 0;
};

class ClimbingCount {
 public:
  [[nodiscard]] uint32_t running() const noexcept { return running_; }
  /// `busy_since_ns`: since when operations with `climb` wait or run on the device. What was before
  /// is no part of a sample.
  void started(uint64_t now_ns, uint64_t busy_since_ns) noexcept {
    begin(busy_since_ns);
    pass(now_ns);
    ++running_;
  }
  void left(uint64_t now_ns) noexcept {
    pass(now_ns);
    --running_;
  }
  void ended(uint64_t bytes) noexcept {
    ++ended_;
    ended_bytes_ += bytes;
  }

  /// What a sample is of; the next one begins here. Operations of the device wait for this node, or
  /// `anywhere`.
  [[nodiscard]] Climbing end_sample(const Sample& sample, const Backlog& here,
                                    const Backlog& anywhere, uint64_t busy_since_ns,
                                    uint64_t now_ns) noexcept {
    begin(busy_since_ns);
    pass(now_ns);
    const double counted_s = static_cast<double>(now_ns - since_ns_) * 1e-9;
    const auto length_ns = static_cast<uint64_t>(sample.seconds * 1e9);
    // The driver may have begun to measure later.
    const uint64_t begin_ns = std::max(since_ns_, now_ns - std::min(now_ns, length_ns));
    const bool waited = here.waits_since(begin_ns) || anywhere.waits_since(begin_ns);
    const Climbing seen{.running = running_,
                        .at_once = counted_s > 0 ? operation_s_ / counted_s : 0,
                        .limit_reached = counted_s > 0 && waited,
                        .ended = ended_,
                        .ended_bytes = ended_bytes_};
    count_from(now_ns);
    return seen;
  }

 private:
  void begin(uint64_t busy_since_ns) noexcept {
    if (busy_since_ns > since_ns_) {
      count_from(busy_since_ns);
    }
  }
  void count_from(uint64_t ns) noexcept {
    since_ns_ = counted_ns_ = ns;
    operation_s_ = 0;
    ended_ = 0;
    ended_bytes_ = 0;
  }
  void pass(uint64_t now_ns) noexcept {
    operation_s_ += running_ * (static_cast<double>(now_ns - counted_ns_) * 1e-9);
    counted_ns_ = now_ns;
  }

  uint32_t running_ = 0;
  uint32_t ended_ = 0;
  uint64_t ended_bytes_ = 0;
  double operation_s_ = 0;  ///< running, integrated
  uint64_t counted_ns_ = 0;
  uint64_t since_ns_ = 0;  ///< the last sample, or when the device became busy
};

}  // namespace ioweave::policy
