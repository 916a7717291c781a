#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "server.hpp"

namespace slowfs {

/// A command line that cannot be meant; the text names the option and the way out.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The command line, checked. Immutable after parsing.
struct Options {
  enum class Action { kMount, kUnmount, kHelp };

  Action action = Action::kMount;
  std::string source;
  std::string mountpoint;

  double read_mb_s = 0;   // 10^6 bytes per second; 0: no limit
  double write_mb_s = 0;  // 0: no limit
  uint64_t latency_us = 0;
  uint64_t metadata_latency_us = 0;
  uint64_t slack_us = kDefaultSlackUs;
  bool per_file = false;
  bool full_duplex = false;
  std::vector<Efficiency::Point> efficiency;  // empty: the same for any number of streams

  bool write_back = false;
  bool discard = false;
  unsigned max_background = 64;
  unsigned max_readahead_kb = 128;

  int64_t bad_at = -1;        // no read of this byte of a file succeeds; -1: there is none
  int64_t bad_write_at = -1;  // no write of this byte does

  bool foreground = false;
  int ready_fd = -1;

  static constexpr uint64_t kDefaultSlackUs = 100;
};

/// Throws UsageError.
Options parse_options(int argc, char** argv);

std::string help_text();

}  // namespace slowfs
