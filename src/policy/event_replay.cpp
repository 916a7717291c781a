#include <istream>
#include <utility>

#include "policy/event_log.hpp"

namespace ioweave::policy {

Recorder::Recorder(Policy& policy, Sink sink) : policy_(policy), sink_(std::move(sink)) {
  sink_(kLogHeader);
  for (DeviceId id = 0; id < policy_.devices(); ++id) {
    append_line(line_, policy_.device(id));
    give();
  }
  for (FlowId id = 0; id < policy_.flows(); ++id) {
    append_line(line_, policy_.flow(id));
    give();
  }
}

int64_t Recorder::add_device(const DeviceConfig& config, std::string& why) {
  const int64_t id = policy_.add_device(config, why);
  if (id >= 0) {
    append_line(line_, config);
    give();
  }
  return id;
}

int64_t Recorder::add_flow(const FlowConfig& config, std::string& why) {
  const int64_t id = policy_.add_flow(config, why);
  if (id >= 0) {
    append_line(line_, config);
    give();
  }
  return id;
}

void Recorder::on(const Event& event, uint64_t now_ns, std::vector<Decision>& out) {
  // The event first: where the policy finds it impossible and aborts, the log ends with it.
  append_line(line_, event, now_ns);
  give();
  const size_t before = out.size();
  policy_.on(event, now_ns, out);
  for (size_t i = before; i < out.size(); ++i) {
    append_line(line_, out[i]);
    give();
  }
}

void Recorder::give() {
  sink_(line_);
  line_.clear();
}

namespace {

constexpr std::string_view kLogHeader1 = "ioweave-policy-log 1";

class Replayer {
 public:
  /// Empty, or why the log cannot go on after this record.
  std::string hear(const Record& record) {
    if (const auto* const decision = std::get_if<Decision>(&record)) {
      return compare(*decision);
    }
    if (std::string missing = end_of_event(); !missing.empty()) {
      return missing;
    }
    std::string why;
    if (const auto* const device = std::get_if<DeviceConfig>(&record)) {
      return policy_.add_device(*device, why) < 0 ? why : std::string();
    }
    if (const auto* const flow = std::get_if<FlowConfig>(&record)) {
      return policy_.add_flow(*flow, why) < 0 ? why : std::string();
    }
    const TimedEvent& timed = std::get<TimedEvent>(record);
    if (!policy_.accepts(timed.event, timed.now_ns, why)) {
      return why;
    }
    made_.clear();
    policy_.on(timed.event, timed.now_ns, made_);
    compared_ = 0;
    ++events;
    return {};
  }

  /// Empty, or the decision that the log lacks.
  std::string end_of_event() {
    if (compared_ == made_.size()) {
      return {};
    }
    return "before this line the policy decides '" + text(made_[compared_]) +
           "', which the log does not have";
  }

  uint64_t events = 0;
  uint64_t decisions = 0;

 private:
  static std::string text(const Decision& decision) {
    std::string line;
    append_line(line, decision);
    return line;
  }

  std::string compare(const Decision& logged) {
    if (compared_ == made_.size()) {
      return "the log has '" + text(logged) + "', the policy decides nothing more";
    }
    if (made_[compared_] != logged) {
      return "the log has '" + text(logged) + "', the policy decides '" + text(made_[compared_]) +
             "'";
    }
    ++compared_;
    ++decisions;
    return {};
  }

  Policy policy_;
  std::vector<Decision> made_;  ///< by the last event
  size_t compared_ = 0;
};

}  // namespace

Replayed replay(std::istream& log) {
  Replayed result;
  Replayer replayer;
  std::string line;
  Record record;
  bool is_version_1 = false;
  while (result.reason.empty() && std::getline(log, line)) {
    ++result.line;
    if (result.line == 1) {
      is_version_1 = line == kLogHeader1;
      result.reason = line == kLogHeader || is_version_1
                          ? std::string()
                          : "expected '" + std::string(kLogHeader) +
                                "' as the first line, found '" + line + "'";
      continue;
    }
    if (is_version_1 && !line.empty()) {
      line = upgrade_line(line);
      if (line.empty()) {
        continue;
      }
    }
    if (parse_line(line, record, result.reason)) {
      result.reason = replayer.hear(record);
    }
  }
  if (result.reason.empty()) {
    result.reason = result.line == 0 ? "the log is empty" : replayer.end_of_event();
  }
  result.same = result.reason.empty();
  result.events = replayer.events;
  result.decisions = replayer.decisions;
  return result;
}

}  // namespace ioweave::policy
