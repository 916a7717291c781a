// The text of a log, written and read. Recording and replaying are in event_replay.cpp.

#include "policy/event_log.hpp"

#include <array>
#include <charconv>
#include <utility>

#include "policy/constraint_text.hpp"
#include "policy/number_text.hpp"
#include "policy/words.hpp"

namespace ioweave::policy {
namespace {

constexpr std::string_view kAny = "any";
constexpr std::string_view kDecisionMark = "> ";

// ---- Writing -----------------------------------------------------------------------------------

bool is_plain(char c) {
  return static_cast<unsigned char>(c) > ' ' && c != '%' && c != '\x7f';
}

void append_name(std::string& out, std::string_view name) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (const char c : name) {
    if (is_plain(c)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
}

void append_key(std::string& out, std::string_view key) {
  out += ' ';
  out += key;
  out += '=';
}

template <class Number>
void append_field(std::string& out, std::string_view key, Number number) {
  append_key(out, key);
  append_number(out, number);
}

void append_word(std::string& out, std::string_view key, std::string_view word) {
  append_key(out, key);
  out += word;
}

void append_node(std::string& out, NodeId node) {
  if (node == kAnyNode) {
    append_word(out, "node", kAny);
  } else {
    append_field(out, "node", node);
  }
}

struct AppendEvent {
  std::string& out;

  void operator()(const Ready& event) const {
    append_operation("ready", event.operation);
    append_field(out, "flow", event.flow);
    append_node(out, event.node);
    append_field(out, "bytes", event.bytes);
  }
  void operator()(const Started& event) const { append_operation("started", event.operation); }
  void operator()(const Finished& event) const {
    append_operation("finished", event.operation);
    append_field(out, "seconds", event.seconds);
    append_field(out, "bytes", event.bytes);
  }
  void operator()(const Failed& event) const { append_operation("failed", event.operation); }
  void operator()(const Cancelled& event) const { append_operation("cancelled", event.operation); }
  void operator()(const Sample& event) const {
    out += "sample";
    append_field(out, "device", event.device);
    append_node(out, event.node);
    append_field(out, "bytes_per_second", event.bytes_per_second);
    append_field(out, "seconds", event.seconds);
  }
  void operator()(const Activity& event) const {
    out += "activity";
    append_field(out, "device", event.device);
    append_node(out, event.node);
    append_word(out, "class", word_of(event.priority));
    append_field(out, "in_flight", event.in_flight);
  }
  void operator()(const NodeUp& event) const {
    out += "node_up";
    append_node(out, event.node);
  }
  void operator()(const NodeDown& event) const {
    out += "node_down";
    append_node(out, event.node);
  }
  void operator()(const DeviceUp& event) const {
    out += "device_up";
    append_field(out, "device", event.device);
    append_node(out, event.node);
  }

  void append_operation(std::string_view verb, OperationId operation) const {
    out += verb;
    append_field(out, "operation", operation);
  }
};

struct AppendDecision {
  std::string& out;

  void operator()(const Start& decision) const {
    out += "start";
    append_field(out, "operation", decision.operation);
    append_node(out, decision.node);
  }
  void operator()(const SetLimit& decision) const {
    out += "limit";
    append_field(out, "flow", decision.flow);
    append_field(out, "limit", decision.limit);
  }
};

// ---- Reading -----------------------------------------------------------------------------------

/// Takes a line apart from left to right. After the first mismatch nothing more is taken and `why`
/// says what was expected; callers read all fields and look once, at the end.
class Fields {
 public:
  Fields(std::string_view line, std::string& why) : rest_(line), why_(why) {}

  [[nodiscard]] bool is_ok() const { return ok_; }

  /// The next word, up to a space or the end.
  std::string_view take_word() {
    const size_t end = rest_.find(' ');
    const std::string_view taken = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    at_end_ = end == std::string_view::npos;
    return taken;
  }

  /// The value of "key=value".
  std::string_view take_value(std::string_view key) {
    const std::string_view found = ok_ && !at_end_ ? take_word() : std::string_view();
    if (found.size() <= key.size() || found.substr(0, key.size()) != key ||
        found[key.size()] != '=') {
      expected(std::string(key) + "=...", found);
      return {};
    }
    return found.substr(key.size() + 1);
  }

  template <class Number>
  void read_number(std::string_view key, Number& out) {
    const std::string_view digits = take_value(key);
    if (ok_) {
      convert_number(key, digits, out);
    }
  }

  template <class Number>
  void convert_number(std::string_view key, std::string_view digits, Number& out) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    if (error == std::errc::result_out_of_range) {
      expected(std::string(key) + " within its range", digits);
    } else if (error != std::errc() || end != digits.data() + digits.size()) {
      expected("a number as " + std::string(key), digits);
    }
  }

  void read_flag(std::string_view key, bool& out) {
    uint32_t number_found = 0;
    read_number(key, number_found);
    if (ok_ && number_found > 1) {
      expected("0 or 1 as " + std::string(key), std::to_string(number_found));
    }
    out = number_found == 1;
  }

  void read_node(NodeId& out) {
    const std::string_view found = take_value("node");
    if (found == kAny) {
      out = kAnyNode;
    } else if (ok_) {
      convert_number("node", found, out);
    }
  }

  template <class Enum>
  void read_word(std::string_view key, Enum& out) {
    const std::string_view found = take_value(key);
    ok_ = ok_ && parse_word(found, out, why_);
  }

  /// Of keys that a line may end without.
  [[nodiscard]] bool is_next(std::string_view key) const {
    return !at_end_ && rest_.starts_with(key) && rest_.substr(key.size()).starts_with('=');
  }
  void read_last_name(std::string_view key, std::string& out) {
    if (ok_ && !at_end_) {
      read_name(key, out);
    }
  }
  void read_last_flag(std::string_view key, bool& out) {
    if (ok_ && is_next(key)) {
      read_flag(key, out);
    }
  }
  template <class Number>
  void read_last_number(std::string_view key, Number& out) {
    if (ok_ && !at_end_) {
      read_number(key, out);
    }
  }

  void read_name(std::string_view key, std::string& out) {
    const std::string_view found = take_value(key);
    out.clear();
    for (size_t i = 0; ok_ && i < found.size(); ++i) {
      if (found[i] != '%') {
        out += found[i];
        continue;
      }
      unsigned byte = 0;
      const std::string_view digits = found.substr(i + 1, 2);
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
      if (error != std::errc() || digits.size() != 2 || end != digits.data() + 2) {
        expected("two hexadecimal digits after % in " + std::string(key), found);
      }
      out += static_cast<char>(byte);
      i += 2;
    }
  }

  void read_constraint(Constraint& out) {
    const std::string_view found = take_value("constraint");
    ok_ = ok_ && parse_constraint(found, out, why_);
  }

  void read_weights(std::array<uint32_t, kClasses>& out) {
    std::string_view found = take_value("weights");
    for (unsigned i = 0; ok_ && i < kClasses; ++i) {
      const size_t end = i + 1 < kClasses ? found.find(',') : std::string_view::npos;
      convert_number("weights", found.substr(0, end), out[i]);
      found = end == std::string_view::npos ? std::string_view() : found.substr(end + 1);
    }
  }

  void expect_end() {
    if (ok_ && !at_end_) {
      expected("the end of the line", rest_);
    }
  }

  void expected(const std::string& what, std::string_view found) {
    if (ok_) {
      why_ = "expected " + what + ", found '" + std::string(found) + "'";
    }
    ok_ = false;
  }

 private:
  std::string_view rest_;
  std::string& why_;
  bool ok_ = true;
  bool at_end_ = false;
};

DeviceConfig read_device(Fields& fields) {
  DeviceConfig device;
  fields.read_name("name", device.name);
  fields.read_word("scope", device.scope);
  fields.read_number("budget_mb_per_s", device.budget_mb_per_s);
  fields.read_number("max_in_flight", device.max_in_flight);
  fields.read_word("scheduling", device.scheduling);
  fields.read_weights(device.weights);
  fields.read_last_flag("everywhere", device.everywhere);
  fields.read_last_number("begins_at", device.begins_at);
  return device;
}

FlowConfig read_flow(Fields& fields) {
  FlowConfig flow;
  fields.read_name("name", flow.name);
  fields.read_number("device", flow.device);
  fields.read_word("class", flow.priority);
  fields.read_constraint(flow.constraint);
  fields.read_number("max_in_flight", flow.max_in_flight);
  fields.read_last_name("learned", flow.learned);
  return flow;
}

Decision read_decision(Fields& fields) {
  const std::string_view verb = fields.take_word();
  if (verb == "start") {
    Start start{};
    fields.read_number("operation", start.operation);
    fields.read_node(start.node);
    return start;
  }
  SetLimit limit{};
  if (verb != "limit") {
    fields.expected("start or limit", verb);
  }
  fields.read_number("flow", limit.flow);
  fields.read_number("limit", limit.limit);
  return limit;
}

/// Events that say no more than which operation.
template <class OfOperation>
Event read_of_operation(Fields& fields) {
  OfOperation event{};
  fields.read_number("operation", event.operation);
  return event;
}

template <class OfNode>
Event read_of_node(Fields& fields) {
  OfNode event{};
  fields.read_node(event.node);
  return event;
}

Event read_ready(Fields& fields) {
  Ready event{};
  fields.read_number("operation", event.operation);
  fields.read_number("flow", event.flow);
  fields.read_node(event.node);
  fields.read_number("bytes", event.bytes);
  return event;
}

Event read_finished(Fields& fields) {
  Finished event{};
  fields.read_number("operation", event.operation);
  fields.read_number("seconds", event.seconds);
  fields.read_number("bytes", event.bytes);
  return event;
}

Event read_sample(Fields& fields) {
  Sample event{};
  fields.read_number("device", event.device);
  fields.read_node(event.node);
  fields.read_number("bytes_per_second", event.bytes_per_second);
  fields.read_number("seconds", event.seconds);
  return event;
}

Event read_activity(Fields& fields) {
  Activity event{};
  fields.read_number("device", event.device);
  fields.read_node(event.node);
  fields.read_word("class", event.priority);
  fields.read_number("in_flight", event.in_flight);
  return event;
}

Event read_device_up(Fields& fields) {
  DeviceUp event{};
  fields.read_number("device", event.device);
  fields.read_node(event.node);
  return event;
}

Event read_event(Fields& fields) {
  using Read = Event (*)(Fields&);
  static constexpr std::array<std::pair<std::string_view, Read>, 10> kVerbs{{
      {"ready", read_ready},
      {"started", read_of_operation<Started>},
      {"finished", read_finished},
      {"failed", read_of_operation<Failed>},
      {"cancelled", read_of_operation<Cancelled>},
      {"sample", read_sample},
      {"activity", read_activity},
      {"node_up", read_of_node<NodeUp>},
      {"node_down", read_of_node<NodeDown>},
      {"device_up", read_device_up},
  }};
  const std::string_view verb = fields.take_word();
  for (const auto& [known, read] : kVerbs) {
    if (verb == known) {
      return read(fields);
    }
  }
  fields.expected("an event (ready, finished, ...)", verb);
  return Started{};
}

Record read_record(std::string_view line, Fields& fields) {
  if (line.substr(0, kDecisionMark.size()) == kDecisionMark) {
    fields.take_word();
    return read_decision(fields);
  }
  const std::string_view first = fields.take_word();
  if (first == "device") {
    return read_device(fields);
  }
  if (first == "flow") {
    return read_flow(fields);
  }
  TimedEvent timed;
  fields.convert_number("time in ns", first, timed.now_ns);
  if (fields.is_ok()) {
    timed.event = read_event(fields);
  }
  return timed;
}

}  // namespace

// ---- Lines -------------------------------------------------------------------------------------

void append_line(std::string& out, const DeviceConfig& device) {
  out += "device name=";
  append_name(out, device.name);
  append_word(out, "scope", word_of(device.scope));
  append_field(out, "budget_mb_per_s", device.budget_mb_per_s);
  append_field(out, "max_in_flight", device.max_in_flight);
  append_word(out, "scheduling", word_of(device.scheduling));
  for (unsigned i = 0; i < kClasses; ++i) {
    i == 0 ? append_key(out, "weights") : out.push_back(',');
    append_number(out, device.weights[i]);
  }
  if (!device.everywhere) {
    append_field(out, "everywhere", 0);
  }
  if (device.begins_at != 0) {
    append_field(out, "begins_at", device.begins_at);
  }
}

void append_line(std::string& out, const FlowConfig& flow) {
  out += "flow name=";
  append_name(out, flow.name);
  append_field(out, "device", flow.device);
  append_word(out, "class", word_of(flow.priority));
  append_key(out, "constraint");
  append_constraint(out, flow.constraint);
  append_field(out, "max_in_flight", flow.max_in_flight);
  if (!flow.learned.empty()) {
    append_key(out, "learned");
    append_name(out, flow.learned);
  }
}

void append_line(std::string& out, const Event& event, uint64_t now_ns) {
  append_number(out, now_ns);
  out += ' ';
  std::visit(AppendEvent{out}, event);
}

void append_line(std::string& out, const Decision& decision) {
  out += kDecisionMark;
  std::visit(AppendDecision{out}, decision);
}

void append_line(std::string& out, const Record& record) {
  if (const auto* const timed = std::get_if<TimedEvent>(&record)) {
    append_line(out, timed->event, timed->now_ns);
  } else if (const auto* const device = std::get_if<DeviceConfig>(&record)) {
    append_line(out, *device);
  } else if (const auto* const flow = std::get_if<FlowConfig>(&record)) {
    append_line(out, *flow);
  } else {
    append_line(out, std::get<Decision>(record));
  }
}

bool parse_line(std::string_view line, Record& record, std::string& why) {
  Fields fields(line, why);
  Record read = read_record(line, fields);
  fields.expect_end();
  if (fields.is_ok()) {
    record = std::move(read);
  }
  return fields.is_ok();
}

std::string upgrade_line(std::string_view line) {
  if (line.ends_with(" tick")) {
    return {};
  }
  std::string upgraded(line);
  for (const std::string_view key : {" concurrency=", " limit_reached="}) {
    const size_t field = upgraded.find(key);
    if (field != std::string::npos) {
      upgraded.erase(field, upgraded.find(' ', field + 1) - field);
    }
  }
  return upgraded;
}

}  // namespace ioweave::policy
