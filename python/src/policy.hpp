#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "module.hpp"
#include "policy/event_log.hpp"
#include "policy/policy.hpp"

namespace ioweave::python {

/// One thread at a time, as the policy: a second one, or the log calling back, is refused by
/// std::runtime_error. So it is with the simulations that ask the policy.
class Policy {
 public:
  /// The policy and its simulations are between events only outside of this.
  class Use {
   public:
    explicit Use(Policy& policy);
    ~Use() { in_use_.store(false, std::memory_order_release); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    std::atomic<bool>& in_use_;
  };

  explicit Policy(nb::object log);

  int64_t add_device(const std::string& name, const std::string& scope, double budget_mb_per_s,
                     uint32_t max_in_flight, const std::string& scheduling,
                     const std::array<uint32_t, policy::kClasses>& weights, bool everywhere,
                     uint32_t begins_at);
  int64_t add_flow(const std::string& name, policy::DeviceId device, const std::string& priority,
                   const std::string& constraint, uint32_t max_in_flight,
                   const std::string& learned);

  /// An event from Python: nb::value_error where the policy does not accept it.
  nb::list hear(const policy::Event& event, uint64_t now_ns);
  /// One that is known to be acceptable, of who has a Use.
  void on(const policy::Event& event, uint64_t now_ns, std::vector<policy::Decision>& out);

  /// nb::value_error where there is no such device.
  bool has(policy::NodeId node, policy::DeviceId device);
  /// (waiting, running); nb::value_error where there is no such flow or node.
  std::pair<uint64_t, uint64_t> flow_counts(policy::FlowId flow);
  uint64_t running_on(policy::NodeId node);
  bool needs_samples(policy::DeviceId device);
  /// JSON, as policy::to_json(); nb::value_error where there is no such flow.
  std::string explain(policy::FlowId flow);
  std::string learned(policy::FlowId flow);

  template <class Integer>
  Integer ask(Integer (policy::Policy::*question)() const) {
    const Use use(*this);
    return (policy_.*question)();
  }
  [[nodiscard]] const policy::Policy& core() const { return policy_; }
  /// nb::value_error where there is no such flow or device; of who has a Use.
  void check_flow(policy::FlowId flow) const;
  void check_device(policy::DeviceId device) const;

  // For the garbage collector: the log may lead back to whoever holds the policy.
  [[nodiscard]] PyObject* log() const { return log_.ptr(); }
  void forget_log() { log_ = nb::none(); }

 private:
  void tell(std::string_view line);

  nb::object log_;
  policy::Policy policy_;
  std::optional<policy::Recorder> recorder_;
  std::vector<policy::Decision> decisions_;  ///< reused
  std::atomic<bool> in_use_ = false;
};

}  // namespace ioweave::python
