#pragma once

#include <string>

#include "base/waiting_text.hpp"
#include "cell.hpp"

namespace tiom {

using ioweave::waiting_text;

/// Tells on standard error how far the sweep is: on a terminal one line that is rewritten, else a
/// line for each cell.
class Progress {
 public:
  /// `expected_s`: of all cells together, as estimated.
  Progress(size_t cells, double expected_s);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void start_cell(const Cell& cell, double expected_s, size_t runs);
  void ran(const RunFigures& run);
  void end_cell(const CellResult& cell);

  /// From what is left of the estimate, corrected by how good it has been so far.
  [[nodiscard]] double seconds_left() const;

 private:
  void show(const std::string& text) const;

  const size_t cells_;
  const double expected_s_;
  const bool terminal_;
  size_t cell_ = 0;
  std::string cell_text_;
  size_t run_ = 0;
  size_t runs_ = 0;
  double cell_expected_s_ = 0;
  double expected_done_s_ = 0;  ///< the estimate of what has been run
  double done_s_ = 0;           ///< and what that took
};

}  // namespace tiom
