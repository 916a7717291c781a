#pragma once

// The names of the choices in RunConfig, in the order of their numbers. cli/run_program.cpp checks
// at compile time that they agree with the enumerations of the engine, which config cannot include.

#include <array>
#include <string_view>

namespace ioweave::config {

inline constexpr std::array<std::string_view, 3> kEngineNames{"uring", "aio", "threads"};
inline constexpr std::array<std::string_view, 3> kEngineModeNames{"plain", "sqpoll", "iopoll"};

/// Returns the name at `index`, or "unknown" for a number without a name.
template <size_t N>
constexpr std::string_view name_at(const std::array<std::string_view, N>& names, size_t index) {
  return index < N ? names[index] : "unknown";
}

/// Returns the index of `name`, or N.
template <size_t N>
constexpr size_t index_of(const std::array<std::string_view, N>& names, std::string_view name) {
  size_t index = 0;
  while (index < N && names[index] != name) ++index;
  return index;
}

}  // namespace ioweave::config
