#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/curve.hpp"

namespace ioweave::cli {

/// The files with which `measure` measures a device, one for each stream. They have no names: each
/// is unlinked as soon as it is made and lives by its descriptor. So nothing is left behind,
/// however the command ends, even by a signal.
///
/// A stream does what a checkpoint task does: it writes its file from the beginning to the end and
/// calls fsync, again and again while there is time. It overwrites the file, so that the figures do
/// not include the search for free space. One thread at a time.
class StreamFiles {
 public:
  struct Settings {
    std::string folder;
    unsigned files = 1;
    uint64_t bytes = 0;   ///< the size of each file
    bool direct = false;  ///< O_DIRECT instead of the page cache
  };

  /// Makes the files. On failure returns null; `why` says what is wrong and what to do about it: no
  /// folder, no permission, no space, no O_DIRECT.
  static std::unique_ptr<StreamFiles> make(const Settings& settings, std::string& why);
  ~StreamFiles();
  StreamFiles(const StreamFiles&) = delete;
  StreamFiles& operator=(const StreamFiles&) = delete;

  /// Writes all files with a few streams, for at least `seconds`. This allocates the space, and
  /// uses up what makes a device fast at first (its cache, saved-up credit). `tell` is called with
  /// the bytes so far. On failure returns false and sets `why`.
  [[nodiscard]] bool warm_up(double seconds, const std::function<void(uint64_t bytes)>& tell,
                             std::vector<device::Durable>& log, std::string& why);

  enum class Direction : uint8_t { write, read };

  /// Takes a sample: that many streams begin at the same moment and move bytes for `seconds`. Then
  /// each finishes its current piece and syncs what it wrote; the sample ends with the last of
  /// them. Reads find the page cache empty, if it can be emptied. On failure returns false and sets
  /// `why`.
  [[nodiscard]] bool move(Direction direction, unsigned streams, double seconds,
                          device::Sample& sample, std::string& why);

  /// Returns the part of the first file that stays in memory although the kernel was asked to drop
  /// it.
  [[nodiscard]] double still_cached() const;

 private:
  struct Stream;

  explicit StreamFiles(const Settings& settings);
  [[nodiscard]] bool open_all(std::string& why);
  [[nodiscard]] std::string failure(Direction direction, int error) const;

  const Settings settings_;
  std::vector<std::unique_ptr<Stream>> streams_;
  uint64_t began_ns_ = 0;  ///< when the first sample began
};

}  // namespace ioweave::cli
