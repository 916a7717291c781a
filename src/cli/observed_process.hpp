#pragma once

// The process of a run that spent most time in I/O on files, as slots of its time: what the model
// predicts from. Pure functions of a run report.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/advice.hpp"
#include "stats/run_report.hpp"

namespace ioweave::cli {

struct ObservedProcess {
  int32_t pid = 0;
  double seconds = 0;  ///< from its first image to the end of its last
  double slot_s = 0;
  std::vector<model::Slot> slots;
  std::string read_file;         ///< of which most was read; empty: none
  std::string written_file;      ///< to which most was written; empty: none
  uint64_t read_file_bytes = 0;  ///< read of it
  uint64_t read_bytes = 0;       ///< of all files
  uint64_t written_bytes = 0;    ///< to all files
  bool has_calls = false;        ///< reads were timed call by call, not by positions
  bool one_device = false;       ///< both files have the same device number
  double jumps = 0;              ///< the part of the reads that followed no pattern
  bool is_direct = false;        ///< the file was read with O_DIRECT
  bool writes_are_cached =
      false;          ///< into the page cache of a disk, and nothing waited for the disk
  size_t others = 0;  ///< further processes that did I/O on files

  [[nodiscard]] double read_s() const noexcept;
  [[nodiscard]] double read_turns() const noexcept;
  [[nodiscard]] double write_turns() const noexcept;
};

/// Returns nothing if nothing can be predicted from the run; `why` says why, and what would help.
[[nodiscard]] std::optional<ObservedProcess> observed_process(const stats::RunReport& report,
                                                              std::string& why);

}  // namespace ioweave::cli
