#pragma once

#include <cstdlib>
#include <cstring>
#include <optional>

#include "config/mpiio_variables.hpp"

namespace ioweave::calls {

/// Whether all ranks of the job run on this machine, as their launcher says; nothing if none does.
[[nodiscard]] inline std::optional<bool> are_ranks_on_one_machine() noexcept {
  for (const config::RankVariables& ranks : {config::kOpenMpiRanks, config::kMpichRanks}) {
    const char* const all = std::getenv(ranks.all);
    const char* const local = std::getenv(ranks.local);
    if (all != nullptr && local != nullptr) {
      return std::strcmp(all, local) == 0;
    }
  }
  return std::nullopt;
}

}  // namespace ioweave::calls
