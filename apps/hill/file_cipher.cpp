#include "file_cipher.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <span>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hill {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw std::runtime_error(what + " '" + path + "': " + std::strerror(error));
}

class File {
 public:
  File(std::string path, int flags)
      : path_(std::move(path)), fd_(open(path_.c_str(), flags, 0666)) {
    if (fd_ == -1) fail("cannot open", path_, errno);
    if (fstat(fd_, &status_) == -1) fail("cannot stat", path_, errno);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ != -1) close(fd_);
  }

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const struct stat& status() const noexcept { return status_; }
  [[nodiscard]] bool regular() const noexcept { return S_ISREG(status_.st_mode); }
  void close_checked() {
    if (close(std::exchange(fd_, -1)) == -1) fail("cannot write", path_, errno);
  }

 private:
  std::string path_;
  int fd_;
  struct stat status_ {};
};

/// Removes a half-written output unless `keep` is called.
class PartialOutput {
 public:
  explicit PartialOutput(const File& file) : file_(file) {}
  PartialOutput(const PartialOutput&) = delete;
  PartialOutput& operator=(const PartialOutput&) = delete;
  ~PartialOutput() {
    if (!kept_ && file_.regular()) unlink(file_.path().c_str());
  }
  void keep() noexcept { kept_ = true; }

 private:
  const File& file_;
  bool kept_ = false;
};

/// Page-aligned memory, touched beforehand so that page faults are not counted as reading.
class ChunkBuffer {
 public:
  explicit ChunkBuffer(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                 -1, 0);
    if (data_ == MAP_FAILED) {
      throw std::runtime_error("no memory for a chunk of " + std::to_string(bytes) +
                               " bytes: choose a smaller --chunk");
    }
  }
  ChunkBuffer(const ChunkBuffer&) = delete;
  ChunkBuffer& operator=(const ChunkBuffer&) = delete;
  ~ChunkBuffer() { munmap(data_, bytes_); }

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(data_), bytes_};
  }

 private:
  void* data_;
  size_t bytes_;
};

/// Adds the time of its life to a sum.
class Timer {
 public:
  explicit Timer(double& seconds) : seconds_(seconds) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Fills `buffer`, unless the file ends before. One read(2) moves less than 2 GiB.
size_t read_chunk(const File& file, std::span<std::byte> buffer) {
  size_t filled = 0;
  while (filled < buffer.size()) {
    const ssize_t got = read(file.fd(), buffer.data() + filled, buffer.size() - filled);
    if (got == 0) break;
    if (got > 0) {
      filled += static_cast<size_t>(got);
    } else if (errno != EINTR) {
      fail("cannot read", file.path(), errno);
    }
  }
  return filled;
}

void write_chunk(const File& file, std::span<const std::byte> chunk) {
  while (!chunk.empty()) {
    const ssize_t put = write(file.fd(), chunk.data(), chunk.size());
    if (put >= 0) {
      chunk = chunk.subspan(static_cast<size_t>(put));
    } else if (errno != EINTR) {
      fail("cannot write", file.path(), errno);
    }
  }
}

size_t buffer_bytes(const File& input, size_t chunk_bytes) {
  if (!input.regular()) return chunk_bytes;
  const size_t file_bytes = static_cast<size_t>(std::max<off_t>(input.status().st_size, 1));
  return std::min(chunk_bytes, (file_bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes);
}

/// Opened without O_TRUNC: the input might be the same file under another name.
void check_distinct(const File& input, const File& output) {
  const struct stat& a = input.status();
  const struct stat& b = output.status();
  if (a.st_dev == b.st_dev && a.st_ino == b.st_ino && input.regular()) {
    throw std::runtime_error("input '" + input.path() + "' and output '" + output.path() +
                             "' are the same file: choose another output");
  }
}

void cipher_chunks(Cipher& cipher, const FileJob& job, const File& input, const File& output,
                   std::span<std::byte> buffer, Stats& stats) {
  for (;;) {
    std::span<std::byte> chunk = buffer;
    {
      const Timer timer(stats.read_s);
      chunk = buffer.first(read_chunk(input, buffer));
    }
    if (chunk.empty()) return;
    {
      const Timer timer(stats.compute_s);
      cipher.transform(chunk);
    }
    {
      const Timer timer(stats.write_s);
      write_chunk(output, chunk);
    }
    ++stats.chunks;
    stats.bytes += chunk.size();
    if (job.verbose) {
      std::fprintf(stderr, "hill: chunk %llu, %llu bytes\n",
                   static_cast<unsigned long long>(stats.chunks),
                   static_cast<unsigned long long>(stats.bytes));
    }
    if (chunk.size() < buffer.size()) return;  // the end of the file
  }
}

void check_length(const File& input, const Stats& stats) {
  const auto expected = static_cast<uint64_t>(input.status().st_size);
  if (input.regular() && stats.bytes != expected) {
    throw std::runtime_error("'" + input.path() +
                             "' changed while it was read: " + std::to_string(stats.bytes) +
                             " bytes instead of " + std::to_string(expected));
  }
}

void finish(File& output, bool sync, Stats& stats) {
  if (sync) {
    const Timer timer(stats.fsync_s);
    if (fsync(output.fd()) == -1) fail("cannot write", output.path(), errno);
  }
  output.close_checked();
}

}  // namespace

Stats encipher_file(Cipher& cipher, const FileJob& job) {
  const File input(job.input, O_RDONLY | O_CLOEXEC);
  if (S_ISDIR(input.status().st_mode)) fail("cannot read", job.input, EISDIR);
  File output(job.output, O_WRONLY | O_CREAT | O_CLOEXEC);
  check_distinct(input, output);
  PartialOutput partial(output);
  if (output.regular() && ftruncate(output.fd(), 0) == -1) fail("cannot write", job.output, errno);
  const ChunkBuffer buffer(buffer_bytes(input, job.chunk_bytes));
  Stats stats;
  {
    const Timer timer(stats.total_s);
    cipher_chunks(cipher, job, input, output, buffer.bytes(), stats);
    check_length(input, stats);
    finish(output, job.fsync, stats);
  }
  partial.keep();
  return stats;
}

}  // namespace hill
