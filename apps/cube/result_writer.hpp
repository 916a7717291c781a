// How results get into the output file: three ways behind one interface.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "buffers.hpp"

namespace cube {

enum class Mode {
  kSynchronous,  // pwrite(2), on the computing thread
  kAio,          // POSIX AIO of the C library: its thread writes
  kIoweave       // Ioweave's write stream
};

/// Whether writes go past the page cache. Automatic is buffered, but in Ioweave's write stream what
/// the file system allows.
enum class WritePath { kAuto, kDirect, kBuffered };

std::string_view mode_name(Mode mode);

/// A buffer to fill.
struct Item {
  std::span<std::byte> data;
  size_t slot = 0;  // of the writer
};

/// Any thread may call begin(), hand_over() and drop() at any time. All of them throw CubeError; a
/// writer that is destroyed without finish() waits for what is under way and drops the rest.
class ResultWriter {
 public:
  ResultWriter() = default;
  ResultWriter(const ResultWriter&) = delete;
  ResultWriter& operator=(const ResultWriter&) = delete;
  virtual ~ResultWriter() = default;

  /// Takes a buffer. Waits while all are filled or being written.
  virtual Item begin() = 0;
  /// Hands the first `bytes` bytes over, to be written at `offset`. The item ends.
  virtual void hand_over(const Item& item, size_t bytes, uint64_t offset) = 0;
  /// Gives the buffer back; nothing is written.
  virtual void drop(const Item& item) = 0;
  /// Waits until all that was handed over is written. No item may be out.
  virtual void finish() = 0;
  /// After finish(): waits until the device has it. Buffers can still be taken, and dropped.
  virtual void sync() = 0;
  /// What the mode did not do of what was asked.
  [[nodiscard]] virtual std::vector<std::string> notes() const { return {}; }
};

struct WriterOptions {
  Mode mode = Mode::kIoweave;
  std::string path;
  uint64_t bytes = 0;  // of the whole output: room is made at once
  BufferOptions buffers;
  WritePath write_path = WritePath::kAuto;
  bool is_pinned = false;  // I/O threads on processors of their own (placement.hpp)
};

/// Creates or empties the file. Throws CubeError.
std::unique_ptr<ResultWriter> make_writer(const WriterOptions& options);

// The three kinds, for make_writer().
std::unique_ptr<ResultWriter> make_synchronous_writer(const WriterOptions& options);
std::unique_ptr<ResultWriter> make_aio_writer(const WriterOptions& options);
std::unique_ptr<ResultWriter> make_ioweave_writer(const WriterOptions& options);

}  // namespace cube
