#pragma once

#include <cstdint>
#include <string>

namespace ioweave {

/// What a result means nothing without. Texts are empty where the system does not tell.
struct Machine {
  std::string host;
  std::string kernel;         ///< the release: "6.18.0"
  std::string architecture;   ///< "x86_64"
  std::string processor;      ///< the model's name
  uint32_t cpus = 0;          ///< online
  uint32_t cpus_allowed = 0;  ///< by affinity or cgroup set
  uint64_t memory_bytes = 0;
};

[[nodiscard]] Machine this_machine();

}  // namespace ioweave
