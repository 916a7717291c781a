#include "cli/commands.hpp"
#include "cli/run_program.hpp"

namespace ioweave::cli {

int run_command(Arguments arguments) {
  RunOptions options;
  if (const auto code = parse_run(arguments, options)) return *code;
  RunKind kind;
  kind.text = &summary_text;
  kind.brief = {.files = 3, .remarks = 3, .small_files = false};
  kind.verbose = {.files = 20, .remarks = 10, .small_files = true};
  return run_program(options, kind);
}

}  // namespace ioweave::cli
