// The checkpointing stencil as C++20 coroutines: a coroutine for each block of a step. Its
// checkpoint is a Transfer, started and left alone; the block's coroutine two steps later, which
// overwrites the memory, awaits it. The threads compute meanwhile.
//
//   stencil_coroutine [--size N] [--steps N] [--every N] [--blocks N] [--direct] [--recompute] FILE
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <ioweave/coroutine.hpp>
#include <ioweave/coroutine_task.hpp>

#include "stencil.h"

namespace {

/// The checkpoint of one block.
struct Write {
  Write(ioweave::Service& service, ioweave::ThreadPoolExecutor& pool, int fd,
        std::span<const std::byte> bytes, off_t offset, ssize_t* into)
      : transfer(service, pool, ioweave::Request::write(fd, bytes, offset)), result(into) {}

  ioweave::Transfer<ioweave::ThreadPoolExecutor> transfer;
  ssize_t* result;
};

class Run {
 public:
  Run(const stencil& plate, int fd)
      : plate_(plate),
        fd_(fd),
        pool_(std::max(1u, std::thread::hardware_concurrency())),
        writes_{Writes(blocks()), Writes(blocks())} {}

  ioweave::Task<> all_steps() {
    for (int step = 1; step <= plate_.options.steps; ++step) {
      std::vector<ioweave::Task<>> tasks;
      tasks.reserve(blocks());
      for (int block = 0; block < plate_.options.blocks; ++block) {
        tasks.push_back(one_block(step, block));
      }
      co_await ioweave::when_all(std::move(tasks));
    }
    for (Writes& writes : writes_) {
      for (std::optional<Write>& write : writes) {
        co_await end_of(write);
      }
    }
  }

 private:
  using Writes = std::vector<std::optional<Write>>;

  [[nodiscard]] size_t blocks() const { return static_cast<size_t>(plate_.options.blocks); }

  ioweave::Task<> one_block(int step, int block) {
    co_await pool_.schedule();
    std::optional<Write>& write = writes_[step % 2 == 0 ? 0 : 1][static_cast<size_t>(block)];
    co_await end_of(write);
    stencil_compute(&plate_, step, block);
    const int checkpoint = stencil_checkpoint_of(&plate_, step);
    if (checkpoint >= 0) {
      const double* const from = stencil_block(&plate_, step, block);
      write.emplace(
          service_, pool_, fd_, std::as_bytes(std::span(from, plate_.block_bytes / sizeof(double))),
          stencil_offset(&plate_, checkpoint, block), stencil_result(&plate_, checkpoint, block));
    }
  }

  static ioweave::Task<> end_of(std::optional<Write>& write) {
    if (write) {
      *write->result = co_await write->transfer.result();
      write.reset();
    }
  }

  const stencil& plate_;
  const int fd_;
  ioweave::ThreadPoolExecutor pool_;  // outlives the service, which posts to it
  ioweave::Service service_;
  std::array<Writes, 2> writes_;  // of the two grids
};

}  // namespace

int main(int argc, char** argv) {
  return stencil_main(argc, argv, [](const stencil* plate, int fd) {
    if (plate->options.blocking != 0) {
      std::fprintf(stderr, "stencil_coroutine: coroutines always wait so; leave --blocking out\n");
      return 2;
    }
    try {
      Run run(*plate, fd);
      ioweave::sync_wait(run.all_steps());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "stencil_coroutine: %s\n", error.what());
      return 1;
    }
    return stencil_finish(plate, fd);
  });
}
