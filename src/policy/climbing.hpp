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
  void started(uint64_t now_ns) noexcept {
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
                                    const Backlog& anywhere, uint64_t now_ns) noexcept {
    pass(now_ns);
    const auto length_ns = static_cast<uint64_t>(sample.seconds * 1e9);
    // The driver may have begun to measure later than at the last sample.
    const uint64_t begin_ns = std::max(sampled_ns_, now_ns - std::min(now_ns, length_ns));
    const Climbing seen{
        .running = running_,
        .at_once = operation_s_ / sample.seconds,
        .limit_reached = here.waits_since(begin_ns) || anywhere.waits_since(begin_ns),
        .ended = ended_,
        .ended_bytes = ended_bytes_};
    sampled_ns_ = now_ns;
    operation_s_ = 0;
    ended_ = 0;
    ended_bytes_ = 0;
    return seen;
  }

 private:
  void pass(uint64_t now_ns) noexcept {
    operation_s_ += running_ * (static_cast<double>(now_ns - counted_ns_) * 1e-9);
    counted_ns_ = now_ns;
  }

  uint32_t running_ = 0;
  uint32_t ended_ = 0;
  uint64_t ended_bytes_ = 0;
  double operation_s_ = 0;  ///< running, integrated since the last sample
  uint64_t counted_ns_ = 0;
  uint64_t sampled_ns_ = 0;
};

}  // namespace ioweave::policy
