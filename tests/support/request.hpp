#pragma once

// Requests of the C interface, as tests make them.

#include <array>
#include <cstddef>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "ioweave/ioweave.h"

namespace ioweave::test {

inline iow_request make_request(iow_op op, int fd, void* buffer, uint64_t bytes, int64_t offset) {
  iow_request request{};
  request.op = static_cast<uint8_t>(op);
  request.fd = fd;
  request.buffer = buffer;
  request.bytes = bytes;
  request.offset = offset;
  return request;
}

/// A pipe whose reads end when the test says so.
class Gate {
 public:
  Gate() { EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~Gate() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  [[nodiscard]] int fd() const { return ends_[0]; }
  [[nodiscard]] iow_request wait_for_byte(int64_t offset = -1) {
    return make_request(IOW_OP_READ, ends_[0], &byte_, 1, offset);
  }
  void open(const std::string& text = "x") {
    ASSERT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

 private:
  std::array<int, 2> ends_{-1, -1};
  std::byte byte_{};
};

}  // namespace ioweave::test
