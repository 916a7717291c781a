#pragma once

// The auto-tuned constraints of "I/O-aware tasks" (paper 004, sections 3.3 and 4.2.3), by their
// learning phase and objective function.
//
// *Learning.* An epoch is the operations that a constraint c lets run at once, group(c) =
// floor(budget / c) of them (fewer where max_in_flight of the flow or the device says so): the
// first that start under c. When all have ended, their mean time is registered for c and the next
// epoch tries a higher constraint; where fewer come, the epoch waits for more. One that failed or
// was cancelled has no time and is replaced by another.
//   auto                begins at budget / executors and doubles. An epoch whose mean time is more
//                       than half that of the one before ends the learning and is not registered.
//   auto(min,max,delta) begins at min and multiplies by delta, up to max.
// Both end also where the next constraint is above the budget.
//
// *Choosing.* When the learning ends, and whenever operations become ready after that, the
// constraint with the least T(waiting, c) is chosen, of several the highest, and is that of whoever
// waits then:
//   T(n, c) = floor(n / group(c)) * t(c) + (time of the remainder of r = n mod group(c))
// where t(c) is the registered mean time. The paper estimates the remainder without saying how.
// Here r operations take what r at once take by the registry: linear between the groups on either
// side of r, the time of the smallest group below it, and never more than t(c), the time of a full
// group.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/limiter.hpp"

namespace ioweave::policy {

/// For a validated flow. Where it learns is the business of LearningNodes.
class AutoConstraint final : public Limiter {
 public:
  /// Begins with what flow.learned registered, if that fits the budget; else it learns.
  AutoConstraint(const FlowConfig& flow, const DeviceConfig& device);

  [[nodiscard]] Limit limit() const noexcept override { return limit_; }
  [[nodiscard]] uint32_t told_limit() const noexcept override { return told_limit_; }
  void explain(Explanation& out) const override;
  [[nodiscard]] std::string learned() const override;

  [[nodiscard]] bool adapts() const noexcept override { return true; }
  void hear_waiting(uint64_t operations, uint64_t now_ns) override;
  [[nodiscard]] bool is_learning() const noexcept override { return learning_; }
  [[nodiscard]] bool is_epoch_full() const noexcept override;
  /// Until it has lost as many operations as it wants: what fails all the time keeps nobody out.
  [[nodiscard]] bool wants_own_node() const noexcept override;
  [[nodiscard]] EpochId count_start() override;
  void count_end(EpochId epoch, std::optional<double> seconds) override;
  void begin_epoch_again() override;

  /// T(n, c) in seconds, for registry()[index].
  [[nodiscard]] double estimate(uint64_t operations, size_t index) const;

  /// Whether flow.learned can be read; for validation.
  [[nodiscard]] static bool can_read(std::string_view learned);
  /// More epochs than this are refused: the constraint is meant to grow by steps that show.
  static constexpr uint32_t kMostEpochs = 64;
  [[nodiscard]] static uint32_t epochs_of(const Constraint& bounded, double budget_mb_per_s);

 private:
  struct Known {
    double mb_per_s;
    uint32_t group;
    double mean_s;
  };

  [[nodiscard]] uint32_t group(double mb_per_s) const noexcept;
  void set_constraint(double mb_per_s);
  void begin_epoch();
  void end_epoch();
  [[nodiscard]] bool continues(double mean_s) const;
  void remember(std::string why, bool registered);
  void choose(uint64_t waiting, uint64_t now_ns);
  [[nodiscard]] double at_once_s(uint64_t operations) const;

  const Constraint constraint_;
  const double budget_mb_per_s_;
  const int64_t budget_bytes_per_s_;
  const uint32_t most_at_once_;  ///< by the flow, on a node
  const uint32_t most_group_;    ///< by device and flow, where a group counts

  bool learning_ = true;
  double mb_per_s_ = 0;
  Limit limit_;
  uint32_t told_limit_ = 0;

  // The epoch under way.
  EpochId epoch_ = kNoEpoch;
  uint32_t wanted_ = 0;
  uint32_t started_ = 0;  ///< and not lost
  uint32_t ended_ = 0;    ///< of these
  uint32_t lost_ = 0;
  double sum_s_ = 0;

  std::vector<Known> registry_;  ///< by constraint, so by falling group
  std::vector<Explanation::Epoch> epochs_;
  std::deque<Explanation::Choice> choices_;
};

}  // namespace ioweave::policy
