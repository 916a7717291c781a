// The checkpointing stencil with a write stream; examples/tasks/stencil.h says what it computes and
// how the file is laid out. The computation goes on while its checkpoints are written: it only
// waits where they come faster than the device takes them, and then for one buffer.
//
//   stencil_stream [--size N] [--steps N] [--every N] [--blocks N] [--direct] [--recompute] FILE
#include <cstdio>
#include <cstring>
#include <system_error>

#include <ioweave/streams.hpp>

#include "stencil.h"

namespace {

/// A checkpoint: each block is copied into a buffer of the stream, as the plate changes meanwhile.
void write_checkpoint(const stencil& plate, int step, ioweave::WriteStream& results, int file) {
  const int checkpoint = stencil_checkpoint_of(&plate, step);
  for (int block = 0; block < plate.options.blocks; ++block) {
    ioweave::Lease lease = results.lease();
    std::memcpy(lease.data().data(), stencil_block(&plate, step, block), plate.block_bytes);
    lease.write(file, plate.block_bytes, stencil_offset(&plate, checkpoint, block));
    *stencil_result(&plate, checkpoint, block) = static_cast<ssize_t>(plate.block_bytes);
  }
}

void compute_and_write(const stencil& plate) {
  ioweave::Service service;
  iow_write_stream_options options{};
  options.buffer_bytes = plate.block_bytes;
  options.path = plate.options.direct != 0 ? IOW_PATH_DIRECT : IOW_PATH_AUTO;
  ioweave::WriteStream results(service, options);
  iow_write_file_options whole{};
  whole.expected_bytes = static_cast<uint64_t>(stencil_offset(&plate, plate.checkpoints, 0));
  const int file = results.create(plate.options.path, whole);
  for (int step = 1; step <= plate.options.steps; ++step) {
    for (int block = 0; block < plate.options.blocks; ++block) {
      stencil_compute(&plate, step, block);
    }
    if (stencil_checkpoint_of(&plate, step) >= 0) {
      write_checkpoint(plate, step, results, file);
    }
  }
  results.close();  // all of it is on the device, or this throws
}

int run(const stencil* plate, int fd) {
  try {
    compute_and_write(*plate);
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "stencil_stream: %s\n", error.what());
    return 1;
  }
  return stencil_finish(plate, fd);
}

}  // namespace

int main(int argc, char** argv) {
  return stencil_main(argc, argv, &run);
}
