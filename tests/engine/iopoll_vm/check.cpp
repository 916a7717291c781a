// iopoll_vm_check FILE
//
// Reads and writes FILE, a block device or a file on one whose queues are polled, through io_uring
// backends with and without IOPOLL and through a service, and compares the bytes. Counts the
// interrupts of NVMe queues meanwhile: a polled transfer has none, a plain one at least one. FILE
// is overwritten. Exit status 0: all is as it should be; 77: the device is not polled.

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/backend.hpp"
#include "engine/system_facts.hpp"
#include "ioweave/ioweave.h"

namespace {

using namespace ioweave::engine;

constexpr size_t kPage = 4096;
constexpr size_t kFileBytes = 16 << 20;
constexpr size_t kMostBytes = 4 << 20;
constexpr int kTransfers = 32;
/// What is a request of its own on any device with polled queues.
constexpr size_t kSurelyOneRequest = 128 << 10;
/// Of a transfer that ends at all; less than NVMe's timeout, which would end one (30 s).
constexpr int64_t kForeverNs = 20'000'000'000;

bool failed = false;

__attribute__((format(printf, 2, 3))) void expect(bool condition, const char* format, ...) {
  if (condition) return;
  failed = true;
  va_list arguments;
  va_start(arguments, format);
  std::printf("FAILED: ");
  std::vprintf(format, arguments);
  std::printf("\n");
  va_end(arguments);
}

/// Interrupts of the NVMe queues that carry transfers. A polled queue has no line, q0 none of them.
int64_t count_interrupts() {
  int64_t sum = 0;
  std::ifstream file("/proc/interrupts");
  for (std::string line; std::getline(file, line);) {
    const size_t name = line.rfind(" nvme");
    if (name == std::string::npos || line.ends_with("q0")) continue;
    std::istringstream counts(line.substr(line.find(':') + 1));
    for (int64_t count = 0; counts >> count;) sum += count;
  }
  return sum;
}

/// Memory whose pages do not adjoin, as far as the order of their first use decides it.
std::span<char> scattered_memory() {
  void* const memory = ::mmap(nullptr, kMostBytes + kPage, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  ::madvise(memory, kMostBytes + kPage, MADV_NOHUGEPAGE);
  std::vector<size_t> pages(kMostBytes / kPage + 1);
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = i;
  std::shuffle(pages.begin(), pages.end(), std::mt19937(1));
  for (const size_t page : pages) static_cast<char*>(memory)[page * kPage] = 1;
  return {static_cast<char*>(memory), kMostBytes + kPage};
}

/// The byte that the file has at an offset, in this round of writing.
char byte_at(size_t offset, unsigned round) {
  return static_cast<char>((offset * 2654435761U >> 13) + (offset >> 12) * 7 + round);
}

struct File {
  int fd = -1;
  bool is_device = false;
  unsigned round = 0;  ///< of what it holds
  std::span<char> memory;
  size_t request_bytes = 0;  ///< what its device takes at once
};

void fill(std::span<char> bytes, size_t offset, unsigned round) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(offset + i, round);
}

bool matches(std::span<const char> bytes, size_t offset, unsigned round) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != byte_at(offset + i, round)) return false;
  }
  return true;
}

/// Writes the whole file by plain calls.
void write_all(File& file) {
  ++file.round;
  for (size_t offset = 0; offset < kFileBytes; offset += kMostBytes) {
    const std::span<char> part = file.memory.first(kMostBytes);
    fill(part, offset, file.round);
    const ssize_t written = ::pwrite(file.fd, part.data(), part.size(), static_cast<off_t>(offset));
    expect(written == static_cast<ssize_t>(part.size()), "pwrite: %zd", written);
  }
  ::fsync(file.fd);
}

/// One transfer to its end, as the service continues a short one. The bytes, or -errno.
int64_t carry(Backend& backend, Operation operation) {
  const auto began = operation.length;
  while (operation.length > 0) {
    if (backend.submit(operation) != Submitted::queued) return -ENOTSUP;
    Operation* out = nullptr;
    timespec start{};
    ::clock_gettime(CLOCK_MONOTONIC, &start);
    while (out == nullptr) {
      if (const int got = backend.reap({&out, 1}, {1, kForeverNs, true}); got < 0) return got;
      timespec now{};
      ::clock_gettime(CLOCK_MONOTONIC, &now);
      if (out == nullptr && (now.tv_sec - start.tv_sec) * 1'000'000'000 > kForeverNs) {
        std::printf("FAILED: a transfer of %" PRIu64 " bytes does not end\n", operation.length);
        std::fflush(stdout);
        ::_exit(1);  // the kernel still has our memory
      }
    }
    if (operation.result <= 0) return operation.result;
    operation.buffer = static_cast<char*>(operation.buffer) + operation.result;
    operation.offset += operation.result;
    operation.length -= static_cast<uint64_t>(operation.result);
  }
  return static_cast<int64_t>(began);
}

std::unique_ptr<Backend> open_ring(UringMode mode) {
  BackendOptions options;
  options.mode = mode;
  options.entries = 8;
  int error = 0;
  std::string why;
  auto backend = open_backend(options, error, why);
  if (backend == nullptr) {
    std::printf("FAILED: %s\n", why.c_str());
    std::exit(1);
  }
  return backend;
}

/// Interrupts during kTransfers transfers one after the other; the bytes are compared.
int64_t measure(File& file, UringMode mode, Op op, size_t bytes) {
  const auto backend = open_ring(mode);
  if (op == Op::write) ++file.round;
  // Not from the beginning of a page, which no polled write to a file may do.
  const bool is_aligned = op == Op::write && !file.is_device;
  const std::span<char> memory = file.memory.subspan(is_aligned ? 0 : 512, bytes);
  int64_t interrupts = 0;
  for (int i = 0; i < kTransfers; ++i) {
    const size_t offset = static_cast<size_t>(i) * bytes % (kFileBytes - bytes) / kPage * kPage;
    if (op == Op::write) {
      fill(memory, offset, file.round);
    } else {
      std::ranges::fill(memory, 0);
    }
    Operation operation;
    operation.op = op;
    operation.fd = file.fd;
    operation.buffer = memory.data();
    operation.length = bytes;
    operation.offset = static_cast<int64_t>(offset);
    const int64_t before = count_interrupts();
    const int64_t result = carry(*backend, operation);
    interrupts += count_interrupts() - before;
    expect(result == static_cast<int64_t>(bytes), "result %" PRId64 " instead of %zu", result,
           bytes);
    if (op == Op::write) {
      std::ranges::fill(memory, 0);
      const ssize_t got = ::pread(file.fd, memory.data(), bytes, static_cast<off_t>(offset));
      expect(got == static_cast<ssize_t>(bytes), "pread: %zd", got);
    }
    expect(matches(memory, offset, file.round), "%zu bytes at %zu differ", bytes, offset);
  }
  if (op == Op::write) write_all(file);
  return interrupts;
}

/// Other users of the disk, a journal for one, may have a few interrupts of their own.
constexpr int64_t kStray = kTransfers / 8;

void compare(File& file, Op op, size_t bytes) {
  const int64_t plain = measure(file, UringMode::plain, op, bytes);
  const int64_t polled = measure(file, UringMode::iopoll, op, bytes);
  std::printf("%-5s %5zu KiB  %d transfers  interrupts: io_uring %" PRId64 ", IOPOLL %" PRId64 "\n",
              op == Op::read ? "read" : "write", bytes >> 10, kTransfers, plain, polled);
  std::fflush(stdout);
  expect(plain >= kTransfers, "plain transfers had fewer interrupts than transfers");
  // Linux 6.12 splits what is larger, and does not poll the parts; nor does it poll writes to ext4.
  const bool is_polled =
      (bytes <= kSurelyOneRequest || !kernel_at_least(6, 12)) && (op == Op::read || file.is_device);
  expect(!is_polled || polled <= kStray, "polled transfers had interrupts");
}

// ---- By the service ----------------------------------------------------------------------------

int64_t run(iow_service* service, iow_request request) {
  iow_request* const one = &request;
  if (const int taken = iow_submit(service, &one, 1); taken != 1) return taken;
  const int status = iow_wait(service, &request, kForeverNs);
  return status == 0 ? request.result : status;
}

/// A service with IOPOLL carries what the device takes in several requests only.
void check_service(File& file) {
  iow_options options{};
  options.mode = IOW_MODE_IOPOLL;
  options.required = 1;
  iow_service* service = nullptr;
  char* text = nullptr;
  const int error = iow_service_open(&service, &options, &text);
  expect(error == 0, "iow_service_open: %d %s", error, text != nullptr ? text : "");
  if (error != 0) return;

  const auto read = [&](const char* what, iow_request request, size_t bytes) {
    request.fd = file.fd;
    request.offset = kPage;
    std::ranges::fill(file.memory, 0);
    const int64_t before = count_interrupts();
    const int64_t result = run(service, request);
    std::printf("service: %s of %zu KiB  interrupts: %" PRId64 "\n", what, bytes >> 10,
                count_interrupts() - before);
    std::fflush(stdout);
    expect(result == static_cast<int64_t>(bytes), "%s: %" PRId64, what, result);
  };
  const size_t bytes = file.request_bytes + (512 << 10);
  iow_request large{};
  large.op = IOW_OP_READ;
  large.buffer = file.memory.data();
  large.bytes = bytes;
  for (const bool exact : {false, true}) {
    large.flags = exact ? IOW_EXACT : 0;
    read(exact ? "exact read" : "read", large, bytes);
    expect(matches(file.memory.first(bytes), kPage, file.round), "its bytes differ");
  }
  // A gap in memory between the first and the second, where NVMe cannot go on.
  const iovec vectors[] = {{file.memory.data() + 512, 1024}, {file.memory.data() + kPage, 7168}};
  iow_request scattered{};
  scattered.op = IOW_OP_READV;
  scattered.buffer = const_cast<iovec*>(vectors);
  scattered.bytes = 2;
  read("scattered read", scattered, 8192);
  expect(matches(file.memory.subspan(512, 1024), kPage, file.round) &&
             matches(file.memory.subspan(kPage, 7168), kPage + 1024, file.round),
         "its bytes differ");

  // Before 6.12, ext4 would wait for it, and nobody poll.
  iow_request unaligned{};
  unaligned.op = IOW_OP_WRITE;
  unaligned.fd = file.fd;
  unaligned.buffer = file.memory.data() + 512;
  unaligned.bytes = kPage;
  unaligned.offset = kPage;
  fill(file.memory.subspan(512, kPage), kPage, file.round);
  const int64_t written = run(service, unaligned);
  expect(written == static_cast<int64_t>(kPage), "unaligned write: %" PRId64, written);

  const std::string engine = iow_service_engine(service, nullptr);
  expect(engine == "io_uring+iopoll", "the service fell back to %s", engine.c_str());
  iow_service_close(service);
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "Usage: iopoll_vm_check FILE (which is overwritten)\n");
    return 2;
  }
  File file;
  file.fd = ::open(words[1], O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
  if (file.fd < 0) {
    std::printf("FAILED: %s: %s\n", words[1], std::strerror(errno));
    return 1;
  }
  struct stat status {};
  ::fstat(file.fd, &status);
  file.is_device = S_ISBLK(status.st_mode);
  const dev_t device = file.is_device ? status.st_rdev : status.st_dev;
  if (queue_setting(device, "io_poll") != "1") {
    std::printf("SKIP: the queues of the device of %s are not polled\n", words[1]);
    return 77;
  }
  file.request_bytes = std::stoul(queue_setting(device, "max_sectors_kb")) * 1024;
  std::printf("%s, max_sectors_kb %zu, max_segments %s, Linux %s\n", words[1],
              file.request_bytes >> 10, queue_setting(device, "max_segments").c_str(),
              kernel_release().c_str());
  file.memory = scattered_memory();
  write_all(file);
  for (const Op op : {Op::read, Op::write}) {
    for (const size_t bytes : {kPage, size_t{64} << 10, size_t{128} << 10, size_t{256} << 10,
                               file.request_bytes, file.request_bytes + kPage, size_t{1} << 20}) {
      compare(file, op, bytes);
    }
  }
  check_service(file);
  ::close(file.fd);
  return failed ? 1 : 0;
}
