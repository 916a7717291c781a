// The text of a log, written and read. Recording and replaying are in event_replay.cpp.
//
// pass_fields() and its like list the fields of each line once: a Writer takes them from the record
// to the text, a Reader from the text to the record.

#include "policy/event_log.hpp"

#include <algorithm>
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

// By the alternatives of Event and Decision.
constexpr std::array<std::string_view, std::variant_size_v<Event>> kEvents{
    "ready",  "started",  "finished", "failed",    "cancelled",
    "sample", "activity", "node_up",  "node_down", "device_up"};
constexpr std::array<std::string_view, std::variant_size_v<Decision>> kDecisions{"start", "limit"};

// ---- Writing -----------------------------------------------------------------------------------

bool is_plain(char c) {
  return static_cast<unsigned char>(c) > ' ' && c != '%' && c != '\x7f';
}

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <class Number>
  void pass_number(std::string_view key, Number number) {
    append_key(key);
    append_number(out_, number);
  }
  void pass_node(NodeId node) {
    if (node == kAnyNode) {
      append_key("node");
      out_ += kAny;
    } else {
      pass_number("node", node);
    }
  }
  template <class Enum>
  void pass_word(Enum value) {
    append_key(Words<Enum>::kKey);
    out_ += Words<Enum>::kAll[static_cast<unsigned>(value)];
  }
  void pass_name(std::string_view key, std::string_view name) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    append_key(key);
    for (const char c : name) {
      if (is_plain(c)) {
        out_ += c;
      } else {
        const auto byte = static_cast<unsigned char>(c);
        out_ += '%';
        out_ += kHex[byte >> 4];
        out_ += kHex[byte & 15];
      }
    }
  }
  void pass_constraint(const Constraint& constraint) {
    append_key("constraint");
    append_constraint(out_, constraint);
  }
  void pass_weights(const std::array<uint32_t, kClasses>& weights) {
    pass_number("weights", weights[0]);
    for (unsigned i = 1; i < kClasses; ++i) {
      out_ += ',';
      append_number(out_, weights[i]);
    }
  }

  // What a line ends without where it is as usual.
  void pass_last_name(std::string_view key, std::string_view name) {
    if (!name.empty()) {
      pass_name(key, name);
    }
  }
  void pass_last_flag(std::string_view key, bool flag) {
    if (!flag) {
      pass_number(key, 0);
    }
  }
  void pass_last_number(std::string_view key, uint32_t number) {
    if (number != 0) {
      pass_number(key, number);
    }
  }

 private:
  void append_key(std::string_view key) { out_.append(" ").append(key).append("="); }

  std::string& out_;
};

// ---- Reading -----------------------------------------------------------------------------------

/// Takes a line apart from left to right. After the first mismatch nothing more is taken and `why`
/// says what was expected; callers read all fields and look once, at the end.
class Reader {
 public:
  Reader(std::string_view line, std::string& why) : rest_(line), why_(why) {}

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
  void pass_number(std::string_view key, Number& out) {
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

  void pass_flag(std::string_view key, bool& out) {
    uint32_t number_found = 0;
    pass_number(key, number_found);
    if (ok_ && number_found > 1) {
      expected("0 or 1 as " + std::string(key), std::to_string(number_found));
    }
    out = number_found == 1;
  }

  void pass_node(NodeId& out) {
    const std::string_view found = take_value("node");
    if (found == kAny) {
      out = kAnyNode;
    } else if (ok_) {
      convert_number("node", found, out);
    }
  }

  template <class Enum>
  void pass_word(Enum& out) {
    const std::string_view found = take_value(Words<Enum>::kKey);
    ok_ = ok_ && parse_word(found, out, why_);
  }

  /// Of keys that a line may end without.
  [[nodiscard]] bool is_next(std::string_view key) const {
    return !at_end_ && rest_.starts_with(key) && rest_.substr(key.size()).starts_with('=');
  }
  void pass_last_name(std::string_view key, std::string& out) {
    if (ok_ && !at_end_) {
      pass_name(key, out);
    }
  }
  void pass_last_flag(std::string_view key, bool& out) {
    if (ok_ && is_next(key)) {
      pass_flag(key, out);
    }
  }
  template <class Number>
  void pass_last_number(std::string_view key, Number& out) {
    if (ok_ && !at_end_) {
      pass_number(key, out);
    }
  }

  void pass_name(std::string_view key, std::string& out) {
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

  void pass_constraint(Constraint& out) {
    const std::string_view found = take_value("constraint");
    ok_ = ok_ && parse_constraint(found, out, why_);
  }

  void pass_weights(std::array<uint32_t, kClasses>& out) {
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

// ---- The fields of each line -------------------------------------------------------------------

template <class Line, class Device>
void pass_device(Line& line, Device& device) {
  line.pass_name("name", device.name);
  line.pass_word(device.scope);
  line.pass_number("budget_mb_per_s", device.budget_mb_per_s);
  line.pass_number("max_in_flight", device.max_in_flight);
  line.pass_word(device.scheduling);
  line.pass_weights(device.weights);
  line.pass_last_flag("everywhere", device.everywhere);
  line.pass_last_number("begins_at", device.begins_at);
}

template <class Line, class Flow>
void pass_flow(Line& line, Flow& flow) {
  line.pass_name("name", flow.name);
  line.pass_number("device", flow.device);
  line.pass_word(flow.priority);
  line.pass_constraint(flow.constraint);
  line.pass_number("max_in_flight", flow.max_in_flight);
  line.pass_last_name("learned", flow.learned);
}

/// Of an event or a decision: those of this list that it has.
template <class Line, class Told>
void pass_fields(Line& line, Told& told) {
  if constexpr (requires { told.operation; }) {
    line.pass_number("operation", told.operation);
  }
  if constexpr (requires { told.device; }) {
    line.pass_number("device", told.device);
  }
  if constexpr (requires { told.flow; }) {
    line.pass_number("flow", told.flow);
  }
  if constexpr (requires { told.node; }) {
    line.pass_node(told.node);
  }
  if constexpr (requires { told.priority; }) {
    line.pass_word(told.priority);
  }
  if constexpr (requires { told.in_flight; }) {
    line.pass_number("in_flight", told.in_flight);
  }
  if constexpr (requires { told.bytes_per_second; }) {
    line.pass_number("bytes_per_second", told.bytes_per_second);
  }
  if constexpr (requires { told.seconds; }) {
    line.pass_number("seconds", told.seconds);
  }
  if constexpr (requires { told.bytes; }) {
    line.pass_number("bytes", told.bytes);
  }
  if constexpr (requires { told.limit; }) {
    line.pass_number("limit", told.limit);
  }
}

/// An event or a decision, by its word in `words`.
template <class Kinds, size_t kKinds>
void append_kind(std::string& out, const std::array<std::string_view, kKinds>& words,
                 const Kinds& kinds) {
  out += words[kinds.index()];
  Writer writer(out);
  std::visit([&writer](const auto& kind) { pass_fields(writer, kind); }, kinds);
}

/// Gives `kinds` its alternative of this number, in its first state.
template <size_t... I, class... Kind>
void emplace_kind(std::variant<Kind...>& kinds, size_t number, std::index_sequence<I...>) {
  ((number == I ? static_cast<void>(kinds.template emplace<I>()) : void()), ...);
}

template <class Kinds, size_t kKinds>
void read_kind(Reader& reader, const std::array<std::string_view, kKinds>& words,
               const char* expected, Kinds& kinds) {
  const std::string_view word = reader.take_word();
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) {
    reader.expected(expected, word);
    return;
  }
  emplace_kind(kinds, static_cast<size_t>(found - words.begin()),
               std::make_index_sequence<kKinds>());
  std::visit([&reader](auto& kind) { pass_fields(reader, kind); }, kinds);
}

Record read_record(std::string_view line, Reader& reader) {
  if (line.starts_with(kDecisionMark)) {
    reader.take_word();
    Decision decision;
    read_kind(reader, kDecisions, "start or limit", decision);
    return decision;
  }
  const std::string_view first = reader.take_word();
  if (first == "device") {
    DeviceConfig device;
    pass_device(reader, device);
    return device;
  }
  if (first == "flow") {
    FlowConfig flow;
    pass_flow(reader, flow);
    return flow;
  }
  TimedEvent timed;
  reader.convert_number("time in ns", first, timed.now_ns);
  if (reader.is_ok()) {
    read_kind(reader, kEvents, "an event (ready, finished, ...)", timed.event);
  }
  return timed;
}

}  // namespace

// ---- Lines -------------------------------------------------------------------------------------

void append_line(std::string& out, const DeviceConfig& device) {
  out += "device";
  Writer writer(out);
  pass_device(writer, device);
}

void append_line(std::string& out, const FlowConfig& flow) {
  out += "flow";
  Writer writer(out);
  pass_flow(writer, flow);
}

void append_line(std::string& out, const Event& event, uint64_t now_ns) {
  append_number(out, now_ns);
  out += ' ';
  append_kind(out, kEvents, event);
}

void append_line(std::string& out, const Decision& decision) {
  out += kDecisionMark;
  append_kind(out, kDecisions, decision);
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
  Reader reader(line, why);
  Record read = read_record(line, reader);
  reader.expect_end();
  if (reader.is_ok()) {
    record = std::move(read);
  }
  return reader.is_ok();
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
