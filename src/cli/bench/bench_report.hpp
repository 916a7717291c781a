#pragma once

// What `ioweave bench` says: pure functions of the profile that it measured.

#include <string>
#include <vector>

#include "device/profile.hpp"

namespace ioweave::cli {

/// The tables of all studies, the findings and the remarks.
[[nodiscard]] std::string bench_text(const device::Profile& profile);

/// What the figures mean for a program, in whole sentences.
[[nodiscard]] std::vector<std::string> bench_findings(const device::Profile& profile);

/// What has to be known before the figures are believed, in whole sentences.
[[nodiscard]] std::vector<std::string> bench_remarks(const device::Profile& profile);

struct Picture {
  std::string name;  ///< of its file: "block.svg"
  std::string svg;
};

/// A picture for each study that the profile holds, a panel for each of its tables.
[[nodiscard]] std::vector<Picture> bench_pictures(const device::Profile& profile);

}  // namespace ioweave::cli
