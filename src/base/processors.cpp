#include "base/processors.hpp"

#include <charconv>

namespace ioweave {
namespace {

/// The number at the beginning of `text`, which is cut off; false if there is none.
bool take_number(std::string_view& text, unsigned& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) {
    return false;
  }
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

Processors Processors::allowed() noexcept {
  Processors processors;
  if (sched_getaffinity(0, sizeof processors.set_, &processors.set_) != 0) {
    // More processors than the set can hold: nothing is known to be forbidden.
    for (unsigned i = 0; i < CPU_SETSIZE; ++i) {
      CPU_SET(i, &processors.set_);
    }
  }
  return processors;
}

bool Processors::parse(std::string_view list, Processors& processors, std::string& why) {
  processors = {};
  std::string_view rest = list;
  while (true) {
    unsigned first = 0;
    if (!take_number(rest, first)) {
      break;
    }
    unsigned last = first;
    if (!rest.empty() && rest.front() == '-') {
      rest.remove_prefix(1);
      if (!take_number(rest, last)) {
        break;
      }
    }
    if (last < first || last >= CPU_SETSIZE) {
      break;
    }
    for (unsigned i = first; i <= last; ++i) {
      CPU_SET(i, &processors.set_);
    }
    if (rest.empty()) {
      return true;
    }
    if (rest.front() != ',') {
      break;
    }
    rest.remove_prefix(1);
  }
  why = "'" + std::string(list) + "' is no list of processors such as 0,2-5";
  return false;
}

std::string Processors::to_text() const {
  std::string text;
  for (unsigned i = 0; i < CPU_SETSIZE; ++i) {
    if (!has(i)) {
      continue;
    }
    unsigned last = i;
    while (has(last + 1)) {
      ++last;
    }
    text += (text.empty() ? "" : ",") + std::to_string(i);
    if (last > i) {
      text += "-" + std::to_string(last);
    }
    i = last;
  }
  return text;
}

}  // namespace ioweave
