// Prints what the overlap model says of a program that reads, computes and writes in chunks: with
// prefetching, with write-behind by the given buffers and devices, and with both on one device. So
// the harness has no formula of its own, and bench/demo needs no Python package to ask.

#include "driver.hpp"
#include "model/overlap.hpp"
#include "options.hpp"

namespace {

using namespace ioweave;
using namespace ioweave::bench;

int run(int argc, char** argv) {
  model::Items chunks;
  Options app("Prints the times of the overlap model, from those of one chunk");
  app.add("--chunks", chunks.count).required();
  app.add("--read-s", chunks.read_s).required().not_negative();
  app.add("--compute-s", chunks.compute_s).required().not_negative();
  app.add("--write-s", chunks.write_s).required().not_negative();
  uint32_t buffers = 2;
  uint32_t devices = 1;
  app.add("--buffers", buffers, "of write-behind").positive();
  app.add("--devices", devices, "of write-behind").positive();
  app.parse(argc, argv);

  print_result({{"overlapped_s", model::prefetch_s(chunks)},
                {"hideable_s", model::hideable_read_s(chunks)},
                {"one_device_s", model::one_device_bound_s(chunks)},
                {"write_behind_s", model::write_behind_s(chunks, buffers, devices)}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}
