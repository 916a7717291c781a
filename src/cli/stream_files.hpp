#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/curve.hpp"

namespace ioweave::cli {

/// Files of our own to measure a device with, one for each stream. They have no names: each is
/// unlinked as soon as it is made and lives by its descriptor, so that nothing is left behind
/// however the command ends, by a signal too.
///
/// A stream does what a checkpoint task does: it writes its file from the beginning to the end,
/// then calls fsync; and again, while there is time. The file is written over, so that finding free
/// space has no part in the figures. One thread at a time.
class StreamFiles {
 public:
  struct Settings {
    std::string folder;
    unsigned files = 1;
    uint64_t bytes = 0;   ///< of each
    bool direct = false;  ///< O_DIRECT instead of the page cache
  };

  /// Null, and in `why` what is wrong and the way out: no folder, no right, no space, no O_DIRECT.
  static std::unique_ptr<StreamFiles> make(const Settings& settings, std::string& why);
  ~StreamFiles();
  StreamFiles(const StreamFiles&) = delete;
  StreamFiles& operator=(const StreamFiles&) = delete;

  /// Writes all files, and goes on for `seconds` in all, with a few streams: it takes the space,
  /// and what a device lends for a start (its cache, saved-up credit) is used up. `tell` hears of
  /// the bytes so far. False and `why` on failure.
  [[nodiscard]] bool warm_up(double seconds, const std::function<void(uint64_t bytes)>& tell,
                             std::vector<device::Durable>& log, std::string& why);

  enum class Direction : uint8_t { write, read };

  /// Lets that many streams begin at the same moment and go on for `seconds`; then each ends with
  /// the piece that it is at, and what it wrote is synced: the sample ends with the last of them.
  /// Reads find the page cache empty, where it can be emptied. False and `why` on failure.
  [[nodiscard]] bool move(Direction direction, unsigned streams, double seconds,
                          device::Sample& sample, std::string& why);

  /// The part of the first file that is in memory although it was asked to be dropped.
  [[nodiscard]] double still_cached() const;

 private:
  struct Stream;

  explicit StreamFiles(const Settings& settings);
  [[nodiscard]] bool open_all(std::string& why);
  [[nodiscard]] std::string failure(Direction direction, int error) const;

  const Settings settings_;
  std::vector<std::unique_ptr<Stream>> streams_;
  uint64_t began_ns_ = 0;  ///< the first sample
};

}  // namespace ioweave::cli
