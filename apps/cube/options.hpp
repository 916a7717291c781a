#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "remap.hpp"

namespace cube {

/// A command line that cannot be meant; the text names the option and the way out.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The command line, checked.
struct Options {
  bool help = false;
  RemapOptions remap;
  std::optional<std::string> json;  // a file, or "-" for standard output
};

/// Throws UsageError.
Options parse_options(int argc, char** argv);

/// "64K", "1M", "2G" or a plain number of bytes; empty if it is neither, or above 2^63.
std::optional<uint64_t> parse_size(const std::string& text);

std::string help_text();

}  // namespace cube
