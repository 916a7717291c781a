#pragma once

#include <cstdint>
#include <string>

#include "chunk_loop.hpp"

namespace matrix_search {

/// The command line, checked.
struct Options {
  bool help = false;
  apps::LoopOptions loop;
  uint64_t make_bytes = 0;  // above 0: make the matrix, search nothing
  uint64_t seed = 1;        // of a matrix that is made
  size_t sub_matrices = 4;  // of the PPIS paper, as the next one
  size_t top = 30;
};

/// Throws apps::UsageError.
Options parse_options(int argc, char** argv);

std::string help_text();

}  // namespace matrix_search
