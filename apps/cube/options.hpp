#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "numbers.hpp"
#include "remap.hpp"

namespace cube {

using apps::parse_count;
using apps::parse_size;
using apps::UsageError;

/// The command line, checked.
struct Options {
  bool help = false;
  RemapOptions remap;
  std::optional<std::string> json;  // a file, or "-" for standard output
};

/// Throws UsageError.
Options parse_options(int argc, char** argv);

std::string help_text();

}  // namespace cube
