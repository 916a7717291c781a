#pragma once

#include <string>

#include <sys/stat.h>

namespace ioweave::calls {

/// A file of reports, such as that of IOWEAVE_TASK_REPORT. Constructed at the beginning: later the
/// program may have another folder and other descriptors.
class ReportFile {
 public:
  /// Nothing is written where `path` is empty. May throw std::bad_alloc.
  explicit ReportFile(std::string path);

  [[nodiscard]] bool is_wanted() const noexcept { return !path_.empty(); }
  /// Adds a line at the end of the file. Says on standard error if that fails.
  void add(const std::string& line) const noexcept;
  /// Prints on standard error, but nothing where descriptor 2 is no longer what it was: a program
  /// may close it and open a file of its own there, which a word of ours would spoil.
  void print(const std::string& text) const noexcept;

 private:
  std::string path_;
  struct stat standard_error_ {};
};

}  // namespace ioweave::calls
