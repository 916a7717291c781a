#pragma once

// Writes of a file that MPI_File_write_at() returns from before they are made, where the program's
// user has asked for that (IOWEAVE_MPIIO_WRITE_BEHIND).
//
// The bytes are copied and written by a write stream, through the page cache. Whatever else the
// process does to the file comes after: it drains the file first. So a rank sees its own
// writes, and others do where MPI says so, behind a sync or a close.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "calls/mpiio/file_view.hpp"
#include "calls/mpiio/range_set.hpp"
#include "stream/plan/file_state.hpp"
#include "stream/write/write_stream.hpp"

namespace ioweave::calls {

/// Thread-safe. One for each file of the process, however often it is open. The stream must outlive
/// it.
class WriteBehind {
 public:
  /// `file` is its number in the stream.
  WriteBehind(stream::WriteStream& stream, int file) noexcept : stream_(stream), file_(file) {}
  /// Settles the file.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  /// Takes the bytes of a range, to be written soon. False, where the program must write by itself:
  /// a write has failed before.
  [[nodiscard]] bool take(const FileRange& range, const void* data) noexcept;
  /// Waits until all that was taken has been written or has failed.
  void drain() noexcept;
  /// Settles. Returns 0, or -errno of the first write that failed, once.
  [[nodiscard]] int take_error() noexcept;

 private:
  void drain_locked() noexcept;
  void note(int error) noexcept;

  stream::WriteStream& stream_;
  const int file_;
  std::atomic<bool> is_dirty_{false};  ///< something was taken since it was drained
  std::mutex lock_;                    ///< of what follows
  RangeSet outstanding_;
  int error_ = 0;  ///< not yet told
  bool has_failed_ = false;
};

/// Those of the process. Thread-safe.
class Writers {
 public:
  /// The writer of a file. Null where the process has not opened that very file to write, the
  /// stream cannot, or there are `most` writers. May throw std::bad_alloc.
  [[nodiscard]] std::shared_ptr<WriteBehind> share(const FileId& id, stream::WriteStream& stream,
                                                   size_t most);
  void drain(const FileId& id) noexcept;
  void drain_all() noexcept;
  /// Settles all. Returns an error that nobody was told, or 0.
  [[nodiscard]] int take_errors() noexcept;
  /// Or there has been one.
  [[nodiscard]] bool has_any() const noexcept { return has_any_.load(std::memory_order_acquire); }

 private:
  [[nodiscard]] std::shared_ptr<WriteBehind> find(const FileId& id) noexcept;
  [[nodiscard]] std::shared_ptr<WriteBehind> find_next(FileId& last) noexcept;

  std::atomic<bool> has_any_{false};
  std::mutex lock_;  ///< of what follows
  std::map<FileId, std::weak_ptr<WriteBehind>> writers_;
};

}  // namespace ioweave::calls
