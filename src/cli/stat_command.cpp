#include "cli/commands.hpp"
#include "cli/run_program.hpp"

namespace ioweave::cli {

int stat_command(Arguments arguments) {
  RunOptions options;
  if (const auto code = parse_stat(arguments, options)) return *code;
  RunKind kind;
  kind.observe_only = true;
  kind.records_positions = true;
  kind.text = &stat_text;
  kind.brief = {.files = 10, .remarks = 3, .small_files = true};
  kind.verbose = {.files = 100, .remarks = 10, .small_files = true};
  return run_program(options, kind);
}

}  // namespace ioweave::cli
