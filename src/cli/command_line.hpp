#pragma once

// The command line of each subcommand, as plain values. Only command_line.cpp sees CLI11, which
// costs seconds to compile in each file that includes it.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/settings.hpp"

namespace ioweave::cli {

/// Arguments behind the subcommand's name.
using Arguments = std::span<const char* const>;

struct RunOptions {
  config::Layer settings;            ///< what the options say, as the topmost layer
  std::vector<std::string> command;  ///< the program and its arguments, never empty
  bool json = false;                 ///< the summary as JSON
  std::string json_file;             ///< there; empty: on standard error in place of the text
  bool program_behind_json = false;  ///< "--json x": x may be meant as --json=x
  bool keep_run_directory = false;
  unsigned verbose = 0;
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
  std::string path;   ///< of explain
  bool json = false;  ///< of show and explain
};

struct PathOptions {
  bool preload = false;
  bool cmake = false;
  bool pkgconfig = false;
};

struct MeasureOptions {
  std::string folder;
  std::vector<unsigned> streams;  ///< ascending
  double seconds = 1;             ///< of each sample
  uint64_t bytes = 32u << 20;     ///< of each stream's file
  unsigned repetitions = 5;
  double warm_up_s = 3;
  bool direct = false;
  bool read = false;
  bool toml = false;      ///< the device as TOML in place of the table
  std::string name;       ///< of the device; empty: guessed
  bool json = false;      ///< the report as JSON
  std::string json_file;  ///< there; empty: in place of the table
};

// Each returns nothing where the command shall go on, else its exit code: help was printed (0), or
// the mistake was named with the nearest right word (125).
[[nodiscard]] std::optional<int> parse_run(Arguments arguments, RunOptions& options);
[[nodiscard]] std::optional<int> parse_stat(Arguments arguments, RunOptions& options);
[[nodiscard]] std::optional<int> parse_report(Arguments arguments, ReportOptions& options);
[[nodiscard]] std::optional<int> parse_doctor(Arguments arguments, DoctorOptions& options);
[[nodiscard]] std::optional<int> parse_config(Arguments arguments, ConfigOptions& options);
[[nodiscard]] std::optional<int> parse_path(Arguments arguments, PathOptions& options);
[[nodiscard]] std::optional<int> parse_measure(Arguments arguments, MeasureOptions& options);

}  // namespace ioweave::cli
