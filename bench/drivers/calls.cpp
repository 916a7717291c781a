// Calls on a file in the page cache, or past it (--direct), as a program makes them that knows
// nothing of Ioweave: run plainly and under `ioweave run`, the difference is what that adds to a
// call.

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "driver.hpp"
#include "options.hpp"

namespace {

using namespace ioweave::bench;

/// Of 4 KiB small enough for the second-level cache: the call is measured, not the memory behind
/// it.
constexpr uint64_t kBlocks = 64;

struct Block {
  int fd;
  std::byte* buffer;
  size_t bytes;
  off_t offset;
};

using Call = ssize_t (*)(const Block& block);

ssize_t call_pread(const Block& block) {
  return pread(block.fd, block.buffer, block.bytes, block.offset);
}

ssize_t call_pwrite(const Block& block) {
  return pwrite(block.fd, block.buffer, block.bytes, block.offset);
}

ssize_t call_read(const Block& block) {
  if (block.offset == 0) {
    check_errno(lseek(block.fd, 0, SEEK_SET), "lseek");
  }
  return read(block.fd, block.buffer, block.bytes);
}

const std::map<std::string, Call> kCalls{
    {"pread", call_pread}, {"pwrite", call_pwrite}, {"read", call_read}};

/// Nanoseconds per call over so many.
double batch_ns(Call call, Block block, uint64_t calls) {
  const uint64_t start_ns = ioweave::now_ns();
  for (uint64_t i = 0; i < calls; ++i) {
    block.offset = static_cast<off_t>(i % kBlocks * block.bytes);
    if (call(block) != static_cast<ssize_t>(block.bytes)) {
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
  size_t bytes = 4096;
  bool direct = false;
  Options app("Calls of a size; prints the median over batches of nanoseconds per call");
  app.add("--file", path, "of at least 64 times --block; pwrite overwrites its content").required();
  std::vector<std::string> names;
  names.reserve(kCalls.size());
  for (const auto& [known, call] : kCalls) {
    names.push_back(known);
  }
  app.add("--call", name).one_of(names);
  app.add("--batches", batches).positive();
  app.add("--calls", calls, "per batch").positive();
  app.add("--block", bytes, "bytes of a call").positive();
  app.add_flag("--direct", direct, "past the page cache (O_DIRECT)");
  app.parse(argc, argv);

  const Call call = kCalls.at(name);
  const File file(path, (name == "pwrite" ? O_RDWR : O_RDONLY) | (direct ? O_DIRECT : 0));
  if (file.size() < kBlocks * bytes) {
    die(path + " is smaller than 64 blocks");
  }
  const Buffer buffer(bytes);
  const Block block{file.fd(), buffer.data(), bytes, 0};
  batch_ns(call, block, std::max(calls / 10, kBlocks));
  std::vector<double> samples(batches);
  std::generate(samples.begin(), samples.end(), [&] { return batch_ns(call, block, calls); });
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
