#pragma once

// The state file of --resume: what was asked for, and the cells that are finished.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report.hpp"

namespace tiom {

/// The options and machine that cells of one state file have in common, as (name, value).
using Identity = std::vector<std::pair<std::string, std::string>>;

Identity identity_of(const Options& options);

/// "--name" of the first value that differs, with both values, as a sentence; or empty.
std::string difference(const Identity& before, const Identity& now);

class StateFile {
 public:
  /// Reads the file if it is there. Throws std::runtime_error where it is something else, and
  /// UsageError where it was made with other options, naming the first.
  StateFile(std::string path, Identity identity);

  /// The result of a finished cell, or null.
  [[nodiscard]] const CellResult* find(const Cell& cell) const;

  /// That of the first part, if there was one: all cells are to do the same work.
  [[nodiscard]] const std::optional<Calibration>& calibration() const { return calibration_; }

  void set_calibration(const Calibration& calibration) { calibration_ = calibration; }

  /// Adds a finished cell and writes the file, so that it is whole at any time.
  void add(const CellResult& cell);

 private:
  void read(const std::string& text);

  std::string path_;
  Identity identity_;
  std::optional<Calibration> calibration_;
  std::vector<CellResult> cells_;
};

}  // namespace tiom
