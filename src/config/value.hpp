#pragma once

// A value as somebody wrote it, in a file or in a program: so that one check, with one sentence for
// each mistake, serves both.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ioweave::config {

struct Value {
  /// The first: of another type than these, such as a truth value or a date.
  std::variant<std::monostate, int64_t, double, std::string, std::vector<Value>> is;
  std::string shown;  ///< as it looks where it was written
};

/// The settings of one table, by name, in any order.
using Fields = std::vector<std::pair<std::string, Value>>;

}  // namespace ioweave::config
