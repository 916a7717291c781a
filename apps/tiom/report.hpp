#pragma once

// Everything a sweep found, and the forms in which it is given out.

#include <string>
#include <vector>

#include "cell.hpp"
#include "compute.hpp"
#include "machine.hpp"
#include "options.hpp"

namespace tiom {

struct Report {
  Options options;
  Machine machine;
  std::string runtime;  ///< with its version
  std::string engine;   ///< of the service: "io_uring"
  std::string tasks;    ///< its task runtime: "oneTBB", "none"
  unsigned workers = 1;
  unsigned cores = 1;  ///< that the workers keep busy: at most as many as there are
  Calibration calibration;
  std::vector<Variant> variants;
  std::vector<CellResult> cells;
};

/// The options that decide what is measured, as "name value" words of the command line.
std::string workload_text(const Options& options);

/// A row for each cell, for a terminal or a file.
std::string table_text(const Report& report);

std::string json_text(const Report& report);

/// A self-contained page: heat maps, table, machine.
std::string html_text(const Report& report);

/// Writes the heat maps as a picture. Throws std::runtime_error, also where cairo was not built in.
void write_png(const Report& report, const std::string& path);

/// Empty, or why write_png() cannot work.
std::string missing_png();

/// Writes a whole file or "-", standard output. Throws std::runtime_error that names the file.
void write_text(const std::string& path, const std::string& text);

}  // namespace tiom
