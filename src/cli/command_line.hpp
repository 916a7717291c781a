#pragma once

// The command line of each subcommand as plain values. Only command_line.cpp includes CLI11, which
// adds seconds to the compilation of a file.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "device/profile.hpp"

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
  std::string record_file;  ///< write a plan of the reads there; empty: none
  std::string replay_file;  ///< read ahead by this plan; empty: none
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
  std::string why;  ///< a file of the run to explain; empty: none
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

/// What `bench` varies, while all else stays as it is.
enum class Study : uint8_t { share, block, pattern, depth };

struct BenchOptions {
  std::string path;  ///< a folder, or a file that is only read
  std::vector<Study> studies;
  bool all = false;  ///< every combination instead of the studies
  std::vector<device::IoWay> ways;
  std::vector<bool> direct;             ///< true: O_DIRECT; false: through the page cache
  std::vector<bool> random;             ///< true: random; false: sequential
  std::vector<unsigned> read_percents;  ///< ascending
  std::vector<uint64_t> blocks;         ///< bytes, ascending
  std::vector<unsigned> depths;         ///< ascending
  uint64_t block_bytes = 256u << 10;    ///< where the block is not varied
  uint64_t file_bytes = 1u << 30;
  double seconds = 0.5;  ///< most time of a sample
  unsigned repetitions = 3;
  std::string with;       ///< "fio" or "ioweave"; empty: fio where it is installed
  std::string from;       ///< show this profile instead of measuring
  std::string pictures;   ///< write pictures into this folder; empty: none
  bool json = false;      ///< write the profile
  std::string json_file;  ///< to this file; empty: instead of the tables
};

/// The values of `bench` that are lists or sizes, as they were typed; empty: the default.
struct BenchWords {
  std::string studies;
  std::string ways;
  std::string cache;
  std::string patterns;
  std::string read_percents;
  std::string blocks;
  std::string depths;
  std::string block;
  std::string size;
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
[[nodiscard]] std::optional<int> parse_bench(Arguments arguments, BenchOptions& options);

}  // namespace ioweave::cli
