#pragma once

// One backend of each kind behind the same tests: INSTANTIATE_TEST_SUITE_P(..., kAllBackends).

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/backend.hpp"
#include "support/faulty_backend.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::engine {

/// What O_DIRECT wants on the file systems we test on, with room to spare.
inline constexpr size_t kBlock = 4096;
/// A test that waits longer than this has found a bug; none depends on it being reached.
inline constexpr int64_t kForeverNs = 20'000'000'000;

struct BackendCase {
  std::string name;
  BackendOptions options;
  bool reordered = false;  ///< behind a FaultyBackend that only reorders and delays

  [[nodiscard]] bool is(Kind kind) const { return options.kind == kind; }
  [[nodiscard]] bool foreign_reaper() const { return !options.single_owner; }
};

inline BackendCase backend_case(const char* name, Kind kind) {
  BackendCase backend;
  backend.name = name;
  backend.options.kind = kind;
  backend.options.entries = 32;
  return backend;
}

inline std::vector<BackendCase> all_backends() {
  std::vector<BackendCase> backends{
      backend_case("uring", Kind::uring),        backend_case("uring_single_owner", Kind::uring),
      backend_case("uring_sqpoll", Kind::uring), backend_case("aio", Kind::aio),
      backend_case("threads", Kind::threads),    backend_case("threads_reordered", Kind::threads)};
  backends[1].options.single_owner = true;
  backends[2].options.mode = UringMode::sqpoll;
  backends[5].reordered = true;
  return backends;
}

inline std::ostream& operator<<(std::ostream& to, const BackendCase& backend) {
  return to << backend.name;
}

inline std::string name_of_case(const ::testing::TestParamInfo<BackendCase>& info) {
  return info.param.name;
}

/// Page-aligned bytes, filled with `value`.
class Block {
 public:
  explicit Block(size_t bytes, char value = 0)
      : bytes_(bytes), memory_(static_cast<char*>(std::aligned_alloc(kBlock, bytes))) {
    std::memset(memory_, value, bytes);
  }
  ~Block() { std::free(memory_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  [[nodiscard]] char* data() const { return memory_; }
  [[nodiscard]] size_t size() const { return bytes_; }
  [[nodiscard]] bool all(char value) const { return all(value, bytes_); }
  [[nodiscard]] bool all(char value, size_t bytes) const {
    for (size_t i = 0; i < bytes; ++i) {
      if (memory_[i] != value) return false;
    }
    return true;
  }

 private:
  size_t bytes_;
  char* memory_;
};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

struct Pipe {
  Pipe() : Pipe(make()) {}
  Descriptor out;
  Descriptor in;

 private:
  explicit Pipe(std::array<int, 2> ends) : out(ends[0]), in(ends[1]) {}
  static std::array<int, 2> make() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    return ends;
  }
};

inline Operation transfer(Op op, int fd, char* buffer, size_t length, int64_t offset) {
  Operation operation;
  operation.op = op;
  operation.fd = fd;
  operation.buffer = buffer;
  operation.length = length;
  operation.offset = offset;
  return operation;
}

inline Operation vectored(Op op, int fd, std::span<const iovec> vectors, int64_t offset) {
  Operation operation;
  operation.op = op;
  operation.fd = fd;
  operation.vectors = vectors.data();
  operation.vector_count = static_cast<uint32_t>(vectors.size());
  operation.offset = offset;
  return operation;
}

inline Operation on_file(Op op, int fd) {
  Operation operation;
  operation.op = op;
  operation.fd = fd;
  return operation;
}

/// Opens the backend of the case; skips the test where this machine does not have it.
class BackendTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override { open(GetParam().options); }

  void open(const BackendOptions& options) {
    backend_.reset();
    int error = 0;
    std::string why;
    backend_ = open_backend(options, error, why);
    if (backend_ == nullptr) GTEST_SKIP() << why;
    if (!GetParam().reordered) return;
    test::FaultOptions faults;
    faults.reorder = true;
    faults.delay = 0.3;
    faults.entries = options.entries;
    backend_ = std::make_unique<test::FaultyBackend>(std::move(backend_), faults);
  }

  /// A file of the test's own; with O_DIRECT for the backend that can do nothing else.
  [[nodiscard]] int open_file(const char* name, int flags) const {
    const int direct = GetParam().is(Kind::aio) ? O_DIRECT : 0;
    const std::string path = directory_.file(name);
    const int fd = ::open(path.c_str(), flags | direct | O_CLOEXEC, 0600);
    EXPECT_GE(fd, 0) << path << ": " << std::strerror(errno);
    return fd;
  }

  /// Submits, flushes and reaps until this operation is back; -ETIMEDOUT where it never comes.
  int64_t run(Operation& operation) {
    switch (backend_->submit(operation)) {
      case Submitted::completed:
        return operation.result;
      case Submitted::unsupported:
        return -ENOTSUP;
      case Submitted::busy:
        return -EBUSY;
      case Submitted::queued:
        break;
    }
    if (const int status = backend_->flush()) return status;
    return reap_one() == &operation ? operation.result : -ETIMEDOUT;
  }
  int64_t run(Operation&& operation) { return run(operation); }

  /// The next completion, or null after a time that no test should reach.
  Operation* reap_one() {
    Operation* out = nullptr;
    for (int tries = 0; tries < 100; ++tries) {
      const int got = backend_->reap({&out, 1}, {1, kForeverNs / 100, false});
      if (got != 0) return got == 1 ? out : nullptr;
    }
    return nullptr;
  }

  test::TempDir directory_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace ioweave::engine
