#include "policy/constraint_text.hpp"

#include <array>

#include "policy/number_text.hpp"

namespace ioweave::policy {
namespace {

constexpr std::string_view kNone = "none";
constexpr std::string_view kFixed = "fixed:";
constexpr std::string_view kAuto = "auto:";
constexpr std::string_view kClimb = "climb";

bool parse_auto(std::string_view text, Constraint& constraint) {
  const size_t first = text.find(',');
  if (first == std::string_view::npos) {
    constraint.kind = Constraint::Kind::auto_unbounded;
    return parse_number(text, constraint.executors);
  }
  const size_t second = text.find(',', first + 1);
  constraint.kind = Constraint::Kind::auto_bounded;
  return second != std::string_view::npos &&
         parse_number(text.substr(0, first), constraint.min_mb_per_s) &&
         parse_number(text.substr(first + 1, second - first - 1), constraint.max_mb_per_s) &&
         parse_number(text.substr(second + 1), constraint.delta);
}

bool parse(std::string_view text, Constraint& constraint) {
  if (text == kNone) {
    return true;
  }
  if (text == kClimb) {
    constraint.kind = Constraint::Kind::climb;
    return true;
  }
  if (text.substr(0, kFixed.size()) == kFixed) {
    constraint.kind = Constraint::Kind::fixed;
    return parse_number(text.substr(kFixed.size()), constraint.mb_per_s);
  }
  return text.substr(0, kAuto.size()) == kAuto && parse_auto(text.substr(kAuto.size()), constraint);
}

}  // namespace

void append_constraint(std::string& out, const Constraint& constraint) {
  switch (constraint.kind) {
    case Constraint::Kind::none:
      out += kNone;
      break;
    case Constraint::Kind::fixed:
      out += kFixed;
      append_number(out, constraint.mb_per_s);
      break;
    case Constraint::Kind::auto_unbounded:
      out += kAuto;
      append_number(out, constraint.executors);
      break;
    case Constraint::Kind::auto_bounded:
      out += kAuto;
      append_number(out, constraint.min_mb_per_s);
      out += ',';
      append_number(out, constraint.max_mb_per_s);
      out += ',';
      append_number(out, constraint.delta);
      break;
    case Constraint::Kind::climb:
      out += kClimb;
      break;
  }
}

bool parse_constraint(std::string_view text, Constraint& constraint, std::string& why) {
  Constraint read;
  if (!parse(text, read)) {
    why =
        "expected constraint=none|fixed:MB_PER_S|auto:EXECUTORS|auto:MIN,MAX,DELTA|climb, found '" +
        std::string(text) + "'";
    return false;
  }
  constraint = read;
  return true;
}

bool parse_constraint_words(std::string_view words, uint32_t executors, Constraint& constraint,
                            std::string& why) {
  constexpr std::string_view kBounded = "auto(";
  Constraint read;
  bool is_known = words == kNone;
  if (words == kClimb) {
    read.kind = Constraint::Kind::climb;
    is_known = true;
  } else if (words == "auto") {
    if (executors == 0) {
      why =
          "auto begins with budget / operations at once: give the flow a max_in_flight, "
          "or use auto(min,max,delta)";
      return false;
    }
    read.kind = Constraint::Kind::auto_unbounded;
    read.executors = executors;
    is_known = true;
  } else if (words.starts_with(kBounded) && words.ends_with(')')) {
    words.remove_suffix(1);
    is_known = parse_auto(words.substr(kBounded.size()), read) &&
               read.kind == Constraint::Kind::auto_bounded;
  } else if (!is_known) {
    read.kind = Constraint::Kind::fixed;
    is_known = parse_number(words, read.mb_per_s);
  }
  if (!is_known) {
    why =
        "constraint must be none, MB/s as a number, climb, auto or auto(min,max,delta) as in "
        "auto(2,256,2), not '" +
        std::string(words) + "'";
    return false;
  }
  constraint = read;
  return true;
}

}  // namespace ioweave::policy
