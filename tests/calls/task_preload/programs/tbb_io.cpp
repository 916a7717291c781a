// A oneTBB program that knows nothing of Ioweave: its tasks read a file past the page cache, and
// what it prints must be the same with libioweave_tasks.so and without.
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

namespace {

constexpr size_t kBlock = 4096;
constexpr size_t kBlocks = 128;

// Not to be inlined: a task may come back on another thread.
__attribute__((noinline)) int errno_now() {
  return errno;
}

/// The sum of a block's bytes, or 0 where it cannot be read.
unsigned long sum_of_block(int fd, size_t block) {
  auto* const memory = static_cast<unsigned char*>(std::aligned_alloc(kBlock, kBlock));
  unsigned long sum = 0;
  if (pread(fd, memory, kBlock, static_cast<off_t>(block * kBlock)) ==
      static_cast<ssize_t>(kBlock)) {
    for (size_t i = 0; i < kBlock; ++i) {
      sum += memory[i] * (i + 1);
    }
  }
  std::free(memory);
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const int fd = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECT | O_CLOEXEC) : -1;
  if (fd < 0) {
    return 77;
  }
  if (sum_of_block(fd, 0) == 0) {  // outside tasks
    return 4;
  }
  std::vector<unsigned long> sums(kBlocks);
  std::atomic<int> refused{0};
  tbb::parallel_for(tbb::blocked_range<size_t>(0, kBlocks, 1), [&](const auto& range) {
    for (size_t block = range.begin(); block != range.end(); ++block) {
      sums[block] = sum_of_block(fd, block);
      char byte = 0;
      refused += pread(fd, &byte, 1, 1) == -1 && errno_now() == EINVAL ? 1 : 0;
    }
  });
  for (const unsigned long sum : sums) {
    std::printf("%lu\n", sum);
  }
  std::printf("%d refused\n", refused.load());
  return 3;
}
