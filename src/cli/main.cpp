// The command `ioweave`: finds the subcommand and calls it. Each subcommand has a file of its own.

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "base/nearest_name.hpp"
#include "cli/commands.hpp"
#include "cli/locations.hpp"
#include "cli/output.hpp"

namespace {

using ioweave::cli::Arguments;

struct Command {
  std::string_view name;
  int (*function)(Arguments);
};

constexpr std::array<Command, 10> kCommands{{{"run", &ioweave::cli::run_command},
                                             {"stat", &ioweave::cli::stat_command},
                                             {"advise", &ioweave::cli::advise_command},
                                             {"report", &ioweave::cli::report_command},
                                             {"doctor", &ioweave::cli::doctor_command},
                                             {"config", &ioweave::cli::config_command},
                                             {"path", &ioweave::cli::path_command},
                                             {"measure", &ioweave::cli::measure_command},
                                             {"bench", &ioweave::cli::bench_command},
                                             {"tiom", &ioweave::cli::tiom_command}}};

constexpr const char* kVersion = "ioweave " IOWEAVE_VERSION "\n";

constexpr const char* kHelp = R"(Ioweave weaves storage I/O through computation.

Usage: ioweave COMMAND [OPTIONS] ...

Commands:
  run      run a program and hide its I/O behind its computation
  stat     run a program unchanged and report its I/O
  advise   predict what overlapping I/O and computation would gain a program
  report   print the summary of a run file
  doctor   check what Ioweave can use here, what is missing and who can fix it
  config   show or explain settings
  path     print the paths of parts of this installation
  measure  measure the MB/s of a storage device with 1, 2, 4, ... streams at once
  bench    compare the ways of doing I/O (psync, io_uring) on a storage device
  tiom     measure the gain of task-aware I/O for tasks that compute and do I/O

Options:
  -h, --help     print this help; after a command, the help of that command
  --version      print the version

Examples:
  ioweave run -- ./simulate input.dat
  ioweave run -o run.jsonl -- ./simulate input.dat
  ioweave stat -- ./simulate input.dat
  ioweave advise -- ./simulate input.dat
  ioweave report run.jsonl
  ioweave doctor /scratch
  ioweave config explain /scratch/run7.h5
  ioweave measure --toml scratch /scratch >>ioweave.toml
  ioweave bench /scratch
  ioweave tiom --advise -b 64k -c 1ms -f /scratch/tiom.dat
)";

/// The help without the commands that this installation lacks: a Python wheel holds no tiom.
std::string help_text() {
  std::string why;
  if (!ioweave::cli::locate(ioweave::cli::Location::tiom, why).empty()) return kHelp;
  std::string text;
  for (std::string_view rest = kHelp; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n') + 1);
    if (line.find("tiom") == std::string_view::npos) text += line;
    rest.remove_prefix(line.size());
  }
  return text;
}

constexpr std::array<std::string_view, 2> kOptions{"--help", "--version"};

/// Returns the option that was probably meant. For "-V", as other commands have it, it is the
/// option that begins with this letter.
std::string_view nearest_option(std::string_view word) {
  if (word.size() != 2) return ioweave::nearest_name(word, kOptions);
  const auto* const found = std::ranges::find_if(kOptions, [&](std::string_view option) {
    return option[2] == static_cast<char>(word[1] | 0x20);
  });
  return found == kOptions.end() ? std::string_view{} : *found;
}

std::string_view nearest_command(std::string_view word) {
  std::array<std::string_view, kCommands.size()> names;
  std::ranges::transform(kCommands, names.begin(), &Command::name);
  return ioweave::nearest_name(word, names);
}

int refuse(std::string_view word) {
  const bool is_option = word.starts_with('-');
  const std::string_view nearest = is_option ? nearest_option(word) : nearest_command(word);
  std::string text = is_option ? "unknown option '" : "unknown command '";
  text += std::string(word) + "'";
  text += nearest.empty() ? " (see 'ioweave --help')"
                          : "; did you mean '" + std::string(nearest) + "'?";
  ioweave::cli::complain(text);
  return ioweave::cli::kFailed;
}

int dispatch(Arguments words) {
  if (words.empty()) {
    ioweave::cli::print_error(help_text());
    return ioweave::cli::kFailed;
  }
  const std::string_view word = words[0];
  if (word == "-h" || word == "--help" || word == "help") {
    ioweave::cli::print(help_text());
    return 0;
  }
  if (word == "--version") {
    ioweave::cli::print(kVersion);
    return 0;
  }
  const auto* const command = std::ranges::find(kCommands, word, &Command::name);
  return command == kCommands.end() ? refuse(word) : command->function(words.subspan(1));
}

}  // namespace

int main(int argc, char** argv) {
  ioweave::cli::guard_standard_streams();
  try {
    const auto words = static_cast<size_t>(std::max(argc, 1));
    const int code = dispatch(Arguments(argv, words).subspan(argc > 0 ? 1 : 0));
    const int error = ioweave::cli::print_failure();
    if (error == 0 || code == ioweave::cli::kFailed) return code;
    ioweave::cli::complain("cannot write to standard output: " +
                           std::string(std::strerror(-error)));
    return ioweave::cli::kFailed;
  } catch (const std::exception& error) {
    // Only std::bad_alloc gets here: all other errors are handled where they happen.
    ioweave::cli::complain(error.what());
    return ioweave::cli::kFailed;
  }
}
