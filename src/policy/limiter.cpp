#include "policy/limiter.hpp"

#include <algorithm>
#include <cmath>

#include "policy/auto_constraint.hpp"
#include "policy/climb.hpp"

namespace ioweave::policy {
namespace {

/// `none` and `fixed`.
class Constant final : public Limiter {
 public:
  Constant(const FlowConfig& flow, const DeviceConfig& device)
      : is_fixed_(flow.constraint.kind == Constraint::Kind::fixed),
        told_(flow.max_in_flight),
        mb_per_s_(is_fixed_ ? flow.constraint.mb_per_s : 0) {
    limit_.at_once = most_at_once(flow.max_in_flight);
    if (is_fixed_ && device.budget_mb_per_s != 0) {  // Else there is nothing to hold a part of.
      limit_.hold_bytes_per_s = constraint_bytes_per_s(mb_per_s_);
      const int64_t fit = budget_bytes_per_s(device.budget_mb_per_s) / limit_.hold_bytes_per_s;
      told_ = static_cast<uint32_t>(std::min<int64_t>(fit, limit_.at_once));
    }
  }

  [[nodiscard]] Limit limit() const noexcept override { return limit_; }
  [[nodiscard]] uint32_t told_limit() const noexcept override { return told_; }

  void explain(Explanation& out) const override {
    out.policy = is_fixed_ ? "fixed" : "none";
    out.phase = is_fixed_ ? Explanation::Phase::fixed : Explanation::Phase::none;
    out.constraint_mb_per_s = mb_per_s_;
  }

 private:
  const bool is_fixed_;
  uint32_t told_;
  const double mb_per_s_;
  Limit limit_;
};

}  // namespace

std::unique_ptr<Limiter> make_limiter(const FlowConfig& flow, const DeviceConfig& device,
                                      Climber* climber) {
  switch (flow.constraint.kind) {
    case Constraint::Kind::auto_unbounded:
    case Constraint::Kind::auto_bounded:
      return std::make_unique<AutoConstraint>(flow, device);
    case Constraint::Kind::climb:
      return std::make_unique<ClimbConstraint>(flow, device, *climber);
    case Constraint::Kind::none:
    case Constraint::Kind::fixed:
      break;
  }
  return std::make_unique<Constant>(flow, device);
}

int64_t budget_bytes_per_s(double mb_per_s) noexcept {
  return std::llround(mb_per_s * kBytesPerMb);
}

int64_t constraint_bytes_per_s(double mb_per_s) noexcept {
  return std::max<int64_t>(1, static_cast<int64_t>(std::floor(mb_per_s * kBytesPerMb)));
}

}  // namespace ioweave::policy
