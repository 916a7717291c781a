// The checkpointing stencil as oneTBB tasks, in both forms:
//
//   stencil_tbb --blocking ...   the task that computed a block writes it by iow_pwrite(), which
//                                pauses the task while the device works
//   stencil_tbb ...              the task binds the write by iow_ta_pwrite() and ends; when the
//                                block is written, run_io() runs what waits for that
//
//   stencil_tbb [--blocking] [--size N] [--steps N] [--every N] [--blocks N] [--direct]
//               [--recompute] FILE
#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

#include <unistd.h>

#include <ioweave/tbb.hpp>

#include "stencil.h"
#include "stencil_order.hpp"

namespace {

class Run {
 public:
  Run(const stencil& plate, int fd, bool blocking)
      : plate_(plate),
        fd_(fd),
        is_blocking_(blocking),
        service_(options(blocking)),
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
          const int error =
              iow_ta_pwrite(service_.raw(), fd_, stencil_block(&plate_, step, block),
                            plate_.block_bytes, stencil_offset(&plate_, checkpoint, block), result);
          if (error != 0) {
            *result = error;
          }
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

/// Takes --blocking out of the arguments.
bool take_blocking(std::vector<char*>& arguments) {
  return std::erase_if(arguments, [](const char* argument) {
           return std::strcmp(argument, "--blocking") == 0;
         }) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  const bool blocking = take_blocking(arguments);
  arguments.push_back(nullptr);
  stencil_options options;
  stencil plate;
  if (const int error =
          stencil_parse(&options, static_cast<int>(arguments.size()) - 1, arguments.data());
      error != 0) {
    std::fprintf(
        error < 0 ? stdout : stderr,
        "  --blocking    pause the task that writes, instead of binding the write to it\n");
    return error < 0 ? 0 : error;
  }
  if (stencil_init(&plate, &options) != 0) {
    std::fprintf(stderr, "not enough memory for the plate; choose a smaller --size\n");
    return 1;
  }
  const int fd = stencil_create_file(&plate);
  int status = 1;
  if (fd >= 0) {
    try {
      Run run(plate, fd, blocking);
      run.all_steps();
      status = stencil_finish(&plate, fd);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "stencil_tbb: %s\n", error.what());
    }
    ::close(fd);
  }
  stencil_free(&plate);
  return status;
}
