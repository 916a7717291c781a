// 4 KiB calls on a file in the page cache, as a program makes them that knows nothing of Ioweave:
// run plainly and under `ioweave run`, the difference is what the interposer adds to a call.

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/clock.hpp"
#include "driver.hpp"

namespace {

using namespace ioweave::bench;

constexpr size_t kBlockBytes = 4096;
/// Small enough for the second-level cache: the call is measured, not the memory behind it.
constexpr uint64_t kBlocks = 64;

using Call = ssize_t (*)(int fd, std::byte* buffer, uint64_t index);

off_t offset_of(uint64_t index) {
  return static_cast<off_t>(index % kBlocks * kBlockBytes);
}

ssize_t call_pread(int fd, std::byte* buffer, uint64_t index) {
  return pread(fd, buffer, kBlockBytes, offset_of(index));
}

ssize_t call_pwrite(int fd, std::byte* buffer, uint64_t index) {
  return pwrite(fd, buffer, kBlockBytes, offset_of(index));
}

ssize_t call_read(int fd, std::byte* buffer, uint64_t index) {
  if (offset_of(index) == 0) {
    check_errno(lseek(fd, 0, SEEK_SET), "lseek");
  }
  return read(fd, buffer, kBlockBytes);
}

const std::map<std::string, Call> kCalls{
    {"pread", call_pread}, {"pwrite", call_pwrite}, {"read", call_read}};

/// Nanoseconds per call over so many.
double batch_ns(Call call, int fd, std::byte* buffer, uint64_t calls) {
  const uint64_t start_ns = ioweave::now_ns();
  for (uint64_t i = 0; i < calls; ++i) {
    if (call(fd, buffer, i) != static_cast<ssize_t>(kBlockBytes)) {
      die("a call failed or was short", errno);
    }
  }
  return static_cast<double>(ioweave::now_ns() - start_ns) / static_cast<double>(calls);
}

int run(int argc, char** argv) {
  std::string path;
  std::string name = "pread";
  unsigned batches = 40;
  uint64_t calls = 10'000;
  CLI::App app{"Cached 4 KiB calls; prints the median over batches of nanoseconds per call"};
  app.add_option("--file", path, "of at least 256 KiB; pwrite overwrites its content")->required();
  app.add_option("--call", name)->check(CLI::IsMember(&kCalls));
  app.add_option("--batches", batches)->check(CLI::PositiveNumber);
  app.add_option("--calls", calls, "per batch")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  const Call call = kCalls.at(name);
  const File file(path, name == "pwrite" ? O_RDWR : O_RDONLY);
  if (file.size() < kBlocks * kBlockBytes) {
    die(path + " is smaller than 256 KiB");
  }
  const Buffer buffer(kBlockBytes);
  batch_ns(call, file.fd(), buffer.data(), std::max(calls / 10, kBlocks));
  std::vector<double> samples(batches);
  std::generate(samples.begin(), samples.end(),
                [&] { return batch_ns(call, file.fd(), buffer.data(), calls); });
  // The median: a batch in which another program had the processor does not count.
  const auto middle = samples.begin() + batches / 2;
  std::nth_element(samples.begin(), middle, samples.end());
  print_result({{"ns", *middle}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}
