#include "policy/limiter.hpp"

#include <algorithm>
#include <cmath>

namespace ioweave::policy {
namespace {

constexpr double kBytesPerMb = 1e6;

uint32_t at_once(const FlowConfig& flow) {
  return flow.max_in_flight == 0 ? Limit{}.at_once : flow.max_in_flight;
}

class NoConstraint final : public Limiter {
 public:
  explicit NoConstraint(const FlowConfig& flow) : limit_{0, at_once(flow)} {}
  [[nodiscard]] Limit limit() const noexcept override { return limit_; }

 private:
  const Limit limit_;
};

class FixedConstraint final : public Limiter {
 public:
  explicit FixedConstraint(const FlowConfig& flow)
      : limit_{constraint_bytes_per_s(flow.constraint.mb_per_s), at_once(flow)} {}
  [[nodiscard]] Limit limit() const noexcept override { return limit_; }

 private:
  const Limit limit_;
};

}  // namespace

std::unique_ptr<Limiter> make_limiter(const FlowConfig& flow) {
  switch (flow.constraint.kind) {
    case Constraint::Kind::fixed:
      return std::make_unique<FixedConstraint>(flow);
    case Constraint::Kind::none:
      break;
  }
  return std::make_unique<NoConstraint>(flow);
}

int64_t budget_bytes_per_s(double mb_per_s) noexcept {
  return std::llround(mb_per_s * kBytesPerMb);
}

int64_t constraint_bytes_per_s(double mb_per_s) noexcept {
  return std::max<int64_t>(1, static_cast<int64_t>(std::floor(mb_per_s * kBytesPerMb)));
}

}  // namespace ioweave::policy
