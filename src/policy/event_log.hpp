#pragma once

// The event log of a policy: one line of text per device, flow, event and decision, in the order
// in which they came, so that a log needs nothing else to be replayed. No I/O here: lines are given
// to a sink and read from an istream.
//
//   ioweave-policy-log 2
//   device name=ssd scope=node budget_mb_per_s=450 max_in_flight=0 scheduling=strict weights=16,4,1
//   flow name=results device=0 class=write_behind constraint=fixed:20.5 max_in_flight=0
//   1200 ready operation=17 flow=0 node=any bytes=4096
//   > start operation=17 node=0
//   95031 finished operation=17 seconds=9.2e-05 bytes=4096
//
// The n-th device line is device n, flows likewise. An event begins with its time in ns, a decision
// with '>'. Keys come in this order, and all of them. Some lines have more at the end: learned=...
// of a flow of which an earlier run knew something; everywhere=0 of a device that is not, and then
// begins_at=8 where `climb` is told where to begin. Constraints are written as in
// constraint_text.hpp. Doubles are the shortest decimal that reads back to the same bits. In names
// and what was learned, controls, spaces and '%' are written as %XX.
//
// replay() also reads version 1, in which drivers said how many operations ran. Where a flow with
// `climb` heard samples, decisions may differ from such a log.

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "policy/policy.hpp"

namespace ioweave::policy {

inline constexpr std::string_view kLogHeader = "ioweave-policy-log 2";

struct TimedEvent {
  uint64_t now_ns = 0;
  Event event = Started{};
  bool operator==(const TimedEvent&) const = default;
};

/// One line of a log after the header.
using Record = std::variant<DeviceConfig, FlowConfig, TimedEvent, Decision>;

/// Appends the line, without a line end.
void append_line(std::string& out, const DeviceConfig& device);
void append_line(std::string& out, const FlowConfig& flow);
void append_line(std::string& out, const Event& event, uint64_t now_ns);
void append_line(std::string& out, const Decision& decision);
void append_line(std::string& out, const Record& record);

/// Reads a line. False if it is no record; then `why` says what was expected where.
[[nodiscard]] bool parse_line(std::string_view line, Record& record, std::string& why);

/// Returns a line of version 1 as version 2 has it; empty for an event that no longer exists
/// (`tick`). `concurrency` and `limit_reached` are left out: the policy itself counts them.
[[nodiscard]] std::string upgrade_line(std::string_view line_of_version_1);

/// Stands before a policy and gives every line to `sink`. Attach it to a policy that has heard
/// nothing yet (its devices and flows, if any, are written first), and let everything pass through
/// it from then on. One thread at a time, as the policy. The sink must not call back.
class Recorder {
 public:
  using Sink = std::function<void(std::string_view line)>;

  Recorder(Policy& policy, Sink sink);

  /// As in Policy.
  [[nodiscard]] int64_t add_device(const DeviceConfig& config, std::string& why);
  [[nodiscard]] int64_t add_flow(const FlowConfig& config, std::string& why);
  void on(const Event& event, uint64_t now_ns, std::vector<Decision>& out);

 private:
  void give();

  Policy& policy_;
  Sink sink_;
  std::string line_;  ///< reused
};

struct Replayed {
  bool same = false;       ///< the whole log was read and each decision was made again
  uint64_t line = 0;       ///< where it stopped, from 1; the last line where all is the same
  std::string reason;      ///< why it stopped; empty where all is the same
  uint64_t events = 0;     ///< events replayed
  uint64_t decisions = 0;  ///< decisions found the same
};

/// Rebuilds the policy from the log and tells it the events again, up to the first line that
/// cannot be read, that no policy would accept, or whose decision is not made again.
[[nodiscard]] Replayed replay(std::istream& log);

}  // namespace ioweave::policy
