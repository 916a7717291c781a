#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/file_id.hpp"

namespace ioweave::calls {

/// What the command is told that runs the program (`ioweave run`), in the run's directory. Nothing
/// where there is none. Thread-safe, as each note is one write(2) at the end of a file.
class RunNotes {
 public:
  /// Finds the directory by the environment. May throw std::bad_alloc.
  RunNotes();

  [[nodiscard]] bool are_wanted() const noexcept { return !files_.empty(); }
  /// MPI-IO has opened this file: the command reads ahead of it no more.
  void add_file(const FileId& file) const noexcept;
  /// The line of this rank.
  void add_report(std::string_view line) const noexcept;

 private:
  static void append(const std::string& path, const void* note, size_t bytes) noexcept;

  std::string files_;
  std::string report_;
};

}  // namespace ioweave::calls
