#pragma once

#include <string>

#include <unistd.h>

#include "cli/output.hpp"

namespace ioweave::cli {

/// Tells on standard error how far a long work is: on a terminal by one line that is rewritten, and
/// gone at the end; else by lines.
class ProgressLine {
 public:
  /// `command`: "measure".
  explicit ProgressLine(std::string command)
      : command_(std::move(command)), terminal_(isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() {
    if (terminal_) print_error("\r\033[K");
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Whoever tells much tells less where each text is a line of its own.
  [[nodiscard]] bool is_terminal() const noexcept { return terminal_; }

  void show(const std::string& text) const {
    print_error((terminal_ ? "\r" : "") + ("ioweave " + command_ + ": " + text) +
                (terminal_ ? "\033[K" : "\n"));
  }

 private:
  const std::string command_;
  const bool terminal_;
};

}  // namespace ioweave::cli
