// Blocking 4 KiB reads at random offsets: iow_pread() against pread(2), on the same descriptor.

#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "driver.hpp"
#include "ioweave/ioweave.h"
#include "options.hpp"

namespace {

using namespace ioweave::bench;

struct Settings {
  std::string path;
  bool direct = false;
  size_t block_bytes = 4096;
  unsigned rounds = 10;
  double seconds = 0.1;
};

/// Reads for that long; nanoseconds per call. `read` has the arguments of pread(2) and its result,
/// or a negated errno.
template <typename Read>
double nanoseconds_per_call(const Settings& settings, RandomBlocks offsets, Buffer& buffer,
                            Read read) {
  // The clock is read once in so many calls: it would be a tenth of a cached one.
  constexpr unsigned kCallsPerCheck = 16;
  const uint64_t start_ns = ioweave::now_ns();
  const uint64_t end_ns = start_ns + static_cast<uint64_t>(settings.seconds * 1e9);
  uint64_t calls = 0;
  uint64_t now = start_ns;
  while (now < end_ns) {
    for (unsigned i = 0; i < kCallsPerCheck; ++i) {
      const ssize_t result = read(buffer.data(), settings.block_bytes, offsets.next());
      if (result != static_cast<ssize_t>(settings.block_bytes)) {
        die("read failed or was short: " + std::to_string(result));
      }
    }
    calls += kCallsPerCheck;
    now = ioweave::now_ns();
  }
  return static_cast<double>(now - start_ns) / static_cast<double>(calls);
}

void measure(const Settings& settings) {
  const File file(settings.path, O_RDONLY | (settings.direct ? O_DIRECT : 0));
  Buffer buffer(settings.block_bytes);
  iow_service* service = nullptr;
  check(iow_service_open(&service, nullptr, nullptr), "iow_service_open");

  const auto plain = [fd = file.fd()](void* data, size_t bytes, off_t offset) {
    return pread(fd, data, bytes, offset);
  };
  const auto through_service = [fd = file.fd(), service](void* data, size_t bytes, off_t offset) {
    return iow_pread(service, fd, data, bytes, offset);
  };
  for (unsigned round = 0; round < settings.rounds; ++round) {
    // Both contenders of a round read the same offsets; the order alternates.
    const RandomBlocks offsets(file.size(), settings.block_bytes, round);
    double service_ns = 0;
    if (round % 2 == 0) {
      service_ns = nanoseconds_per_call(settings, offsets, buffer, through_service);
    }
    const double plain_ns = nanoseconds_per_call(settings, offsets, buffer, plain);
    if (round % 2 == 1) {
      service_ns = nanoseconds_per_call(settings, offsets, buffer, through_service);
    }
    print_result({{"service_ns", service_ns}, {"plain_ns", plain_ns}});
  }
  iow_service_close(service);
}

int run(int argc, char** argv) {
  Settings settings;
  Options app("iow_pread() and pread(2) in turn");
  app.add("--file", settings.path).required();
  app.add_flag("--direct", settings.direct, "open it with O_DIRECT");
  app.add("--bytes", settings.block_bytes, "of one read").positive();
  app.add("--rounds", settings.rounds).positive();
  app.add("--seconds", settings.seconds, "per contender and round").positive();
  app.parse(argc, argv);
  measure(settings);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}
