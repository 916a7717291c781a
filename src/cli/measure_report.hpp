#pragma once

// What `ioweave measure` says: pure functions of what it found.

#include <string>
#include <vector>

#include "base/machine.hpp"
#include "cli/command_line.hpp"
#include "device/curve.hpp"
#include "device/mounts.hpp"
#include "stats/run_report.hpp"

namespace ioweave::cli {

struct Measurement {
  MeasureOptions options;
  std::string folder;  ///< absolute, without links
  device::Mount mount;
  Machine machine;
  std::string date;
  std::vector<device::Durable> warm_up;
  std::vector<device::Sample> writes;
  std::vector<device::Sample> reads;  ///< empty unless asked for
  double still_cached = 0;            ///< part of a file, before reading
};

/// The device's name in ioweave.toml: as asked for, or the last part of the mount point.
[[nodiscard]] std::string device_name(const Measurement& measured);

/// What a type of file system, as in /proc/self/mountinfo, means for figures of its device.
void remark_on_place(const std::string& type, std::vector<std::string>& remarks);

/// What has to be known before the figures are believed, in whole sentences.
[[nodiscard]] std::vector<std::string> measure_remarks(const Measurement& measured);

[[nodiscard]] std::string measure_text(const Measurement& measured);
[[nodiscard]] std::string measure_toml(const Measurement& measured);
[[nodiscard]] std::string measure_json(const Measurement& measured);

}  // namespace ioweave::cli
