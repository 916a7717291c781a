// Reads the next chunk while computing on this one: the oldest overlap there is, in C++.
//
//   overlap FILE
#include <array>
#include <cstdint>
#include <cstdio>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <ioweave/ioweave.hpp>

namespace {

constexpr size_t kChunkBytes = 1 << 20;

uint64_t sum_of_bytes(ioweave::Service& service, int fd) {
  std::array<std::vector<std::byte>, 2> buffers{std::vector<std::byte>(kChunkBytes),
                                                std::vector<std::byte>(kChunkBytes)};
  std::array<ioweave::Request, 2> reads;
  off_t offset = 0;
  const auto start_read = [&](size_t which) {
    reads[which] = ioweave::Request::read(fd, buffers[which], offset);
    service.submit(reads[which]);
    offset += static_cast<off_t>(kChunkBytes);
  };

  uint64_t sum = 0;
  start_read(0);
  for (size_t now = 0;; now = 1 - now) {
    const size_t bytes = service.wait(reads[now]);
    if (bytes == 0) {
      return sum;
    }
    start_read(1 - now);  // under way while we compute
    for (size_t i = 0; i < bytes; ++i) {
      sum += std::to_integer<uint64_t>(buffers[now][i]);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  const int fd = ::open(argv[1], O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    std::perror(argv[1]);
    return 1;
  }
  try {
    ioweave::Service service;
    std::printf("sum of bytes: %llu\n", static_cast<unsigned long long>(sum_of_bytes(service, fd)));
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "overlap: %s: %s\n", argv[1], error.what());
    return 1;
  }
  ::close(fd);
}
