// The steady path of a policy allocates nothing.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "virtual_time.hpp"

namespace {
std::atomic<uint64_t> allocations{0};  // seq_cst: only the counting matters.
}  // namespace

// Out of line: inlined, GCC 12 takes malloc and operator delete for a mismatched pair.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) {
    return memory;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace ioweave::policy {
namespace {

using namespace testing_support;

/// Keeps `depth` operations ready or running; ids never repeat, as with addresses of a large pool.
class Load {
 public:
  Load(const DeviceConfig& device, uint32_t depth) : depth_(depth) {
    std::string why;
    EXPECT_EQ(policy_.add_device(device, why), 0) << why;
    for (unsigned i = 0; i < 12; ++i) {
      FlowConfig flow{"flow", 0, static_cast<Class>(i % kClasses), {}, i % 4 == 3 ? 2u : 0u};
      if (device.budget_mb_per_s != 0 && i % 2 == 0) {
        flow.constraint = fixed(device.budget_mb_per_s / (2 + i));
      }
      EXPECT_EQ(policy_.add_flow(flow, why), i) << why;
    }
    for (NodeId node = 1; node < 3; ++node) {
      policy_.on(NodeUp{node}, now_ns_, started_);
    }
    started_.reserve(2 * depth);
  }

  void run(uint64_t operations) {
    for (const uint64_t end = next_ + operations; next_ < end; ++next_) {
      const NodeId node = next_ % 4 == 3 ? kAnyNode : static_cast<NodeId>(next_ % 4);
      policy_.on(Ready{next_ * 64, static_cast<FlowId>(next_ % 12), node, 4096}, ++now_ns_,
                 started_);
      while (policy_.waiting() + policy_.running() >= depth_) {
        finish_one();
      }
    }
  }

 private:
  void finish_one() {
    ASSERT_LT(ended_, started_.size());
    const OperationId id = std::get<Start>(started_[ended_++]).operation;
    if (ended_ >= depth_) {
      started_.erase(started_.begin(), started_.begin() + static_cast<ptrdiff_t>(ended_));
      ended_ = 0;
    }
    policy_.on(Started{id}, ++now_ns_, started_);
    policy_.on(Finished{id, 1e-3, 4096}, ++now_ns_, started_);
  }

  Policy policy_;
  const uint32_t depth_;
  uint64_t now_ns_ = 0;
  uint64_t next_ = 0;
  size_t ended_ = 0;
  std::vector<Decision> started_;
};

class PolicySteadyState : public ::testing::TestWithParam<Scheduling> {};

TEST_P(PolicySteadyState, AllocatesNothingContendedOrNot) {
  DeviceConfig contended = device_with_budget(100, GetParam());
  contended.max_in_flight = 8;
  for (const DeviceConfig& config : {device(GetParam()), contended, shared(contended)}) {
    Load load(config, 500);
    load.run(5000);
    const uint64_t before = allocations;
    load.run(20'000);
    EXPECT_EQ(allocations - before, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Policy, PolicySteadyState,
                         ::testing::Values(Scheduling::none, Scheduling::strict,
                                           Scheduling::weighted));

}  // namespace
}  // namespace ioweave::policy
