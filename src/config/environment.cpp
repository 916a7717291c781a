#include "config/environment.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/nearest_name.hpp"
#include "config/settings.hpp"

namespace ioweave::config {
namespace {

void warn(std::string& warnings, std::string_view variable, std::string_view value,
          std::string_view what) {
  warnings.append("ioweave: ").append(variable).append("=").append(value);
  warnings.append(" is ignored: ").append(what).append("\n");
}

}  // namespace

size_t chosen_in_environment(const char* variable, std::span<const std::string_view> names,
                             std::string_view off, std::string& warnings) {
  const char* const value = ::secure_getenv(variable);
  if (value == nullptr || *value == '\0') {
    return 0;
  }
  const auto found = std::find(names.begin(), names.end(), value);
  if (found != names.end()) {
    return static_cast<size_t>(found - names.begin());
  }
  std::string what;
  if (const std::string_view near = nearest_name(value, names); !near.empty() && near != off) {
    what.append("did you mean ").append(near).append("?");
  } else {
    what = "it is one of";
    for (const std::string_view name : names) {
      what.append(" ").append(name);
    }
  }
  warn(warnings, variable, value, what);
  return 0;
}

std::optional<uint32_t> number_in_environment(const char* variable, uint32_t most,
                                              std::string& warnings) {
  const char* const value = ::secure_getenv(variable);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::string_view text(value);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size() && number >= 1 && number <= most) {
    return number;
  }
  warn(warnings, variable, value, "it is a number from 1 to " + std::to_string(most));
  return std::nullopt;
}

std::optional<uint64_t> size_in_environment(const char* variable, uint64_t least, uint64_t most,
                                            std::string& warnings) {
  const char* const text = ::secure_getenv(variable);
  if (text == nullptr) {
    return std::nullopt;
  }
  const std::optional<uint64_t> bytes = parse_size(text);
  if (bytes.has_value() && *bytes >= least && *bytes <= most) {
    return bytes;
  }
  warn(warnings, variable, text,
       "it is a size from " + size_text(least) + " to " + size_text(most));
  return std::nullopt;
}

}  // namespace ioweave::config
