#pragma once

#include <cstdint>
#include <string>

#include "cipher.hpp"

namespace hill {

/// Where the time went; the phases do not overlap.
struct Stats {
  double read_s = 0;
  double compute_s = 0;
  double write_s = 0;
  double fsync_s = 0;
  double total_s = 0;  // from the first read to the closing of the output
  uint64_t chunks = 0;
  uint64_t bytes = 0;
};

struct FileJob {
  std::string input;
  std::string output;
  size_t chunk_bytes;  // a multiple of kPieceBytes
  bool fsync;
  bool verbose;  // a line per chunk on standard error
};

/// Enciphers `job.input` into `job.output`, which is replaced. Throws std::runtime_error with a
/// message for the user, and then removes an output that is a regular file: a part of a file
/// would pass for the whole.
Stats encipher_file(Cipher& cipher, const FileJob& job);

}  // namespace hill
