#pragma once

// What a process of a run has held back of its writes (stats/behind_pool.hpp), seen by the command.

#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "stats/behind_pool.hpp"
#include "stats/run_report.hpp"

namespace ioweave::cli {

/// One pool. It is data that another program wrote: nothing in it is trusted, and it is read by
/// system calls and never mapped. One thread.
class HeldWrites {
 public:
  /// Opens the pool of this name in the run's directory, and reads who it belongs to.
  HeldWrites(int directory, const std::string& name);

  [[nodiscard]] bool is_readable() const noexcept { return pool_ != nullptr; }

  /// Returns true if it is certain that the process writes nothing any more. (Processes of other
  /// name spaces hold nothing back.)
  [[nodiscard]] bool process_is_gone() const;

  /// Waits as long as the process is ending, at most some seconds. Returns as process_is_gone().
  [[nodiscard]] bool await_end() const;

  /// Reads the rest of the pool. False if that is not possible.
  [[nodiscard]] bool load();

  // Of what was read.
  void add_figures(stats::BehindReport& report) const noexcept;

  /// Writes what is left to the files, if they are still what they were, in the order in which the
  /// process wrote it. What cannot be written is a remark.
  void write_rest(stats::BehindReport& report, std::vector<std::string>& remarks) const;

 private:
  [[nodiscard]] int write_block(const stats::BehindBlock& block, const Descriptor& target,
                                uint64_t& bytes) const;

  Descriptor file_;
  std::unique_ptr<stats::BehindPool> pool_;  ///< a copy, without the bytes
};

}  // namespace ioweave::cli
