#include "engine/polled_size.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <span>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "engine/lane.hpp"
#include "engine/raw_syscall.hpp"
#include "engine/system_facts.hpp"

namespace ioweave::engine {
namespace {

/// The smallest page: where they are larger, a buffer has fewer pieces.
constexpr uint64_t kPage = 4096;
/// Pages that the kernel puts into one request in any case (BIO_MAX_VECS).
constexpr uint64_t kPagesOfRequest = 256;
constexpr uint64_t kNoLimit = UINT64_MAX;

/// The device below the descriptor, or 0.
dev_t find_device(int fd) noexcept {
  struct statx status {};
  if (raw_syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) !=
      0) {
    return 0;
  }
  return S_ISBLK(status.stx_mode) ? makedev(status.stx_rdev_major, status.stx_rdev_minor)
                                  : makedev(status.stx_dev_major, status.stx_dev_minor);
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

/// Within one block of any file system, which lies together and is not cut.
bool is_small(const Operation& operation) noexcept {
  return operation.op != Op::readv && operation.op != Op::writev && operation.offset >= 0 &&
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

uint64_t PolledSizes::bytes(const Operation& operation) noexcept {
  if (kernel_splits_ < 0) kernel_splits_ = kernel_at_least(6, 3) ? 1 : 0;
  if (kernel_splits_ == 1 || is_small(operation)) return kNoLimit;
  const uint64_t most = most_on(find_device(operation.fd));
  return most == kNoLimit ? kNoLimit : polled_part(operation, most);
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
