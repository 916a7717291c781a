#pragma once

// A thread that has the kernel write changed pages of a file, which sleeps while the device's queue
// is full (sync_file_range(2) with SYNC_FILE_RANGE_WRITE: it waits for no page, and takes note of
// no error, so that the program's own fsync(2) reports those).

#include <cstdint>
#include <memory>

#include "base/descriptor.hpp"
#include "stream/watch/file_range.hpp"

namespace ioweave::stream {

/// One range at a time. One thread calls it.
class WriteBackThread {
 public:
  WriteBackThread();
  /// Does not wait for what is under way.
  ~WriteBackThread();
  WriteBackThread(const WriteBackThread&) = delete;
  WriteBackThread& operator=(const WriteBackThread&) = delete;

  [[nodiscard]] bool is_idle() const noexcept;
  /// Begins to have a range written. Keeps the file open until that is done. Returns false if it is
  /// busy, or if no thread can be made.
  [[nodiscard]] bool write(std::shared_ptr<const Descriptor> file, FileRange range);
  /// Ends what is under way after its current piece, and waits until it holds no file: at most so
  /// long.
  void cancel(uint64_t most_ns);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ioweave::stream
