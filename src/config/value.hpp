#pragma once

// A value as it was written in a file or given by a program. One check, with one sentence for each
// mistake, serves both.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ioweave::config {

struct Value {
  /// monostate: a value of another type, such as a truth value or a date.
  std::variant<std::monostate, int64_t, double, std::string, std::vector<Value>> is;
  std::string shown;  ///< its text for messages, as it was written
};

/// The settings of one table, by name, in any order.
using Fields = std::vector<std::pair<std::string, Value>>;

}  // namespace ioweave::config
