#pragma once

#include "cli/command_line.hpp"

namespace ioweave::cli {

// The subcommands. Each gets the arguments after its name and returns the exit code.
[[nodiscard]] int run_command(Arguments arguments);
[[nodiscard]] int stat_command(Arguments arguments);
[[nodiscard]] int advise_command(Arguments arguments);
[[nodiscard]] int doctor_command(Arguments arguments);
[[nodiscard]] int config_command(Arguments arguments);
[[nodiscard]] int path_command(Arguments arguments);
[[nodiscard]] int report_command(Arguments arguments);
[[nodiscard]] int tiom_command(Arguments arguments);
[[nodiscard]] int measure_command(Arguments arguments);
[[nodiscard]] int bench_command(Arguments arguments);

}  // namespace ioweave::cli
