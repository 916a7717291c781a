#pragma once

#include <cstdint>
#include <string>

namespace tiom {

/// What a result means nothing without.
struct Machine {
  std::string host;
  std::string kernel;
  std::string processor;
  unsigned cores = 1;       ///< that this process may use
  std::string file_system;  ///< of the measured file: "ext4"
  std::string device;       ///< below it: "/dev/vda"
  double load = 0;          ///< of the last minute, before anything was measured
  std::string date;         ///< "2026-01-31T12:00:00Z"
};

/// `fd` is the measured file.
Machine this_machine(int fd);

/// A sentence for a machine that was busy with something else, or empty.
std::string load_remark(const Machine& machine);

/// Host and processor: what figures of one sweep must have in common.
std::string machine_name();

unsigned usable_cores();

/// MemAvailable of /proc/meminfo in bytes, or 0 where that cannot be told.
uint64_t available_memory();

}  // namespace tiom
