#include "engine/polled_size.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <span>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "engine/backends.hpp"
#include "engine/raw_syscall.hpp"
#include "engine/system_facts.hpp"

namespace ioweave::engine {
namespace {

/// The smallest page: where they are larger, a buffer has fewer pieces.
constexpr uint64_t kPage = 4096;
/// Pages that the kernel puts into one request in any case (BIO_MAX_VECS).
constexpr uint64_t kPagesOfRequest = 256;
constexpr uint64_t kNoLimit = UINT64_MAX;

struct Place {
  dev_t device = 0;  ///< 0: unknown
  bool is_device = false;
  uint64_t file_bytes = 0;
};

Place find_place(int fd) noexcept {
  struct statx status {};
  if (raw_syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_SIZE,
                  &status) != 0) {
    return {};
  }
  if (S_ISBLK(status.stx_mode)) {
    return {makedev(status.stx_rdev_major, status.stx_rdev_minor), true, 0};
  }
  return {makedev(status.stx_dev_major, status.stx_dev_minor), false, status.stx_size};
}

uint64_t number_of(const std::string& text) noexcept {
  return std::strtoull(text.c_str(), nullptr, 10);
}

uint64_t read_most_on(dev_t device) noexcept {
  const std::string kilobytes = queue_setting(device, "max_sectors_kb");
  if (kilobytes.empty()) return kNoLimit;
  return largest_polled_bytes({number_of(kilobytes) * 1024,
                               number_of(queue_setting(device, "max_segments")),
                               number_of(queue_setting(device, "chunk_sectors")) * 512});
}

/// A read within one block of any file system, which lies together and is not cut.
bool is_small_read(const Operation& operation) noexcept {
  return operation.op == Op::read && operation.offset >= 0 &&
         static_cast<uint64_t>(operation.offset) % kPage + operation.length <= kPage;
}

uint64_t polled_vectors(std::span<const iovec> vectors, uint64_t most) noexcept {
  uint64_t sum = 0;
  for (size_t i = 0; i < vectors.size(); ++i) {
    const auto begin = reinterpret_cast<uintptr_t>(vectors[i].iov_base);
    const bool has_gap = (i > 0 && begin % kPage != 0) ||
                         (i + 1 < vectors.size() && (begin + vectors[i].iov_len) % kPage != 0);
    if (has_gap || vectors[i].iov_len > most - sum) return 0;
    sum += vectors[i].iov_len;
  }
  return sum;
}

}  // namespace

uint64_t largest_polled_bytes(const RequestLimits& limits) noexcept {
  if (limits.chunk_bytes != 0) return 0;
  // A buffer that does not begin with its page touches one more than its length has.
  const uint64_t pages = std::min(limits.segments, kPagesOfRequest);
  const uint64_t bytes = std::min(limits.bytes, pages > 0 ? (pages - 1) * kPage : 0);
  return std::bit_floor(bytes) / kPage * kPage;
}

uint64_t polled_part(const Operation& operation, uint64_t most) noexcept {
  if (operation.op == Op::readv || operation.op == Op::writev) {
    return polled_vectors({operation.vectors, operation.vector_count}, most);
  }
  if (operation.length <= most) return operation.length;
  return operation.whole ? 0 : most;
}

bool is_waited_for(const Operation& operation, uint64_t file_bytes) noexcept {
  if (operation.op != Op::write && operation.op != Op::writev) return false;
  const iovec one{operation.buffer, operation.length};
  const std::span<const iovec> vectors = operation.op == Op::write
                                             ? std::span(&one, 1)
                                             : std::span(operation.vectors, operation.vector_count);
  const auto begin = static_cast<uint64_t>(operation.offset);
  uint64_t end = begin;
  uint64_t bits = begin;
  for (const iovec& vector : vectors) {
    bits |= reinterpret_cast<uintptr_t>(vector.iov_base) | vector.iov_len;
    end += vector.iov_len;
  }
  return operation.offset < 0 || bits % kPage != 0 || (begin < file_bytes && end > file_bytes);
}

bool splits_polled_transfers() noexcept {
  return kernel_at_least(6, 12);
}

uint64_t PolledSizes::bytes(const Operation& operation) noexcept {
  if (is_newer_kernel_ < 0) is_newer_kernel_ = splits_polled_transfers() ? 1 : 0;
  if (is_newer_kernel_ == 1 || is_small_read(operation)) return kNoLimit;
  const Place place = find_place(operation.fd);
  const uint64_t most = most_on(place.device);
  if (most == kNoLimit) return kNoLimit;
  if (!place.is_device && is_waited_for(operation, place.file_bytes)) return 0;
  return polled_part(operation, most);
}

uint64_t PolledSizes::most_on(dev_t device) noexcept {
  const std::span<Entry> known = std::span(entries_).first(std::min(known_, kEntries));
  const auto found = std::ranges::find(known, device, &Entry::device);
  if (found != known.end()) return found->most;
  const uint64_t most = read_most_on(device);
  entries_[known_++ % kEntries] = {device, most};
  return most;
}

}  // namespace ioweave::engine
