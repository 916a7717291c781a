#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "policy/explanation.hpp"
#include "policy/policy.hpp"

namespace ioweave::policy {

class Climber;

/// What a flow may do on one node. Bandwidth is counted in whole bytes per second: sums and
/// differences of doubles drift, and a budget that leaks a bit per operation is a stuck queue after
/// 10^6 of them.
struct Limit {
  int64_t hold_bytes_per_s = 0;  ///< what one operation holds while it runs
  uint32_t at_once = std::numeric_limits<uint32_t>::max();  ///< operations running on the node
  bool operator==(const Limit&) const = default;
};

/// An epoch of learning; operations remember in which they started.
using EpochId = uint32_t;
inline constexpr EpochId kNoEpoch = 0;

/// How a kind of constraint arrives at a flow's limit. One object per flow. The scheduler tells it
/// what happens, asks for the limit after that, and acts on a change; an operation remembers what
/// it took. `none` and `fixed` never change and are told nothing. One thread at a time.
class Limiter {
 public:
  virtual ~Limiter() = default;
  Limiter(const Limiter&) = delete;
  Limiter& operator=(const Limiter&) = delete;

  [[nodiscard]] virtual Limit limit() const noexcept = 0;
  /// What SetLimit says: operations at once, 0 for any number.
  [[nodiscard]] virtual uint32_t told_limit() const noexcept = 0;
  virtual void explain(Explanation& out) const = 0;
  /// For FlowConfig::learned of a later run; empty where nothing is known.
  [[nodiscard]] virtual std::string learned() const { return {}; }

  /// Whether the limit may change. Only then the rest is called.
  [[nodiscard]] virtual bool adapts() const noexcept { return false; }

  /// Hears how many operations of the flow wait for each node (on a shared device: for the device).
  /// One of them became ready just now, or the learning has ended while they waited.
  virtual void hear_waiting(uint64_t /*operations*/, uint64_t /*now_ns*/) {}

  // Learning in epochs. Where an operation of the flow counts (on its learning node, or anywhere on
  // a shared device), count_start() says for which epoch, and its end is told with that.

  [[nodiscard]] virtual bool is_learning() const noexcept { return false; }
  /// No more operations belong to this epoch; those that would be counted wait for the next.
  [[nodiscard]] virtual bool is_epoch_full() const noexcept { return false; }
  /// Whether the epoch is worth a node of its own.
  [[nodiscard]] virtual bool wants_own_node() const noexcept { return false; }
  [[nodiscard]] virtual EpochId count_start() { return kNoEpoch; }
  /// `seconds` is empty where it failed or was cancelled.
  virtual void count_end(EpochId /*epoch*/, std::optional<double> /*seconds*/) {}
  /// The node where it counted is gone.
  virtual void begin_epoch_again() {}

 protected:
  Limiter() = default;
};

/// The limiter of a flow's constraint. The flow has been validated. `climber` is that of the
/// device, for `climb`.
[[nodiscard]] std::unique_ptr<Limiter> make_limiter(const FlowConfig& flow,
                                                    const DeviceConfig& device, Climber* climber);

/// MB/s (10^6 bytes) as bytes per second. A budget is rounded to the nearest byte and a constraint
/// down, so that n operations of budget / n always fit.
[[nodiscard]] int64_t budget_bytes_per_s(double mb_per_s) noexcept;
[[nodiscard]] int64_t constraint_bytes_per_s(double mb_per_s) noexcept;

inline constexpr double kBytesPerMb = 1e6;

/// Bounds of budgets and constraints: one byte per second, and what still adds up without overflow.
inline constexpr double kLeastMbPerS = 1e-6;
inline constexpr double kMostMbPerS = 1e12;

/// Flow::max_in_flight with 0 for unlimited as a number to compare with.
[[nodiscard]] inline uint32_t most_at_once(uint32_t max_in_flight) noexcept {
  return max_in_flight == 0 ? Limit{}.at_once : max_in_flight;
}

}  // namespace ioweave::policy
