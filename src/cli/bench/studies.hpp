#pragma once

// Which loads `ioweave bench` measures, and which of them are seen beside each other. Pure.
//
// A study varies one thing and leaves the others as they are, as in figures 2 to 4 of the paper on
// asynchronous I/O for HPC I/O patterns: the share of reads, the block, the pattern; and beyond it
// the depth.

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.hpp"
#include "device/profile.hpp"

namespace ioweave::cli {

/// Takes the words of the command line. Returns the mistake in them, or an empty text.
[[nodiscard]] std::string take_studies(const BenchWords& words, BenchOptions& options);

/// Returns the loads to be measured, each once. Left out is what cannot be: psync with more than
/// one transfer at a time, IOPOLL through the page cache, blocks that do not fit the file, writes
/// where `read_only`, transfers under way that need more than 1 GiB of memory.
[[nodiscard]] std::vector<device::Load> planned_loads(const BenchOptions& options,
                                                      uint64_t file_bytes, bool read_only);

/// A table, and a panel of a picture: some loads that differ in one thing, by every way.
struct View {
  Study study = Study::block;
  bool direct = false;
  std::string title;               ///< "sequential writes, O_DIRECT, one at a time"
  std::string axis;                ///< what differs: "block"
  std::vector<std::string> names;  ///< of the rows: "4 KiB"
  std::vector<device::Load> rows;  ///< with whatever way
  /// What is shown of a result, in MB/s.
  double (device::LoadResult::*value)() const = &device::LoadResult::mb_per_s;
};

/// Returns the views that the results of a profile allow: those with two rows and more.
[[nodiscard]] std::vector<View> views_of(const device::Profile& profile);

/// "random reads of 4 KiB, O_DIRECT, 16 at a time"
[[nodiscard]] std::string load_text(const device::Load& load);

/// "4 KiB", "64 MiB"
[[nodiscard]] std::string block_text(uint64_t bytes);

[[nodiscard]] std::string_view study_name(Study study) noexcept;

}  // namespace ioweave::cli
