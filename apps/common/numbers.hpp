#pragma once

// Numbers on the command lines of the papers' programs.

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace apps {

/// A command line that cannot be meant; the text names the option and the way out.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// "64K", "1M", "2G" or a plain number of bytes; empty if it is neither, or above 2^63.
std::optional<uint64_t> parse_size(const std::string& text);

/// The value of option `--name`, a whole number from `low` to `high`. Throws UsageError.
uint64_t parse_count(const char* name, const char* text, uint64_t low, uint64_t high);

}  // namespace apps
