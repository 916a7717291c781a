#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace slowfs_test {

struct CommandResult {
  int exit_code;
  std::string errors;  // what it wrote to standard error
};

/// Runs ioweave-slowfs with these arguments and waits until it, not its child, has ended.
CommandResult run_slowfs(const std::vector<std::string>& arguments);

/// A source directory and a mount point of its own for each test; skips where
/// FUSE cannot mount.
class SlowfsMount : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  void mount(const std::vector<std::string>& options = {});
  void unmount();

  /// Writes `bytes` of a pattern that depends on the position, directly to the source.
  void make_source_file(const std::string& name, size_t bytes, unsigned seed = 1) const;
  static std::vector<char> pattern(size_t bytes, unsigned seed = 1);

  [[nodiscard]] std::string source(const std::string& name) const { return (source_ / name); }
  [[nodiscard]] std::string mounted(const std::string& name) const { return (mountpoint_ / name); }

  std::filesystem::path root_;
  std::filesystem::path source_;
  std::filesystem::path mountpoint_;
  bool mounted_ = false;
};

/// The whole file, through read(2) on a descriptor opened with `extra_flags`.
std::vector<char> read_file(const std::string& path, int extra_flags = 0);
void write_file(const std::string& path, const std::vector<char>& data);

}  // namespace slowfs_test
