#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "policy/policy.hpp"

namespace ioweave::policy {

/// What a flow may do on one node. Bandwidth is counted in whole bytes per second: sums and
/// differences of doubles drift, and a budget that leaks a bit per operation is a stuck queue after
/// 10^6 of them.
struct Limit {
  int64_t hold_bytes_per_s = 0;  ///< what one operation holds while it runs
  uint32_t at_once = std::numeric_limits<uint32_t>::max();  ///< operations running on the node
};

/// How a kind of constraint arrives at a flow's limit. One object per flow, asked when the flow is
/// first used on a node; the scheduler keeps the answer with that (flow, node) and an operation
/// remembers what it took, so an answer may differ from one operation to the next. One thread at a
/// time.
class Limiter {
 public:
  virtual ~Limiter() = default;
  Limiter(const Limiter&) = delete;
  Limiter& operator=(const Limiter&) = delete;

  [[nodiscard]] virtual Limit limit() const noexcept = 0;

 protected:
  Limiter() = default;
};

/// The limiter of a flow's constraint. The flow has been validated.
[[nodiscard]] std::unique_ptr<Limiter> make_limiter(const FlowConfig& flow);

/// MB/s (10^6 bytes) as bytes per second. A budget is rounded to the nearest byte and a constraint
/// down, so that n operations of budget / n always fit.
[[nodiscard]] int64_t budget_bytes_per_s(double mb_per_s) noexcept;
[[nodiscard]] int64_t constraint_bytes_per_s(double mb_per_s) noexcept;

/// Bounds of budgets and constraints: one byte per second, and what still adds up without overflow.
inline constexpr double kLeastMbPerS = 1e-6;
inline constexpr double kMostMbPerS = 1e12;

}  // namespace ioweave::policy
