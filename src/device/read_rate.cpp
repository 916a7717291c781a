#include "device/read_rate.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/descriptor.hpp"

namespace ioweave::device {
namespace {

constexpr uint64_t kPieceBytes = 1u << 20;
constexpr uint64_t kLeastBytes = 16u << 20;
constexpr size_t kCopiedBytes = 32u << 20;
constexpr uint64_t kLeastCachedBytes = 4u << 20;
constexpr uint64_t kMostCachedBytes = 64u << 20;
constexpr uint64_t kLongestNs = 500'000'000;
/// Limits of control groups save up credit while nothing is read, and hand out bytes ten times a
/// second. So the first of these slices does not count, and the others count whole.
constexpr uint64_t kBurstNs = 100'000'000;
constexpr size_t kAlignment = 4096;

using Buffer = std::unique_ptr<void, void (*)(void*)>;

Buffer make_buffer() {
  return {std::aligned_alloc(kAlignment, kPieceBytes), &std::free};
}

/// What readers that take pieces in turn have read, and when.
struct Progress {
  const uint64_t pieces;
  const uint64_t begin_ns = now_ns();
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> steady_bytes{0};  ///< read behind the burst, within the time
};

void read_pieces(int fd, Progress& progress) {
  const Buffer buffer = make_buffer();
  if (buffer == nullptr) return;
  while (true) {
    const uint64_t piece = progress.next.fetch_add(1);
    if (piece >= progress.pieces) return;
    const ssize_t got =
        pread(fd, buffer.get(), kPieceBytes, static_cast<off_t>(piece * kPieceBytes));
    if (got <= 0) return;
    const uint64_t passed_ns = now_ns() - progress.begin_ns;
    progress.bytes.fetch_add(static_cast<uint64_t>(got));
    if (passed_ns >= kLongestNs) return;
    if (passed_ns >= kBurstNs) progress.steady_bytes.fetch_add(static_cast<uint64_t>(got));
  }
}

/// Returns how much of a file's beginning lies in the page cache, up to `most` bytes. (Of files of
/// others that may not be written, mincore(2) says that all does.)
uint64_t cached_beginning(int fd, uint64_t most) {
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  const uint64_t bytes = std::min(most, static_cast<uint64_t>(status.st_size));
  void* const map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) return 0;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  const bool is_told = mincore(map, bytes, pages.data()) == 0;
  munmap(map, bytes);
  const auto missing = std::ranges::find_if(pages, [](unsigned char is) { return (is & 1u) == 0; });
  return is_told ? std::min(bytes, static_cast<uint64_t>(missing - pages.begin()) * page) : 0;
}

}  // namespace

std::optional<double> device_read_rate(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<uint64_t>(status.st_size) < kLeastBytes) {
    return std::nullopt;
  }
  Progress progress{static_cast<uint64_t>(status.st_size) / kPieceBytes};
  std::array<std::thread, 4> readers;
  try {
    for (std::thread& reader : readers) {
      reader = std::thread([&] { read_pieces(file.get(), progress); });
    }
  } catch (const std::system_error&) {
    // With fewer threads the rate is lower, and no wrong one.
  }
  for (std::thread& reader : readers) {
    if (reader.joinable()) reader.join();
  }
  const uint64_t passed_ns = now_ns() - progress.begin_ns;
  const uint64_t bytes = progress.bytes.load();
  if (bytes < kLeastBytes / 2) return std::nullopt;
  const bool is_long = passed_ns >= 2 * kBurstNs;
  const uint64_t counted = is_long ? progress.steady_bytes.load() : bytes;
  const uint64_t counted_ns = std::min(passed_ns, kLongestNs) - (is_long ? kBurstNs : 0);
  if (counted == 0) return std::nullopt;
  return static_cast<double>(counted) / (static_cast<double>(counted_ns) * 1e-9);
}

double copy_time() {
  std::vector<std::byte> from(kCopiedBytes, std::byte{1});
  std::vector<std::byte> to(kCopiedBytes);
  const uint64_t begin = now_ns();
  std::memcpy(to.data(), from.data(), kCopiedBytes);
  const uint64_t end = now_ns();
  const volatile std::byte* const last = &to[kCopiedBytes - 1];
  static_cast<void>(*last);  // so that the copy is not optimized away
  return static_cast<double>(end - begin) * 1e-9 / static_cast<double>(kCopiedBytes);
}

std::optional<double> cached_read_time(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const Buffer buffer = make_buffer();
  if (!file.is_open() || buffer == nullptr) return std::nullopt;
  // A read that finds nothing begins read-ahead, even one that must not block.
  const uint64_t there = cached_beginning(file.get(), kMostCachedBytes);
  if (there < kLeastCachedBytes) return std::nullopt;
  uint64_t bytes = 0;
  const uint64_t begin = now_ns();
  while (bytes < there) {
    const iovec piece{buffer.get(), std::min(kPieceBytes, there - bytes)};
    const ssize_t got = preadv2(file.get(), &piece, 1, static_cast<off_t>(bytes), RWF_NOWAIT);
    if (got <= 0) break;
    bytes += static_cast<uint64_t>(got);
  }
  if (bytes < kLeastCachedBytes) return std::nullopt;
  return static_cast<double>(now_ns() - begin) * 1e-9 / static_cast<double>(bytes);
}

}  // namespace ioweave::device
