#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "support/temp_dir.hpp"

namespace ioweave::test {

/// Writes a file in the directory and returns its path.
inline std::string write_text(const TempDir& folder, const std::string& name,
                              std::string_view text) {
  std::ofstream(folder.file(name), std::ios::binary) << text;
  return folder.file(name);
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace ioweave::test
