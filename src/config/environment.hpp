#pragma once

// Values of variables of the environment, for libraries in somebody else's program: what is wrong
// is ignored with a word. In a setuid program all of them count as not set, since its environment
// is not to be trusted.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ioweave::config {

/// Returns the index of the variable's value in `names`; 0 if it is not set. For a value that is
/// not in `names` returns 0, too, and adds a sentence to `warnings` that suggests the nearest name.
/// It never suggests `off`, since following that would lose the feature.
[[nodiscard]] size_t chosen_in_environment(const char* variable,
                                           std::span<const std::string_view> names,
                                           std::string_view off, std::string& warnings);

/// Returns the variable's number; nothing if it is not set. For a value that is not a number from 1
/// to `most` returns nothing, too, and adds a sentence to `warnings`.
[[nodiscard]] std::optional<uint32_t> number_in_environment(const char* variable, uint32_t most,
                                                            std::string& warnings);

/// The same of a size (parse_size()) from `least` to `most`.
[[nodiscard]] std::optional<uint64_t> size_in_environment(const char* variable, uint64_t least,
                                                          uint64_t most, std::string& warnings);

}  // namespace ioweave::config
