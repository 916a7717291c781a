// The checkpointing stencil as oneTBB tasks, in both forms:
//
//   stencil_tbb --blocking ...   the task that computed a block writes it by iow_pwrite(), which
//                                pauses the task while the device works
//   stencil_tbb ...              the task binds the write by iow_ta_pwrite() and ends; when the
//                                block is written, run_io() runs what waits for that
//
//   stencil_tbb [--size N] [--steps N] [--every N] [--blocks N] [--direct] [--blocking]
//               [--recompute] FILE
#include <cstdio>
#include <exception>

#include <ioweave/tbb.hpp>

#include "stencil.h"
#include "stencil_order.hpp"

namespace {

class Run {
 public:
  Run(const stencil& plate, int fd)
      : plate_(plate),
        fd_(fd),
        is_blocking_(plate.options.blocking != 0),
        service_(options(is_blocking_)),
        order_(plate) {}

  void all_steps() {
    for (int block = 0; block < plate_.options.blocks; ++block) {
      start(1, block);
    }
    group_.wait();
  }

 private:
  static iow_options options(bool blocking) {
    iow_options options{};
    options.tasks = blocking ? IOW_TASKS_TBB : IOW_TASKS_NONE;
    return options;
  }

  void start(int step, int block) {
    group_.run([this, step, block] { compute(step, block); });
  }
  void release(int step, int block) {
    if (order_.release(step, block)) {
      start(step, block);
    }
  }

  void compute(int step, int block) {
    stencil_compute(&plate_, step, block);
    for (int other = order_.first(block); other < order_.end(block); ++other) {
      release(step + 1, other);
    }
    const int checkpoint = stencil_checkpoint_of(&plate_, step);
    if (checkpoint >= 0) {
      is_blocking_ ? write_blocking(step, block, checkpoint) : write_bound(step, block, checkpoint);
    }
  }

  void write_blocking(int step, int block, int checkpoint) {
    *stencil_result(&plate_, checkpoint, block) =
        iow_pwrite(service_.raw(), fd_, stencil_block(&plate_, step, block), plate_.block_bytes,
                   stencil_offset(&plate_, checkpoint, block));
    release(step + 2, block);
  }

  void write_bound(int step, int block, int checkpoint) {
    ssize_t* const result = stencil_result(&plate_, checkpoint, block);
    ioweave::tbb::run_io(
        service_, group_,
        [&] {
          iow_ta_pwrite(service_.raw(), fd_, stencil_block(&plate_, step, block),
                        plate_.block_bytes, stencil_offset(&plate_, checkpoint, block), result);
        },
        [this, step, block] { release(step + 2, block); });
  }

  const stencil& plate_;
  const int fd_;
  const bool is_blocking_;
  ioweave::Service service_;
  StencilOrder order_;
  ioweave::tbb::TaskGroup group_;
};

}  // namespace

int main(int argc, char** argv) {
  return stencil_main(argc, argv, [](const stencil* plate, int fd) {
    try {
      Run run(*plate, fd);
      run.all_steps();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "stencil_tbb: %s\n", error.what());
      return 1;
    }
    return stencil_finish(plate, fd);
  });
}
