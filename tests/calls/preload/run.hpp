#pragma once

// Runs a program under the interposer as `ioweave run` does: a run directory with a configuration,
// LD_PRELOAD, and the segments read afterwards.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend.hpp"
#include "stats/segment.hpp"

namespace ioweave::testing {

/// One process image as its segment left it.
using Image = std::shared_ptr<const stats::Segment>;

struct Finished {
  int status = 0;   ///< of waitpid(2)
  std::string out;  ///< its standard output
  std::string err;  ///< its standard error
  std::vector<Image> images;

  [[nodiscard]] bool exited_with(int code) const;
  /// The first image of a program whose path ends so, or null.
  [[nodiscard]] const stats::Segment* image(const std::string& program_suffix) const;
};

/// A fresh directory for a test's files, removed with everything in it.
class TemporaryDirectory {
 public:
  /// On the disk (build folder), or on tmpfs where `in_memory`.
  explicit TemporaryDirectory(bool in_memory = false);
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct RunOptions {
  config::RunConfig config;
  bool interposed = true;
  bool capture = true;                   ///< else its streams are ours
  std::string work_directory;            ///< empty: as it is
  std::vector<std::string> environment;  ///< "NAME=value" added
  std::function<bool()> prepare;         ///< in the child before the program; false: exit code 125
};

/// `engine` is for the policies `sync` and `writes`.
[[nodiscard]] RunOptions with_policy(config::RunPolicy policy,
                                     engine::Kind engine = engine::Kind::uring);
void add_rule(RunOptions& options, const std::string& glob, config::RunPolicy policy);

/// Makes the run directory one of a run.
void write_config(const TemporaryDirectory& run_directory, const config::RunConfig& config);

/// Runs `command` (argv[0] looked up in PATH) to its end.
[[nodiscard]] Finished run(const RunOptions& options, const std::vector<std::string>& command);
/// The same for a shell script.
[[nodiscard]] Finished run_shell(const RunOptions& options, const std::string& script);

/// The record of the file whose path ends so, in any image, or null.
[[nodiscard]] const stats::FileRecord* record_of(const Finished& finished,
                                                 const std::string& path_suffix);
[[nodiscard]] const stats::FileRecord* record_of(const stats::Segment& image,
                                                 const std::string& path_suffix);
[[nodiscard]] uint64_t calls(const stats::FileRecord& record, stats::CallClass call);
[[nodiscard]] uint64_t bytes(const stats::FileRecord& record, stats::CallClass call);

/// Writes `bytes` of a reproducible pattern.
void write_pattern(const std::string& path, uint64_t bytes, uint32_t seed = 1);
/// How much of a file is in the page cache, of 1; -1 where it cannot be told.
[[nodiscard]] double cached_share(const std::string& path);
/// Drops a file from the page cache as far as the kernel lets us; false where it stays.
[[nodiscard]] bool drop_from_cache(const std::string& path);

}  // namespace ioweave::testing
