#pragma once

// Works out which part of a file has just been written in order, knowing only where its writer was
// at some moments. Pure logic without I/O, clock or thread.
//
// How it works. A position that moves forward while the process writes tells what was written. So
// does the size of a file that grows: by writes at explicit offsets, and during a single long
// write, whose position moves at its end. What lies before the writer's place may be handed out,
// once, in whole pieces. Of a writer that stands still it is all but the last grain. A grain is
// what the kernel may write at once if one page of it is to be written (a folio). So the last whole
// page that was written, the witness, stays changed until somebody else has the file written
// (early_writer.hpp).

#include <algorithm>
#include <cstdint>
#include <optional>

#include "stream/watch/file_range.hpp"

namespace ioweave::stream {

/// What one look saw of a file that is being written.
struct WriteSighting {
  uint64_t position = 0;
  uint64_t file_bytes = 0;
  uint64_t written_bytes = 0;  ///< all that the process has written, to any file, by ended calls
};

/// One writer of one file. One thread.
class WriteFollower {
 public:
  static constexpr uint64_t kPageBytes = 4096;

  explicit WriteFollower(uint64_t page_bytes = kPageBytes) noexcept : page_bytes_(page_bytes) {}

  /// Returns how many bytes were written since the last look; by the first one, since the process
  /// began, if all that is before the position seems to be from it.
  uint64_t observe(const WriteSighting& seen) noexcept;

  /// Returns the last whole page that was written, as far as is known; nothing if too little was.
  [[nodiscard]] std::optional<uint64_t> witness() const noexcept;

  /// Returns what may be written early now and was not handed out yet, at most `most_bytes` in
  /// whole grains.
  [[nodiscard]] std::optional<FileRange> next(bool stands_still,
                                              uint64_t most_bytes) const noexcept;
  /// Notes that a range, the last one of next(), was handed out. `bytes`: how much of it was
  /// unwritten.
  void handed_out(FileRange range, uint64_t bytes) noexcept;

  /// Returns the bytes that were handed out since the last call and written again by the program
  /// before the file was synced; then forgets what was handed out.
  [[nodiscard]] uint64_t end_cycle() noexcept;

 private:
  uint64_t write(FileRange range, bool continues) noexcept;

  [[nodiscard]] uint64_t grain_bytes() const noexcept;

  uint64_t page_bytes_;
  bool is_seen_ = false;
  WriteSighting last_;
  uint64_t written_before_ = 0;  // last_.written_bytes at the look before that
  FileRange written_;            // in order, up to the writer's place
  uint64_t out_to_ = 0;          // everything in written_ before it was handed out
  FileRange early_;              // handed out in this cycle
  FileRange former_early_;       // the same, of an earlier way through the file in this cycle
  uint64_t rewritten_ = 0;       // of that
  bool is_growing_ = false;      // the file has grown since the position last moved
  uint64_t grown_from_ = 0;
};

}  // namespace ioweave::stream
