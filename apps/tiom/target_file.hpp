#pragma once

#include <cstdint>
#include <string>

namespace tiom {

struct TargetSettings {
  std::string path;  ///< empty: a file of its own in the current directory
  uint64_t bytes = 0;
  bool write = false;  ///< it will be written to
  bool direct = true;
  bool overwrite = false;  ///< data in it may be lost
};

/// The file that the tasks work on. Full of data from the start: a read of a hole or a write that
/// has to allocate would measure something else. What it makes is unlinked at once and lives by its
/// descriptor, so that nothing is left behind however the program ends.
class TargetFile {
 public:
  /// Opens or makes it. Throws std::runtime_error with a way out, above all for a file with data
  /// that would be written to without `overwrite`.
  explicit TargetFile(const TargetSettings& settings);
  ~TargetFile();
  TargetFile(const TargetFile&) = delete;
  TargetFile& operator=(const TargetFile&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  /// As named, or the folder of a nameless file.
  [[nodiscard]] const std::string& place() const { return place_; }

  /// Throws where a transfer of that size is not possible here (O_DIRECT has its rules).
  void check_block(uint64_t block_bytes) const;

  /// Puts what is dirty on the device and forgets what is cached, so that the runs start alike.
  void settle() const;

 private:
  void make();
  void open_existing();
  void check_existing();
  void set_direct() const;
  void fill() const;

  TargetSettings settings_;
  std::string place_;
  int fd_ = -1;
  bool emptied_again_ = false;  ///< it was there, and empty: so it shall be at the end
};

}  // namespace tiom
