#include "calls/preload/bounce.hpp"

#include <array>
#include <atomic>
#include <cstddef>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/page_bytes.hpp"
#include "calls/libc/signal_context.hpp"
#include "calls/preload/engine_calls.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::calls {
namespace {

using engine::raw_syscall;

constexpr size_t kBuffers = 8;  // reads at once
constexpr uint64_t kLargePageBytes = 2 << 20;

std::array<std::atomic<uint32_t>, kBuffers> taken{};
std::atomic<std::byte*> memory{nullptr};
std::atomic<uint32_t> tried{0};  // by the thread that maps it

/// Whether the program has bounded its memory: then ours would be at its expense.
bool is_bounded(int resource) noexcept {
  rlimit limit{};
  return raw_syscall(SYS_prlimit64, 0, resource, nullptr, &limit) != 0 ||
         limit.rlim_cur != RLIM_INFINITY;
}

/// Returns false if not all of it can be stored. The kernel looks at the other end as a debugger
/// would, so that is our own memory: at the program's buffer all that forbids a store counts.
bool copy_if_writable(void* to, std::byte* from, size_t bytes) noexcept {
  const iovec local{to, bytes};
  const iovec remote{from, bytes};
  return raw_syscall(SYS_process_vm_readv, raw_syscall(SYS_gettid), &local, 1, &remote, 1, 0) ==
         static_cast<long>(bytes);
}

/// Null where that is not possible, or the kernel does not copy in this process.
std::byte* map_memory() noexcept {
  if (is_bounded(RLIMIT_AS) || is_bounded(RLIMIT_DATA)) return nullptr;
  constexpr uint64_t kBytes = kBuffers * kMostBouncedBytes;
  constexpr int kWipeOnFork = 18;  // MADV_WIPEONFORK
  // It must not be locked, and so be there, because of mlockall(2).
  const long address = raw_syscall(SYS_mmap, nullptr, kBytes + kLargePageBytes, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address < 0) return nullptr;
  const auto begin =
      (static_cast<uint64_t>(address) + kLargePageBytes - 1) & ~(kLargePageBytes - 1);
  raw_syscall(SYS_munlock, begin, kBytes);
  raw_syscall(SYS_madvise, begin, kBytes, MADV_HUGEPAGE);  // best effort, like the next
  raw_syscall(SYS_madvise, begin, kBytes, kWipeOnFork);
  auto* const made = reinterpret_cast<std::byte*>(begin);
  const bool is_usable = raw_syscall(SYS_mprotect, begin, kBytes, PROT_READ | PROT_WRITE) == 0 &&
                         copy_if_writable(made, made, 1);
  return is_usable ? made : nullptr;
}

/// Null where there is none, or somebody is just mapping it.
std::byte* mapped_memory() noexcept {
  std::byte* const found = memory.load(std::memory_order_acquire);
  if (found != nullptr || tried.exchange(1, std::memory_order_relaxed) != 0) return found;
  std::byte* const made = map_memory();
  memory.store(made, std::memory_order_release);
  return made;
}

/// A buffer that nobody else uses.
class Bounce {
 public:
  Bounce() noexcept {
    std::byte* const begin = mapped_memory();
    for (size_t i = 0; begin != nullptr && i < kBuffers; ++i) {
      if (taken[i].exchange(1, std::memory_order_acquire) != 0) continue;
      number_ = i;
      bytes_ = begin + i * kMostBouncedBytes;
      return;
    }
  }
  ~Bounce() {
    if (bytes_ != nullptr) taken[number_].store(0, std::memory_order_release);
  }
  Bounce(const Bounce&) = delete;
  Bounce& operator=(const Bounce&) = delete;

  /// Null: all are in use.
  [[nodiscard]] std::byte* bytes() const noexcept { return bytes_; }

 private:
  std::byte* bytes_ = nullptr;
  size_t number_ = 0;
};

bool is_aligned(const Transfer& transfer) noexcept {
  return reinterpret_cast<uint64_t>(transfer.buffer) % page_bytes() == 0;
}

/// Whether all that is wanted lies in the file.
bool is_within(const Transfer& transfer, uint64_t size) noexcept {
  const int64_t begin =
      transfer.offset >= 0 ? transfer.offset : raw_syscall(SYS_lseek, transfer.fd, 0, SEEK_CUR);
  const auto at = static_cast<uint64_t>(begin);
  return begin >= 0 && at <= size && transfer.bytes <= size - at;
}

}  // namespace

bool read_by_bounce(const Transfer& transfer, const stats::FileRecord& file,
                    int64_t& result) noexcept {
  uint64_t size = 0;
  if (!is_aligned(transfer) || transfer.bytes > kMostBouncedBytes ||
      !is_still_direct(file, transfer.fd, size) || !is_within(transfer, size)) {
    return false;
  }
  const SignalsHeld held;
  const TransferUnderWay under_way;
  if (!under_way.may_go()) return false;
  const Bounce bounce;
  if (bounce.bytes() == nullptr) return false;
  if (major(file.device) == 0) held.let_fatal_ones_in();  // the device of a server may never answer
  const bool has_offset = transfer.offset >= 0;
  const long read = has_offset ? raw_syscall(SYS_pread64, transfer.fd, bounce.bytes(),
                                             transfer.bytes, transfer.offset)
                               : raw_syscall(SYS_read, transfer.fd, bounce.bytes(), transfer.bytes);
  if (read < 0) return false;
  if (!copy_if_writable(transfer.buffer, bounce.bytes(), static_cast<size_t>(read))) {
    if (!has_offset) raw_syscall(SYS_lseek, transfer.fd, -read, SEEK_CUR);
    return false;
  }
  result = read;
  return true;
}

void forget_bounces() noexcept {
  for (std::atomic<uint32_t>& each : taken) each.store(0, std::memory_order_relaxed);
}

}  // namespace ioweave::calls
