#include "run.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>

#include <sys/mman.h>
#include <unistd.h>

#include "sweep.hpp"

namespace tiom {

BlockOrder::BlockOrder(uint64_t blocks, bool random) : blocks_(blocks) {
  if (!random) return;
  if (blocks > UINT32_MAX) {
    throw std::runtime_error("a run of " + std::to_string(blocks) +
                             " random I/Os is too long: lower --bytes or raise --block");
  }
  order_.resize(blocks);
  std::iota(order_.begin(), order_.end(), 0u);
  // The same order in every run and program: pairs and resumed sweeps do the same.
  std::mt19937_64 generator(blocks);
  std::ranges::shuffle(order_, generator);
}

Buffers::Buffers(uint64_t count, uint64_t block_bytes)
    : count_(count), stride_((block_bytes + 4095) / 4096 * 4096), bytes_(stride_ * count) {
  void* const memory =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error("no memory for " + std::to_string(count) + " buffers of " +
                             size_text(block_bytes) + "; lower --series or --block");
  }
  memory_ = static_cast<std::byte*>(memory);
  // Every page is there before the clock runs, and different from the others.
  std::mt19937_64 random(2);
  std::generate_n(reinterpret_cast<uint64_t*>(memory_), bytes_ / sizeof(uint64_t), random);
}

Buffers::~Buffers() {
  munmap(memory_, bytes_);
}

FreeBuffers::FreeBuffers(const Buffers& buffers) : ring_(buffers.count()), count_(ring_.size()) {
  for (size_t i = 0; i < count_; ++i) ring_[i] = buffers.at(i);
}

std::byte* FreeBuffers::take() {
  const std::lock_guard guard(lock_);
  std::byte* const buffer = ring_.at(first_);
  first_ = (first_ + 1) % ring_.size();
  --count_;
  return buffer;
}

void FreeBuffers::give_back(std::byte* buffer) {
  const std::lock_guard guard(lock_);
  ring_[(first_ + count_) % ring_.size()] = buffer;
  ++count_;
}

ssize_t transfer_plainly(const Transfer& transfer) {
  size_t done = 0;
  while (done < transfer.bytes) {
    const off_t offset = transfer.offset + static_cast<off_t>(done);
    const size_t left = transfer.bytes - done;
    const ssize_t moved = transfer.write ? pwrite(transfer.fd, transfer.buffer + done, left, offset)
                                         : pread(transfer.fd, transfer.buffer + done, left, offset);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return done > 0 ? static_cast<ssize_t>(done) : -errno;
    if (moved == 0) break;
    done += static_cast<size_t>(moved);
  }
  return static_cast<ssize_t>(done);
}

void Run::moved(const Task& task, int64_t result) {
  free_buffers_.give_back(buffers_in_use_[lane(task)]);
  if (result < 0) {
    fail(static_cast<int>(-result));
  } else if (static_cast<uint64_t>(result) != workload_.cell.block_bytes) {
    fail(EIO);  // the file was full of data: somebody has cut it short meanwhile
  } else {
    bytes_.fetch_add(static_cast<uint64_t>(result), std::memory_order_relaxed);
  }
}

void Run::fail(int error) {
  int none = 0;
  error_.compare_exchange_strong(none, error);
  stop_.store(true, std::memory_order_relaxed);
}

RunFigures Run::figures() const {
  if (const int error = error_.load(); error != 0) {
    throw std::runtime_error("the I/O of " + cell_text(workload_.cell) +
                             " failed: " + std::strerror(error));
  }
  RunFigures figures;
  figures.seconds = static_cast<double>(end_ns_ - start_ns_) / 1e9;
  figures.bytes = bytes_.load();
  figures.tasks = tasks_.load();
  figures.computes = computes_.load();
  figures.limited = limited_.load();
  return figures;
}

}  // namespace tiom
