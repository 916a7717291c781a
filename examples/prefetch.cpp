// Sums blocks of a file that an index names, in the order of the index. Two ways: by a plan of the
// reads to come, and by a loop that is run ahead of itself.
//
//   prefetch FILE BLOCKS
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <span>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <ioweave/plans.hpp>

namespace {

constexpr size_t kBlockBytes = 64 << 10;

/// Where the i-th block lies: scattered, so that no read-ahead of the kernel's finds it.
off_t place(uint64_t i, uint64_t blocks) {
  return static_cast<off_t>(i * 7919 % blocks * kBlockBytes);
}

uint64_t sum(std::span<const std::byte> block) {
  return std::accumulate(block.begin(), block.end(), uint64_t{0}, [](uint64_t total, std::byte b) {
    return total + std::to_integer<uint64_t>(b);
  });
}

uint64_t sum_by_plan(ioweave::Service& service, int fd, uint64_t blocks) {
  ioweave::Plan plan(service);
  for (uint64_t i = 0; i < blocks; ++i) {
    plan.add(fd, place(i, blocks), kBlockBytes);
  }
  uint64_t total = 0;
  std::vector<std::byte> block(kBlockBytes);
  for (uint64_t i = 0; i < blocks; ++i) {
    const size_t bytes = plan.read(fd, block, place(i, blocks));
    total += sum(std::span(block).first(bytes));
  }
  return total;
}

uint64_t sum_by_loop(ioweave::Service& service, int fd, uint64_t blocks) {
  ioweave::Plan plan(service);
  uint64_t total = 0;  // changed inside compute() only
  ioweave::pre_execute(plan, [&](ioweave::LoopIo& io) {
    std::vector<std::byte> block(kBlockBytes);
    for (uint64_t i = 0; i < blocks; ++i) {
      const size_t bytes = io.read(fd, block, place(i, blocks));
      io.compute([&] { total += sum(std::span(block).first(bytes)); });
    }
  });
  return total;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::atoll(argv[2]) <= 0) {
    std::fprintf(stderr, "usage: prefetch FILE BLOCKS\n");
    return 2;
  }
  const int fd = ::open(argv[1], O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    std::perror(argv[1]);
    return 1;
  }
  try {
    const auto blocks = static_cast<uint64_t>(std::atoll(argv[2]));
    ioweave::Service service;
    std::printf("by plan: %llu\n",
                static_cast<unsigned long long>(sum_by_plan(service, fd, blocks)));
    std::printf("by loop: %llu\n",
                static_cast<unsigned long long>(sum_by_loop(service, fd, blocks)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 1;
  }
  ::close(fd);
  return 0;
}
