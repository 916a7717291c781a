#pragma once

// What the benchmark programs share: every call checked, one clock, the processor time of the whole
// process, random block offsets, and results as one JSON object per line on standard output.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

struct io_uring;

namespace ioweave::bench {

/// Prints "PROGRAM: what: reason" and exits with 1. `error` is an errno value of either sign.
[[noreturn]] void die(const std::string& what, int error);
[[noreturn]] void die(const std::string& what);

/// What main() does: runs the program, and dies of what it throws (no memory, a wrong option).
int guarded(int (*program)(int argc, char** argv), int argc, char** argv) noexcept;

/// For calls that return >= 0 or -errno (the C API, liburing): passes the result through or dies.
int64_t check(int64_t result, const char* what);
/// For calls that return -1 and set errno.
int64_t check_errno(int64_t result, const char* what);

/// Wall and processor time (user + system, all threads, kernel workers included) of this process.
struct Usage {
  uint64_t wall_ns = 0;
  uint64_t cpu_ns = 0;

  static Usage now();
  Usage operator-(const Usage& before) const {
    return {wall_ns - before.wall_ns, cpu_ns - before.cpu_ns};
  }
};

/// By the clock of Usage.
double seconds_since(uint64_t start_ns);

/// The largest resident set of this program alone: that of getrusage(2) has the shell's, too.
double peak_rss_mib();

/// Closes on destruction.
class File {
 public:
  /// Flags as of open(2); O_CLOEXEC is added.
  File(const std::string& path, int flags);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  /// Bytes at this moment.
  [[nodiscard]] uint64_t size() const;

 private:
  int fd_;
};

/// Page-aligned memory.
class Buffer {
 public:
  enum class Content : uint8_t {
    bytes,     ///< touched once, so that no page fault falls into a measurement
    untouched  ///< for the kernel to put there what it likes, as when a buffer is registered
  };
  explicit Buffer(size_t bytes, Content content = Content::bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  std::byte* data_;
};

/// Offsets of whole blocks, uniformly at random (xorshift64*). One thread.
class RandomBlocks {
 public:
  /// Dies if the span holds no block. Equal seeds give equal sequences.
  RandomBlocks(uint64_t span_bytes, uint64_t block_bytes, uint64_t seed);

  int64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    const uint64_t high = (state_ * 0x2545f4914f6cdd1dULL) >> 32;
    return static_cast<int64_t>(((high * blocks_) >> 32) * block_bytes_);
  }

 private:
  uint64_t blocks_;
  uint64_t block_bytes_;
  uint64_t state_;
};

/// The bare contender: one ring as liburing's documentation advises for one thread,
/// SINGLE_ISSUER | DEFER_TASKRUN, or without them where the kernel is older than 6.1.
void open_bare_ring(io_uring& ring, unsigned entries);

/// One line {"key": number, ...}.
void print_result(std::initializer_list<std::pair<std::string_view, double>> fields);

}  // namespace ioweave::bench
