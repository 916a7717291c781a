#pragma once

#include "cell_json.hpp"
#include "ioweave/ioweave.h"
#include "machine.hpp"
#include "options.hpp"

namespace tiom {

// The parts that a report and an advice have in common.
Json options_json(const Options& options);
Json machine_json(const Machine& machine);

}  // namespace tiom
