#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cell.hpp"
#include "sweep.hpp"

namespace tiom {

enum class Pattern : uint8_t { sequential, random };
enum class RuntimeKind : uint8_t { threads, openmp, tbb, alpi, coroutine };

std::string_view pattern_name(Pattern pattern);
std::string_view runtime_name(RuntimeKind kind);

/// The command line, checked for itself: what depends on the machine is checked where it is used.
struct Options {
  bool help = false;
  bool list = false;
  bool advise = false;

  std::vector<Mode> modes{Mode::mix};
  std::vector<uint64_t> blocks{4096, 65536, 1 << 20};
  std::vector<uint64_t> computes{100'000, 1'000'000, 10'000'000};
  unsigned series = 128;  // of the TASIO paper

  bool write = false;
  Pattern pattern = Pattern::random;
  bool direct = true;
  uint64_t bytes = uint64_t{256} << 20;
  uint64_t time_limit_ns = 2'000'000'000;
  unsigned repetitions = 5;
  unsigned threads = 0;  ///< 0: as many as there are cores

  RuntimeKind runtime = RuntimeKind::threads;
  std::optional<std::vector<Variant>> variants;  ///< empty: all the runtime has
  std::string alpi_library;
  bool reap_in_task = false;  ///< IOW_REAPER_TASK

  std::string file;  ///< empty: a file of its own in the current directory
  bool overwrite = false;
  std::string json;
  std::string html;
  std::string png;
  std::string resume;

  std::vector<std::string> command;  ///< as given, for the reports

  /// The sweep: modes x blocks x computes, in the order in which they are run.
  [[nodiscard]] std::vector<Cell> cells() const;
};

/// Of the words behind the program's name. Throws UsageError.
Options parse_options(const std::vector<std::string>& words);

std::string help_text();

}  // namespace tiom
