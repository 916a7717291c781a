// The program: reads a profile, computes all results, writes the new profile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan.hpp"
#include "result_writer.hpp"

namespace cube {

struct RemapOptions {
  std::string input;
  std::string output;
  PlanOptions plan;
  WriterOptions writer;  // path and bytes are set here
  unsigned compute_threads = 1;
  double work = 1;           // how often each result is computed
  uint64_t alone_items = 0;  // so many are computed once more, while nothing is written
  bool verbose = false;
};

/// Where the time went. Times of several computing threads are added up.
struct Report {
  double read_s = 0;     // stored values of the input
  double compute_s = 0;  // results, and the anchor
  double write_s = 0;    // handing buffers over: in the synchronous mode, the writing
  double wait_s = 0;     // for buffers, and in the end for what is still being written
  double total_s = 0;    // from the first result until all is written
  double durable_s = 0;  // from the first result until the device has all of it
  uint64_t threads = 0;
  uint64_t columns = 0;
  uint64_t metrics = 0;
  uint64_t rows = 0;
  uint64_t items = 0;
  uint64_t bytes = 0;
  uint64_t alone_items = 0;
  double alone_s = 0;   // of their computation while nothing was written
  double beside_s = 0;  // of the same items before that, while others were written
  std::vector<std::string> notes;
};

/// Throws CubeError, and removes an output that it could not finish.
Report remap(const RemapOptions& options);

}  // namespace cube
