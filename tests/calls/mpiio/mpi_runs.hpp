#pragma once

// Runs of MPI programs with and without the library, by the MPI that the test is built for.

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/shell.hpp"

namespace ioweave::test {

inline constexpr int kMostSeconds = 20;
inline constexpr int kTimedOut = 124;  ///< the status of timeout(1)

/// Which parts of Open MPI can make the transfers; MPICH has one, without a name.
inline std::vector<const char*> mpiio_parts() {
  return std::string(IOWEAVE_MPI) == "openmpi" ? std::vector<const char*>{"ompio", "romio321"}
                                               : std::vector<const char*>{""};
}

/// A word for the launcher's environment that chooses one of them.
inline std::string choose_part(const std::string& part) {
  return part.empty() ? "" : "OMPI_MCA_io=" + part;
}

/// The launcher behind `before`, words of its environment. `words`: for the ranks.
inline std::string mpirun(int ranks, const std::string& before, const std::string& words) {
  return std::string(kOpenMpiWords) + "OMPI_MCA_mpi_yield_when_idle=1 " + before +
         " timeout -k 1 " + std::to_string(kMostSeconds) + " " + IOWEAVE_MPIRUN + " -n " +
         std::to_string(ranks) + " env " + words + " ";
}

/// Words for the ranks: with the library, which foretells whatever follows a pattern.
inline std::string with_library(const std::string& schedule, const std::string& report) {
  return std::string("LD_PRELOAD=") + IOWEAVE_MPIIO_LIBRARY +
         " IOWEAVE_MPIIO_EAGER=1 IOWEAVE_MPIIO_SCHEDULE=" + schedule +
         " IOWEAVE_MPIIO_REPORT=" + report;
}

inline std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Of a report's lines, the sum of a number over the ranks.
inline uint64_t reported(const std::string& report, const std::string& name) {
  uint64_t sum = 0;
  const std::string key = "\"" + name + "\":";
  for (size_t at = report.find(key); at != std::string::npos; at = report.find(key, at + 1)) {
    sum += std::strtoull(report.c_str() + at + key.size(), nullptr, 10);
  }
  return sum;
}

}  // namespace ioweave::test
