#pragma once

#include <string>

#include "options.hpp"

namespace tiom {

/// What --list prints: the runtimes, and the cells that would be run. Throws as a sweep would, for
/// a variant that the runtime has not or a state file of another sweep.
std::string plan_text(const Options& options);

}  // namespace tiom
