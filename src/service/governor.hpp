#pragma once

// The policy behind a lock, and what passes it by: per device, how many foreground operations are
// on the fast path, which the policy is told as Activity whenever that can change a decision.

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "policy/event_log.hpp"
#include "policy/policy.hpp"
#include "service/request_list.hpp"

namespace ioweave::service {

/// Thread-safe. No system call is made under its lock; what may start is returned as a list for
/// the caller to post.
class Governor {
 public:
  static constexpr uint32_t kMaxDevices = 256;
  static constexpr uint32_t kMaxFlows = 4096;

  /// With device 0 (no limits, strict) and flow 0 (foreground, unconstrained). `log`, unless empty,
  /// is given the policy's event log line by line, under the lock.
  explicit Governor(policy::Recorder::Sink log);

  [[nodiscard]] int64_t add_device(const policy::DeviceConfig& config, std::string& why);
  [[nodiscard]] int64_t add_flow(const policy::FlowConfig& config, std::string& why);

  [[nodiscard]] bool knows(uint32_t flow) const noexcept {
    return flow < flows_known_.load(std::memory_order_acquire);  // pairs with add_flow()
  }
  /// Whether requests of the flow may skip the policy.
  [[nodiscard]] bool direct(uint32_t flow) const noexcept {
    return flows_[flow].direct.load(std::memory_order_relaxed);
  }
  [[nodiscard]] policy::DeviceId device_of(uint32_t flow) const noexcept {
    return flows_[flow].device;
  }

  /// Hands a request to the policy. What may start now, this request or others, is appended.
  void ready(iow_request& request, RequestList& start);
  /// The end of a request the policy started.
  void ended(iow_request& request, RequestList& start);
  /// True if the policy still held the request; it has forgotten it now.
  [[nodiscard]] bool withdraw(iow_request& request, RequestList& start);

  /// Foreground activity on the fast path. begin answers whether it was counted, and only then is
  /// end owed.
  [[nodiscard]] bool begin_activity(policy::DeviceId device) noexcept {
    Device& known = devices_[device];
    if (!known.tracked.load(std::memory_order_relaxed)) {
      return false;
    }
    known.in_flight.fetch_add(1, std::memory_order_seq_cst);
    return true;
  }
  void end_activity(policy::DeviceId device, RequestList& start) noexcept {
    Device& known = devices_[device];
    // seq_cst against tell(): either we see that lower classes wait, or it sees our zero.
    if (known.in_flight.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
        known.lower_waiting.load(std::memory_order_seq_cst)) {
      activity_ceased(device, start);
    }
  }

  [[nodiscard]] uint64_t held() const noexcept { return held_.load(std::memory_order_relaxed); }

 private:
  struct alignas(64) Device {
    std::atomic<uint32_t> in_flight{0};  ///< on the fast path
    std::atomic<bool> tracked{false};    ///< has lower classes that must yield
    std::atomic<bool> lower_waiting{false};
    uint32_t told = 0;  ///< in_flight as the policy knows it (under the lock)
  };
  struct Flow {
    std::atomic<bool> direct{false};
    policy::DeviceId device = 0;
  };

  void activity_ceased(policy::DeviceId device, RequestList& start) noexcept;
  void tell(const policy::Event& event, policy::DeviceId device, uint64_t now, RequestList& start);
  void settle(policy::DeviceId device, uint64_t now, RequestList& start);
  void tell_activity(policy::DeviceId device, uint64_t now);
  void carry_out(uint64_t now, RequestList& start);
  void hear(const policy::Event& event, uint64_t now) {
    if (recorder_) {
      recorder_->on(event, now, decisions_);
    } else {
      policy_.on(event, now, decisions_);
    }
  }
  void refresh_direct_flows();

  std::mutex lock_;
  policy::Policy policy_;
  std::optional<policy::Recorder> recorder_;
  std::vector<policy::Decision> decisions_;
  uint32_t devices_known_ = 0;
  std::atomic<uint32_t> flows_known_{0};
  std::atomic<uint64_t> held_{0};
  std::array<Device, kMaxDevices> devices_;
  std::array<Flow, kMaxFlows> flows_;
};

}  // namespace ioweave::service
