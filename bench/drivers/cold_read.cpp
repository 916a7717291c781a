// Reads a file from beginning to end, chunk by chunk, with read(2) and nothing else: the read time
// R of the overlap model, free of any computation that the kernel's read-ahead could hide behind.

#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "driver.hpp"
#include "options.hpp"

namespace {

using namespace ioweave::bench;

int run(int argc, char** argv) {
  std::string path;
  size_t chunk_bytes = 4u << 20;
  Options app("Reads a file chunk by chunk; prints the seconds inside read(2) and the bytes");
  app.add("--file", path).required();
  app.add("--chunk", chunk_bytes, "bytes per read(2)").positive();
  app.parse(argc, argv);

  const File file(path, O_RDONLY);
  const Buffer buffer(chunk_bytes);
  uint64_t bytes = 0;
  ssize_t count = 0;
  const Usage before = Usage::now();
  do {
    count = check_errno(read(file.fd(), buffer.data(), chunk_bytes), "read");
    bytes += static_cast<uint64_t>(count);
  } while (count > 0);
  const Usage used = Usage::now() - before;
  print_result({{"seconds", static_cast<double>(used.wall_ns) / 1e9},
                {"bytes", static_cast<double>(bytes)}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}
