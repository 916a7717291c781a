#pragma once

#include <cstdint>

namespace ioweave::stream {

/// Decides to which of its files in a stream each buffer goes, and hears how the writes end. The
/// stream calls it under its lock, which so guards what it knows; it must not call the stream.
class WritePlacer {
 public:
  WritePlacer() = default;
  virtual ~WritePlacer() = default;
  WritePlacer(const WritePlacer&) = delete;
  WritePlacer& operator=(const WritePlacer&) = delete;

  /// Of a write that has no place yet.
  static constexpr uint64_t kNew = UINT64_MAX;

  /// Returns the file for a write of so many bytes, or -errno.
  [[nodiscard]] virtual int choose(uint64_t bytes) noexcept = 0;
  /// The file has failed. Returns true if another one is to be chosen.
  [[nodiscard]] virtual bool leave(int file) noexcept = 0;
  /// The write goes to the file. Returns its offset, or -errno. `tag` is its name from now on; if
  /// it has one already, the write comes from a file that failed.
  [[nodiscard]] virtual int64_t place(int file, uint64_t bytes, uint64_t& tag) noexcept = 0;
  /// The write has ended, with 0 or -errno, and will not be placed again.
  virtual void note_end(uint64_t tag, int error) noexcept = 0;
  /// Whether all writes have ended.
  [[nodiscard]] virtual bool is_idle() const noexcept = 0;
};

}  // namespace ioweave::stream
