#pragma once

// The driver of the policy core in a process: whoever wants to move bytes asks here, and reports
// the end. What an operation is, and how it is carried out, is its executor's business.
//
// Operations that bypass the policy count, too: the gate counts the foreground operations of the
// fast path for each device, and reports Activity to the policy whenever that can change a
// decision.
//
// Flows with `climb` need the device's throughput. The gate takes it from the bytes that operations
// report at their ends, which needs no thread and no system call. Whoever measures the device
// itself adds it with `is_measured`, and reports its throughput by sample().

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "policy/event_log.hpp"
#include "policy/id_map.hpp"
#include "policy/policy.hpp"
#include "policy/pool.hpp"

namespace ioweave::gate {

using policy::OperationId;

/// Carries out operations that had to wait.
class Executor {
 public:
  /// Starts `operation`, as it was given to admit(). Its end must then be reported. Called
  /// once, on the thread whose call made room, without a lock of the gate: it may call the gate.
  virtual void start(void* operation) noexcept = 0;

 protected:
  ~Executor() = default;
};

/// A request to start an operation.
struct Asking {
  Executor& executor;
  void* operation;  ///< for the executor
  policy::FlowId flow;
  uint64_t bytes;  ///< the bytes to move
};

/// A flow as it is now.
struct FlowState {
  policy::Counts operations;
  uint64_t moved_bytes = 0;  ///< by its operations that ended
  uint32_t limit = 0;        ///< operations at once that the constraint allows now; 0: any number
};

/// Thread-safe. No system call is made, and no executor called, under its lock.
class Gate {
 public:
  static constexpr uint32_t kMaxDevices = 256;
  static constexpr uint32_t kMaxFlows = 4096;
  /// No operation.
  static constexpr OperationId kNone = 0;

  /// Makes device 0 (no limits, strict) and flow 0 (foreground, unconstrained). `log`, unless
  /// empty, gets the policy's event log line by line, under the lock.
  explicit Gate(policy::Recorder::Sink log);

  /// Returns the id, or -EINVAL with the reason in `why`. `is_measured`: sample() reports the
  /// throughput of the device, and the bytes that operations report are ignored.
  [[nodiscard]] int64_t add_device(const policy::DeviceConfig& config, std::string& why,
                                   bool is_measured = false);
  [[nodiscard]] int64_t add_flow(const policy::FlowConfig& config, std::string& why);
  /// As add_device() and add_flow(), but returns what was added with this very configuration, if
  /// there is such: for those who need one of a kind each time they are opened.
  [[nodiscard]] int64_t device_like(const policy::DeviceConfig& config, std::string& why);
  [[nodiscard]] int64_t flow_like(const policy::FlowConfig& config, std::string& why);

  [[nodiscard]] bool knows_device(uint32_t device) noexcept {
    const std::lock_guard guard(lock_);
    return device < devices_known_;
  }
  [[nodiscard]] bool knows(uint32_t flow) const noexcept {
    return flow < flows_known_.load(std::memory_order_acquire);  // pairs with add_flow()
  }
  /// Returns true if operations of the flow may skip the policy.
  [[nodiscard]] bool may_skip_policy(uint32_t flow) const noexcept {
    return flows_[flow].skips_policy.load(std::memory_order_relaxed);
  }
  [[nodiscard]] policy::DeviceId device_of(uint32_t flow) const noexcept {
    return flows_[flow].device;
  }

  /// Returns true if the operation may start now; the caller carries it out. Returns false if it
  /// waits: its executor will start it, perhaps already on another thread. `id` is set before that.
  /// Throws std::bad_alloc if there is no memory for one more operation; nothing has changed then.
  [[nodiscard]] bool admit(const Asking& asking, OperationId& id);
  /// Reports the end of an operation that was allowed to start: bytes moved, or -errno.
  void ended(OperationId id, int64_t result);
  /// Returns true if the operation still waited: it is forgotten, and its executor never starts it.
  /// `id`, which admit() may be setting at the same time, is read under the lock.
  [[nodiscard]] bool withdraw(const OperationId& id);

  /// Foreground activity on the fast path. begin_activity() returns whether it was counted; only
  /// then end_activity() must follow.
  [[nodiscard]] bool begin_activity(policy::DeviceId device) noexcept {
    Device& known = devices_[device];
    if (!known.tracked.load(std::memory_order_relaxed)) {
      return false;
    }
    known.in_flight.fetch_add(1, std::memory_order_seq_cst);
    return true;
  }
  void end_activity(policy::DeviceId device) noexcept {
    Device& known = devices_[device];
    // seq_cst against tell(): either we see that lower classes wait, or it sees our zero.
    if (known.in_flight.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
        known.lower_waiting.load(std::memory_order_seq_cst)) {
      activity_ceased(device);
    }
  }

  /// Returns how many operations had to wait, ever.
  [[nodiscard]] uint64_t held() const noexcept { return held_.load(std::memory_order_relaxed); }

  /// Returns true while operations with `climb` wait or run on the device, so that sample()
  /// matters.
  [[nodiscard]] bool needs_samples(policy::DeviceId device);
  /// Takes a sample: the device's throughput in the last `seconds`, above 0, by any operations.
  /// False for a device that is not there or not added with `is_measured`.
  [[nodiscard]] bool sample(policy::DeviceId device, double bytes_per_second, double seconds);

  /// As policy::Policy::explain() and learned().
  [[nodiscard]] policy::Explanation explain(policy::FlowId flow);
  [[nodiscard]] std::string learned(policy::FlowId flow);
  [[nodiscard]] FlowState state_of(policy::FlowId flow);

 private:
  struct alignas(64) Device {
    std::atomic<uint32_t> in_flight{0};  ///< on the fast path
    std::atomic<bool> tracked{false};    ///< has lower classes that must yield
    std::atomic<bool> lower_waiting{false};
    // Under the lock:
    bool is_measured = false;  ///< by sample()
    uint32_t told = 0;         ///< in_flight as the policy knows it
    uint32_t samples = 0;
    uint64_t sampled_ns = 0;   ///< the last sample, or when there was something to sample
    uint64_t moved_bytes = 0;  ///< since then, by operations that ended
  };
  struct Flow {
    std::atomic<bool> skips_policy{false};
    policy::DeviceId device = 0;
    uint32_t limit = 0;        ///< under the lock, as the next one
    uint64_t moved_bytes = 0;  ///< by operations that ended
  };
  /// An operation that the policy knows.
  struct Entry {
    OperationId id = kNone;
    Executor* executor = nullptr;
    void* operation = nullptr;
    policy::FlowId flow = 0;
    policy::DeviceId device = 0;
    bool started = false;
    uint64_t start_ns = 0;
    Entry* next = nullptr;  ///< in a Starting
  };
  /// The operations that may start, in order. The entries stay until their executors are
  /// called.
  struct Starting {
    Entry* first = nullptr;
    Entry* last = nullptr;
    void push(Entry& entry) noexcept {
      (first == nullptr ? first : last->next) = &entry;
      last = &entry;
    }
    void append(const Starting& more) noexcept {
      (first == nullptr ? first : last->next) = more.first;
      last = more.last;
    }
  };

  Entry& add_entry(const Asking& asking);
  static void start_all(Starting& starting) noexcept;
  void activity_ceased(policy::DeviceId device) noexcept;
  void tell(const policy::Event& event, policy::DeviceId device, uint64_t now, Starting& starting);
  void settle(policy::DeviceId device, uint64_t now, Starting& starting);
  void tell_activity(policy::DeviceId device, uint64_t now);
  void carry_out(uint64_t now, Starting& starting);
  void begin_samples(policy::DeviceId device, uint64_t now);
  void sample_ends(policy::DeviceId device, uint64_t now, Starting& starting);
  void forget(Entry& entry);
  void hear(const policy::Event& event, uint64_t now) {
    if (recorder_) {
      recorder_->on(event, now, decisions_);
    } else {
      policy_.on(event, now, decisions_);
    }
  }
  void refresh_skipping_flows();
  [[nodiscard]] uint64_t now() const noexcept { return now_ns() - born_ns_; }

  const uint64_t born_ns_ = now_ns();  ///< the policy's time begins here
  std::mutex lock_;
  policy::Policy policy_;
  std::optional<policy::Recorder> recorder_;
  std::vector<policy::Decision> decisions_;
  policy::IdMap<Entry> operations_;
  policy::Pool<Entry> entries_;
  OperationId next_id_ = kNone + 1;
  const Entry* asking_ = nullptr;  ///< what admit() is asking for
  uint32_t devices_known_ = 0;
  std::atomic<uint32_t> flows_known_{0};
  std::atomic<uint64_t> held_{0};
  std::array<Device, kMaxDevices> devices_;
  std::array<Flow, kMaxFlows> flows_;
};

/// Foreground activity of a flow's device while this lives.
class Activity {
 public:
  Activity(Gate& gate, uint32_t flow) noexcept
      : gate_(gate), device_(gate.device_of(flow)), is_counted_(gate.begin_activity(device_)) {}
  ~Activity() {
    if (is_counted_) {
      gate_.end_activity(device_);
    }
  }
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

 private:
  Gate& gate_;
  const policy::DeviceId device_;
  const bool is_counted_;
};

}  // namespace ioweave::gate
