#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cipher.hpp"
#include "numbers.hpp"

namespace hill {

using apps::parse_count;
using apps::parse_size;
using apps::UsageError;

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

std::string help_text();

}  // namespace hill
