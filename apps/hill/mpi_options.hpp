#pragma once

#include <cstdint>
#include <string>

#include "chunk_loop.hpp"

namespace hill {

/// The command line of hill_mpi, checked.
struct MpiOptions {
  bool help = false;
  apps::LoopOptions loop;
  uint64_t chunk_bytes = uint64_t{64} << 20;
  size_t key_size = 100;  // of the PPIS paper
  uint64_t seed = 1;
  unsigned rounds = 1;
};

/// Throws apps::UsageError.
MpiOptions parse_mpi_options(int argc, char** argv);

std::string mpi_help_text();

}  // namespace hill
