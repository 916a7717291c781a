#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "cipher.hpp"

namespace hill {

/// A command line that cannot be meant; the text names the option and the way out.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The command line, checked.
struct Options {
  bool help = false;
  Cipher::Direction direction = Cipher::Direction::kEncrypt;
  std::string input;
  std::string output;

  size_t key_size = 100;  // of the PPIS paper
  uint64_t seed = 1;
  std::optional<std::string> key_file;  // instead of key_size and seed
  unsigned rounds = 1;

  size_t chunk_bytes = size_t{64} << 20;
  bool fsync = false;
  bool verbose = false;
  std::optional<std::string> stats_json;
};

/// Throws UsageError.
Options parse_options(int argc, char** argv);

/// "64K", "1M", "2G" or a plain number of bytes; empty if it is neither, or above 2^63.
std::optional<uint64_t> parse_size(const std::string& text);

std::string help_text();

}  // namespace hill
