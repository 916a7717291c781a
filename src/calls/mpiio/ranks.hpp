#pragma once

#include <cstdlib>
#include <cstring>
#include <optional>

#include "config/mpiio_variables.hpp"

namespace ioweave::calls {

/// Whether all ranks of a job of so many run on this machine, as their launcher says; nothing if it
/// does not, or speaks of another job, that this one was started by.
[[nodiscard]] inline std::optional<bool> are_ranks_on_one_machine(
    const config::RankVariables& variables, int ranks) noexcept {
  const char* const all = std::getenv(variables.all);
  const char* const local = std::getenv(variables.local);
  if (all == nullptr || local == nullptr || std::strtol(all, nullptr, 10) != ranks) {
    return std::nullopt;
  }
  return std::strcmp(all, local) == 0;
}

}  // namespace ioweave::calls
