#pragma once

// A thread that has the kernel write changed pages of a file, which sleeps while the device's queue
// is full (sync_file_range(2) with SYNC_FILE_RANGE_WRITE: it waits for no page, and takes note of
// no error, so that the program's own fsync(2) reports those).

#include <cstdint>
#include <memory>

#include "base/descriptor.hpp"
#include "stream/watch/file_range.hpp"

namespace ioweave::stream {

/// One range at a time. One thread calls it. If the command ends, a piece that is under way holds
/// it up, as a read does.
class WriteBackThread {
 public:
  WriteBackThread();
  /// Does not wait for what is under way.
  ~WriteBackThread();
  WriteBackThread(const WriteBackThread&) = delete;
  WriteBackThread& operator=(const WriteBackThread&) = delete;

  /// Returns true if it holds no file.
  [[nodiscard]] bool is_idle() const noexcept;
  /// Begins to have a range written. Keeps the file open until that is done. Returns false if it is
  /// busy, or if no thread can be made.
  [[nodiscard]] bool write(std::shared_ptr<const Descriptor> file, FileRange range);
  /// Has it end after the present piece, and waits for that at most so long. Returns is_idle().
  bool cancel(uint64_t most_ns) noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ioweave::stream
