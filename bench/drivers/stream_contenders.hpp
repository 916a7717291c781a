#pragma once

// The ways in which bench_streams writes its items: those that a program without Ioweave has, each
// as its documentation advises, and Ioweave's write streams. All have the same number of buffers,
// aligned to pages, and files whose room is allocated before.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ioweave::bench {

/// What all contenders are told.
struct StreamSettings {
  /// What each file will hold, in bytes, by path.
  struct Target {
    std::string path;
    uint64_t bytes = 0;
  };
  std::vector<Target> files;
  uint64_t item_bytes = 0;
  unsigned buffers = 1;
  bool direct = true;
};

/// One thread. Dies of what goes wrong.
class StreamContender {
 public:
  StreamContender() = default;
  virtual ~StreamContender() = default;
  StreamContender(const StreamContender&) = delete;
  StreamContender& operator=(const StreamContender&) = delete;

  /// A buffer for the next item. Waits while all are being written.
  virtual std::byte* take() = 0;
  /// Writes the item that was computed in the buffer taken last.
  virtual void write(size_t file, uint64_t offset) = 0;
  /// Returns when all items are on the device.
  virtual void make_durable() = 0;

  /// Shows all buffers at once, while no item is being written.
  virtual void show_buffers(const std::function<void(std::span<std::byte* const>)>& look) = 0;
};

/// The names that `open_stream_contender()` knows here.
std::vector<std::string> stream_contenders();

/// Creates the files, and is ready to write. Dies if the name is not one of those.
std::unique_ptr<StreamContender> open_stream_contender(const std::string& how,
                                                       const StreamSettings& settings);

/// Ioweave's write streams: those that are called "stream", and "spread".
std::unique_ptr<StreamContender> open_own_stream(const StreamSettings& settings);
std::unique_ptr<StreamContender> open_own_spread(const StreamSettings& settings);

}  // namespace ioweave::bench
