#pragma once

// Sizes, times and sweeps of them, as the command line writes them: "64k", "0.1ms", "4k..8m",
// "4k,64k,1m..8m".

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tiom {

/// A command line that cannot be meant; the text names the option and the way out.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// "512", "64k", "1m", "2g" in bytes, of either case; empty if it is none, or above 2^62.
std::optional<uint64_t> parse_size(std::string_view text);

/// "0.1ms", "250us", "2s", "0" in nanoseconds; empty if it is none, or above a day.
std::optional<uint64_t> parse_duration(std::string_view text);

/// A list of values and of ranges that double from the first to the last. Ascending, each once.
/// Throws UsageError, which names `option`.
std::vector<uint64_t> parse_sizes(std::string_view option, std::string_view text);
std::vector<uint64_t> parse_durations(std::string_view option, std::string_view text);

/// The shortest text that parses to the value: "64k", "8m", "1000"; "0.1ms", "128ms".
std::string size_text(uint64_t bytes);
std::string duration_text(uint64_t ns);

/// The words between commas; an empty word stays.
std::vector<std::string_view> split_list(std::string_view text);

}  // namespace tiom
