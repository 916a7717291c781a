#pragma once

// The command line of each subcommand as plain values. Only command_line.cpp includes CLI11, which
// adds seconds to the compilation of a file.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/settings.hpp"

namespace ioweave::cli {

/// Arguments behind the subcommand's name.
using Arguments = std::span<const char* const>;

struct RunOptions {
  config::Layer settings;            ///< the settings of the options, as the topmost layer
  std::vector<std::string> command;  ///< the program and its arguments, never empty
  bool json = false;                 ///< write the summary as JSON
  std::string json_file;             ///< to this file; empty: on standard error instead of the text
  bool program_behind_json = false;  ///< "--json x" was given, which may mean --json=x
  bool keep_run_directory = false;
  unsigned verbose = 0;
};

struct AdviseOptions {
  RunOptions run;                    ///< its command is empty if a run file is given
  std::string run_file;              ///< empty: the program is observed now
  std::vector<std::string> changed;  ///< behind a run file: the program as it was changed
  std::string picture;               ///< write the picture there; empty: none
  bool verify = false;
  bool probe = true;
};

struct ReportOptions {
  std::string run_file;
  bool verbose = false;
};

struct DoctorOptions {
  std::string path;
  bool json = false;
};

struct ConfigOptions {
  enum class Action : uint8_t { show, explain, list };
  Action action = Action::show;
  std::string path;   ///< the argument of explain
  bool json = false;  ///< for show and explain
};

struct PathOptions {
  bool preload = false;
  bool cmake = false;
  bool pkgconfig = false;
};

struct MeasureOptions {
  std::string folder;
  std::vector<unsigned> streams;  ///< ascending
  double seconds = 1;             ///< the duration of each sample
  uint64_t bytes = 32u << 20;     ///< the size of each stream's file
  unsigned repetitions = 5;
  double warm_up_s = 3;
  bool direct = false;
  bool read = false;
  bool toml = false;      ///< print the device as TOML instead of the table
  std::string name;       ///< the name of the device; empty: guessed
  bool json = false;      ///< write the report as JSON
  std::string json_file;  ///< to this file; empty: instead of the table
};

// Each function returns nothing if the command is to continue. Otherwise it returns the exit code:
// 0 after printing help, 125 after naming a mistake and the nearest correct word.
[[nodiscard]] std::optional<int> parse_run(Arguments arguments, RunOptions& options);
[[nodiscard]] std::optional<int> parse_stat(Arguments arguments, RunOptions& options);
[[nodiscard]] std::optional<int> parse_advise(Arguments arguments, AdviseOptions& options);
[[nodiscard]] std::optional<int> parse_report(Arguments arguments, ReportOptions& options);
[[nodiscard]] std::optional<int> parse_doctor(Arguments arguments, DoctorOptions& options);
[[nodiscard]] std::optional<int> parse_config(Arguments arguments, ConfigOptions& options);
[[nodiscard]] std::optional<int> parse_path(Arguments arguments, PathOptions& options);
[[nodiscard]] std::optional<int> parse_measure(Arguments arguments, MeasureOptions& options);

}  // namespace ioweave::cli
