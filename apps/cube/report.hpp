#pragma once

#include <memory>
#include <string>

#include "options.hpp"

namespace cube {

/// The file of --json: opened first, so that a mistake in its name costs no computation.
class ReportFile {
 public:
  /// "-" is standard output. Throws CubeError.
  explicit ReportFile(std::string path);
  /// Throws CubeError.
  void write(const RemapOptions& options, const Report& report);

 private:
  [[noreturn]] void fail() const;

  std::string path_;
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
};

}  // namespace cube
