// Reads a file from beginning to end, chunk by chunk, in one of the ways that C and C++ have, and
// computes on each chunk. One JSON line tells how long both took. `bench/run readers` compares the
// ways; chunk_reader.f90 and chunk_reader.py do the same in their languages.
//
// The computation of a chunk is one pass over it, which adds to the checksum, and then arithmetic
// until it has taken the processor time that was asked for: that of the thread, so that whoever
// else runs meanwhile does not shorten it. With --compute-us=0 there is none, and the checksum is
// 0.

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <string>

#include <fcntl.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <time.h>

#include "base/clock.hpp"
#include "driver.hpp"
#include "options.hpp"

namespace {

using namespace ioweave::bench;

using Chunk = std::span<const std::byte>;

/// A file that is read in order.
class Reader {
 public:
  virtual ~Reader() = default;
  /// Reads the next chunk. It is empty at the end of the file, and valid until the next call.
  virtual Chunk next() = 0;
};

class ReadReader final : public Reader {
 public:
  ReadReader(const std::string& path, size_t chunk_bytes)
      : file_(path, O_RDONLY), buffer_(chunk_bytes) {}

  Chunk next() override {
    const int64_t count = check_errno(read(file_.fd(), buffer_.data(), buffer_.bytes()), "read");
    return {buffer_.data(), static_cast<size_t>(count)};
  }

 private:
  const File file_;
  const Buffer buffer_;
};

class StdioReader final : public Reader {
 public:
  StdioReader(const std::string& path, size_t chunk_bytes)
      : file_(std::fopen(path.c_str(), "rb")), buffer_(chunk_bytes) {
    if (file_ == nullptr) {
      die("cannot open " + path, errno);
    }
  }

  Chunk next() override {
    const size_t count = std::fread(buffer_.data(), 1, buffer_.bytes(), file_.get());
    if (std::ferror(file_.get()) != 0) {
      die("fread", errno);
    }
    return {buffer_.data(), count};
  }

 private:
  struct Close {
    void operator()(FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<FILE, Close> file_;
  const Buffer buffer_;
};

class StreamReader final : public Reader {
 public:
  StreamReader(const std::string& path, size_t chunk_bytes)
      : file_(path, std::ios::binary), buffer_(chunk_bytes) {
    if (!file_) {
      die("cannot open " + path, errno);
    }
  }

  Chunk next() override {
    file_.read(reinterpret_cast<char*>(buffer_.data()),
               static_cast<std::streamsize>(buffer_.bytes()));
    if (file_.bad()) {
      die("ifstream::read", errno);
    }
    return {buffer_.data(), static_cast<size_t>(file_.gcount())};
  }

 private:
  std::ifstream file_;
  const Buffer buffer_;
};

/// Reading is touching the pages of the chunk.
class MapReader final : public Reader {
 public:
  MapReader(const std::string& path, size_t chunk_bytes)
      : file_(path, O_RDONLY), bytes_(file_.size()), chunk_bytes_(chunk_bytes) {
    void* map = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file_.fd(), 0);
    if (map == MAP_FAILED) {
      die("mmap " + path, errno);
    }
    data_ = static_cast<const std::byte*>(map);
  }
  ~MapReader() override { munmap(const_cast<std::byte*>(data_), bytes_); }
  MapReader(const MapReader&) = delete;
  MapReader& operator=(const MapReader&) = delete;

  Chunk next() override {
    const size_t count = std::min(chunk_bytes_, bytes_ - offset_);
    const Chunk chunk(data_ + offset_, count);
    for (size_t at = 0; at < count; at += kPageBytes) {
      static_cast<void>(*static_cast<const volatile std::byte*>(&chunk[at]));
    }
    offset_ += count;
    return chunk;
  }

 private:
  static constexpr size_t kPageBytes = 4096;
  const File file_;
  const size_t bytes_;
  const size_t chunk_bytes_;
  const std::byte* data_ = nullptr;
  size_t offset_ = 0;
};

/// Reads at explicit offsets, which moves no position, and by ways that `ioweave run` does not
/// observe: one read at a time.
class OffsetReader : public Reader {
 public:
  OffsetReader(const std::string& path, size_t chunk_bytes)
      : file_(path, O_RDONLY), buffer_(chunk_bytes) {}

  Chunk next() final {
    const auto count = static_cast<size_t>(read_at(file_.fd(), buffer_, offset_));
    offset_ += count;
    return {buffer_.data(), count};
  }

 protected:
  /// Reads a buffer full, or less at the end of the file. Returns the bytes.
  virtual int64_t read_at(int fd, const Buffer& to, uint64_t offset) = 0;

 private:
  const File file_;
  const Buffer buffer_;
  uint64_t offset_ = 0;
};

/// As static and Go programs do: without the C library's pread.
class SyscallReader final : public OffsetReader {
 public:
  using OffsetReader::OffsetReader;

 private:
  int64_t read_at(int fd, const Buffer& to, uint64_t offset) override {
    return check_errno(syscall(SYS_pread64, fd, to.data(), to.bytes(), offset), "pread64");
  }
};

class UringReader final : public OffsetReader {
 public:
  UringReader(const std::string& path, size_t chunk_bytes) : OffsetReader(path, chunk_bytes) {
    check(io_uring_queue_init(1, &ring_, 0), "io_uring_queue_init");
  }
  ~UringReader() override { io_uring_queue_exit(&ring_); }
  UringReader(const UringReader&) = delete;
  UringReader& operator=(const UringReader&) = delete;

 private:
  int64_t read_at(int fd, const Buffer& to, uint64_t offset) override {
    io_uring_prep_read(io_uring_get_sqe(&ring_), fd, to.data(), static_cast<unsigned>(to.bytes()),
                       offset);
    check(io_uring_submit_and_wait(&ring_, 1), "io_uring_submit_and_wait");
    io_uring_cqe* done = nullptr;
    check(io_uring_wait_cqe(&ring_, &done), "io_uring_wait_cqe");
    const int64_t count = check(done->res, "read by io_uring");
    io_uring_cqe_seen(&ring_, done);
    return count;
  }

  io_uring ring_{};
};

/// By Linux AIO, without libaio: it is four system calls.
class AioReader final : public OffsetReader {
 public:
  AioReader(const std::string& path, size_t chunk_bytes) : OffsetReader(path, chunk_bytes) {
    check_errno(syscall(SYS_io_setup, 1, &context_), "io_setup");
  }
  ~AioReader() override { syscall(SYS_io_destroy, context_); }
  AioReader(const AioReader&) = delete;
  AioReader& operator=(const AioReader&) = delete;

 private:
  int64_t read_at(int fd, const Buffer& to, uint64_t offset) override {
    iocb request{};
    request.aio_lio_opcode = IOCB_CMD_PREAD;
    request.aio_fildes = static_cast<uint32_t>(fd);
    request.aio_buf = reinterpret_cast<uint64_t>(to.data());
    request.aio_nbytes = to.bytes();
    request.aio_offset = static_cast<int64_t>(offset);
    iocb* const one = &request;
    check_errno(syscall(SYS_io_submit, context_, 1, &one), "io_submit");
    io_event done{};
    check_errno(syscall(SYS_io_getevents, context_, 1, 1, &done, nullptr), "io_getevents");
    if (done.res < 0) {
      die("read by aio", static_cast<int>(-done.res));
    }
    return done.res;
  }

  aio_context_t context_ = 0;
};

std::unique_ptr<Reader> open_reader(const std::string& by, const std::string& path,
                                    size_t chunk_bytes) {
  if (by == "read") {
    return std::make_unique<ReadReader>(path, chunk_bytes);
  }
  if (by == "stdio") {
    return std::make_unique<StdioReader>(path, chunk_bytes);
  }
  if (by == "iostream") {
    return std::make_unique<StreamReader>(path, chunk_bytes);
  }
  if (by == "mmap") {
    return std::make_unique<MapReader>(path, chunk_bytes);
  }
  if (by == "syscall") {
    return std::make_unique<SyscallReader>(path, chunk_bytes);
  }
  if (by == "io_uring") {
    return std::make_unique<UringReader>(path, chunk_bytes);
  }
  return std::make_unique<AioReader>(path, chunk_bytes);
}

uint64_t thread_cpu_ns() {
  timespec used{};
  check_errno(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used), "clock_gettime");
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(used.tv_nsec);
}

/// Takes about 10 us: the clock of the thread is a system call, which few computations make.
void spin() {
  volatile unsigned turns = 8000;
  while (turns != 0) {
    turns = turns - 1;
  }
}

/// All whole words of 8 bytes, by exclusive or.
uint64_t parity_of(Chunk chunk) {
  uint64_t parity = 0;
  for (size_t at = 0; at + sizeof(uint64_t) <= chunk.size(); at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, chunk.data() + at, sizeof(word));
    parity ^= word;
  }
  return parity;
}

class Computation {
 public:
  explicit Computation(uint64_t chunk_us) : chunk_ns_(chunk_us * 1000) {}

  void compute(Chunk chunk) {
    if (chunk_ns_ == 0) {
      return;
    }
    const uint64_t start_ns = thread_cpu_ns();
    checksum_ = std::rotl(checksum_, 1) ^ parity_of(chunk);
    while (thread_cpu_ns() - start_ns < chunk_ns_) {
      spin();
    }
  }

  [[nodiscard]] uint64_t checksum() const { return checksum_; }

 private:
  const uint64_t chunk_ns_;
  uint64_t checksum_ = 0;
};

int run(int argc, char** argv) {
  std::string by;
  std::string path;
  size_t chunk_bytes = 4u << 20;
  uint64_t compute_us = 0;
  Options app("Reads a file chunk by chunk and computes on each; prints how long both took");
  app.add("--by", by)
      .required()
      .one_of({"read", "stdio", "iostream", "mmap", "syscall", "io_uring", "aio"});
  app.add("--file", path).required();
  app.add("--chunk", chunk_bytes, "bytes").positive();
  app.add("--compute-us", compute_us, "processor time of the computation on a chunk");
  app.parse(argc, argv);

  const std::unique_ptr<Reader> reader = open_reader(by, path, chunk_bytes);
  Computation computation(compute_us);
  uint64_t bytes = 0;
  uint64_t chunks = 0;
  uint64_t read_ns = 0;
  uint64_t compute_ns = 0;
  uint64_t begin_ns = ioweave::now_ns();
  for (;;) {
    const Chunk chunk = reader->next();
    const uint64_t read_end_ns = ioweave::now_ns();
    read_ns += read_end_ns - begin_ns;
    if (chunk.empty()) {
      break;
    }
    computation.compute(chunk);
    begin_ns = ioweave::now_ns();
    compute_ns += begin_ns - read_end_ns;
    bytes += chunk.size();
    ++chunks;
  }
  // By hand: print_result() has only numbers that a double holds.
  std::printf("{\"bytes\": %" PRIu64 ", \"chunks\": %" PRIu64
              ", \"read_s\": %.9f, \"compute_s\": %.9f, \"checksum\": \"%016" PRIX64 "\"}\n",
              bytes, chunks, static_cast<double>(read_ns) / 1e9,
              static_cast<double>(compute_ns) / 1e9, computation.checksum());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}
