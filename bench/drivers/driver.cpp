#include "driver.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>

#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.hpp"

namespace ioweave::bench {

void die(const std::string& what, int error) {
  die(what + ": " + std::strerror(std::abs(error)));
}

void die(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what.c_str());
  std::exit(EXIT_FAILURE);
}

int guarded(int (*program)(int argc, char** argv), int argc, char** argv) noexcept {
  try {
    return program(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, error.what());
    return EXIT_FAILURE;
  }
}

int64_t check(int64_t result, const char* what) {
  if (result < 0) {
    die(what, static_cast<int>(result));
  }
  return result;
}

int64_t check_errno(int64_t result, const char* what) {
  if (result == -1) {
    die(what, errno);
  }
  return result;
}

Usage Usage::now() {
  rusage usage{};
  check_errno(getrusage(RUSAGE_SELF, &usage), "getrusage");
  const auto nanoseconds = [](const timeval& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u +
           static_cast<uint64_t>(time.tv_usec) * 1'000u;
  };
  return {now_ns(), nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime)};
}

double seconds_since(uint64_t start_ns) {
  return static_cast<double>(now_ns() - start_ns) / 1e9;
}

double peak_rss_mib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == "VmHWM:") {
      double kib = 0;
      status >> kib;
      return kib / 1024;
    }
  }
  die("/proc/self/status does not tell the peak memory");
}

File::File(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC)) {
  if (fd_ == -1) {
    die("cannot open " + path, errno);
  }
}

File::~File() {
  close(fd_);
}

uint64_t File::size() const {
  struct stat status {};
  check_errno(fstat(fd_, &status), "fstat");
  return static_cast<uint64_t>(status.st_size);
}

Buffer::Buffer(size_t bytes, Content content)
    : bytes_(bytes),
      data_(static_cast<std::byte*>(
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
  if (data_ == MAP_FAILED) {
    die("cannot allocate " + std::to_string(bytes) + " bytes", errno);
  }
  if (content == Content::bytes) {
    // Not zeros: some devices below a virtual machine store those specially.
    std::memset(data_, 0x5a, bytes);
  }
}

Buffer::~Buffer() {
  munmap(data_, bytes_);
}

RandomBlocks::RandomBlocks(uint64_t span_bytes, uint64_t block_bytes, uint64_t seed)
    : blocks_(block_bytes == 0 ? 0 : span_bytes / block_bytes),
      block_bytes_(block_bytes),
      // The golden-ratio step spreads small seeds; the generator's state must not be zero.
      state_((seed + 1) * 0x9e3779b97f4a7c15ULL) {
  if (blocks_ == 0 || blocks_ >> 32 != 0) {
    die("the file must hold between 1 and 2^32 blocks");
  }
}

void open_bare_ring(io_uring& ring, unsigned entries) {
  constexpr unsigned kBest = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  int result = io_uring_queue_init(entries, &ring, kBest);
  if (result == -EINVAL) {
    result = io_uring_queue_init(entries, &ring, 0);
  }
  check(result, "io_uring_queue_init");
}

void print_result(std::initializer_list<std::pair<std::string_view, double>> fields) {
  const char* separator = "{";
  for (const auto& [key, value] : fields) {
    std::printf("%s\"%.*s\": %.9g", separator, static_cast<int>(key.size()), key.data(), value);
    separator = ", ";
  }
  std::printf("}\n");
  if (std::fflush(stdout) != 0) {
    die("standard output", errno);
  }
}

}  // namespace ioweave::bench
