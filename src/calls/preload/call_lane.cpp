#include "calls/preload/call_lane.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "calls/libc/signal_context.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::calls {
namespace {

using engine::Op;
using engine::raw_syscall;
using engine::UringMode;

// Linux 6.5; this header may be older.
constexpr unsigned kNoMmap = 1u << 14;            // IORING_SETUP_NO_MMAP
constexpr unsigned kRegisteredFdOnly = 1u << 15;  // IORING_SETUP_REGISTERED_FD_ONLY

constexpr unsigned kOwnThread = 1u << 12 | 1u << 13;  // SINGLE_ISSUER (6.0), DEFER_TASKRUN (6.1)

constexpr size_t kPart = 64 << 10;  // a page where pages are largest; the rest is never touched
constexpr size_t kLaneBytes = 3 * kPart;  // the lane, its queues, its submission entries
constexpr unsigned kEntries = choice::kMostAtOnce;

/// A transfer of a file is not interrupted, but one that never ends (a dead server behind it) can
/// be killed: after this long we look which signals would end the process.
constexpr long kPatienceNs = 50'000'000;

template <typename T>
T load_acquire(const T* from) noexcept {
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

char* at(void* base, uint64_t offset) noexcept {
  return static_cast<char*>(base) + offset;
}

/// Of a vectored transfer the sum, which the kernel has checked when it has carried one out.
uint64_t wanted_bytes(const Transfer& transfer) noexcept {
  if (transfer.op != Op::readv && transfer.op != Op::writev) {
    return transfer.bytes;
  }
  const auto* const vectors = static_cast<const iovec*>(transfer.buffer);
  uint64_t sum = 0;
  for (size_t i = 0; i < transfer.bytes; ++i) {
    sum += vectors[i].iov_len;
  }
  return sum;
}

unsigned uring_code(Op op) noexcept {
  switch (op) {
    case Op::read:
      return IORING_OP_READ;
    case Op::write:
      return IORING_OP_WRITE;
    case Op::readv:
      return IORING_OP_READV;
    default:
      return IORING_OP_WRITEV;
  }
}

}  // namespace

// ---- Life ---------------------------------------------------------------------------------------

CallLane* CallLane::open(UringMode mode) noexcept {
  void* const memory =
      mmap(nullptr, kLaneBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return nullptr;
  }
  auto* const lane = new (memory) CallLane{};
  lane->usable_ = lane->open_ring(mode);
  if (!lane->usable_) {
    raw_syscall(SYS_munmap, memory, kLaneBytes);
    return nullptr;
  }
  return lane;
}

void CallLane::close() noexcept {
  if (!is_shared_memory_of_another_process()) {
    io_uring_rsrc_update which{};
    which.offset = index_;
    constexpr unsigned kByIndex = 1u << 31;  // IORING_REGISTER_USE_REGISTERED_RING, Linux 6.3
    // Where the kernel does not know that, the registration ends with the thread.
    raw_syscall(SYS_io_uring_register, index_, IORING_UNREGISTER_RING_FDS | kByIndex, &which, 1);
  }
  if (mapped_rings_ != nullptr) {
    raw_syscall(SYS_munmap, mapped_rings_, mapped_ring_bytes_);
    raw_syscall(SYS_munmap, entries_, mapped_entry_bytes_);
  }
  raw_syscall(SYS_munmap, this, kLaneBytes);
}

bool CallLane::open_ring(UringMode mode) noexcept {
  // Completions of a ring of its own thread are posted where that thread waits for them (6.1).
  const unsigned flags = mode == UringMode::iopoll ? IORING_SETUP_IOPOLL : kOwnThread;
  static_assert(sizeof(io_uring_sqe) * kEntries <= kPart);
  int error = set_up_unnumbered(flags);
  if (error == -EINVAL) {
    error = set_up_registered(flags);
  }
  if (error == -EINVAL && mode == UringMode::plain) {
    error = set_up_registered(0);  // before 6.1
  }
  return error == 0;
}

/// In memory of ours, and known by its index from the beginning.
int CallLane::set_up_unnumbered(unsigned flags) noexcept {
  char* const rings = at(this, kPart);
  char* const entries = at(this, 2 * kPart);
  io_uring_params parameters{};
  parameters.flags = flags | kNoMmap | kRegisteredFdOnly;
  const auto rings_at = reinterpret_cast<uint64_t>(rings);
  const auto entries_at = reinterpret_cast<uint64_t>(entries);
  // user_addr, the last field of each, is called otherwise in older headers.
  std::memcpy(at(&parameters.sq_off, sizeof parameters.sq_off - 8), &entries_at, 8);
  std::memcpy(at(&parameters.cq_off, sizeof parameters.cq_off - 8), &rings_at, 8);
  const long index = raw_syscall(SYS_io_uring_setup, kEntries, &parameters);
  if (index < 0) {
    return static_cast<int>(index);
  }
  index_ = static_cast<unsigned>(index);
  use_queues(rings, entries, parameters);
  return 0;
}

/// With a descriptor, the lowest that is free, for the moment until it is registered.
int CallLane::set_up_registered(unsigned flags) noexcept {
  io_uring_params parameters{};
  parameters.flags = flags;
  const long fd = raw_syscall(SYS_io_uring_setup, kEntries, &parameters);
  if (fd < 0) {
    return static_cast<int>(fd);
  }
  mapped_ring_bytes_ =
      std::max<size_t>(parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned),
                       parameters.cq_off.cqes + parameters.cq_entries * sizeof(io_uring_cqe));
  mapped_entry_bytes_ = parameters.sq_entries * sizeof(io_uring_sqe);
  const auto map = [&](size_t bytes, uint64_t what) {
    return raw_syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                       fd, what);
  };
  const auto failed = [](long address) { return address < 0 && address > -4096; };
  const long rings = map(mapped_ring_bytes_, IORING_OFF_SQ_RING);
  const long entries = map(mapped_entry_bytes_, IORING_OFF_SQES);
  io_uring_rsrc_update which{};
  which.offset = ~0u;  // any
  which.data = static_cast<uint64_t>(fd);
  const bool mapped = !failed(rings) && !failed(entries);
  const bool registered =
      mapped && raw_syscall(SYS_io_uring_register, fd, IORING_REGISTER_RING_FDS, &which, 1) == 1;
  raw_syscall(SYS_close, fd);
  if (!registered) {
    if (!failed(rings)) raw_syscall(SYS_munmap, rings, mapped_ring_bytes_);
    if (!failed(entries)) raw_syscall(SYS_munmap, entries, mapped_entry_bytes_);
    return -ENOSYS;
  }
  index_ = which.offset;
  pid_ = static_cast<pid_t>(raw_syscall(SYS_getpid));
  // NOLINTBEGIN(performance-no-int-to-ptr): as the system call answers it.
  mapped_rings_ = reinterpret_cast<void*>(rings);
  use_queues(mapped_rings_, reinterpret_cast<void*>(entries), parameters);
  // NOLINTEND(performance-no-int-to-ptr)
  return 0;
}

void CallLane::use_queues(void* rings, void* entries, const io_uring_params& parameters) noexcept {
  const auto word = [rings](unsigned offset) {
    return reinterpret_cast<unsigned*>(at(rings, offset));
  };
  sq_head_ = word(parameters.sq_off.head);
  sq_tail_ = word(parameters.sq_off.tail);
  sq_mask_ = *word(parameters.sq_off.ring_mask);
  cq_head_ = word(parameters.cq_off.head);
  cq_tail_ = word(parameters.cq_off.tail);
  cq_mask_ = *word(parameters.cq_off.ring_mask);
  entries_ = static_cast<io_uring_sqe*>(entries);
  completions_ = reinterpret_cast<io_uring_cqe*>(at(rings, parameters.cq_off.cqes));
  for (unsigned i = 0; i <= sq_mask_; ++i) {
    word(parameters.sq_off.array)[i] = i;
  }
}

bool CallLane::is_shared_memory_of_another_process() const noexcept {
  return pid_ != 0 && raw_syscall(SYS_getpid) != pid_;
}

// ---- Carrying -----------------------------------------------------------------------------------

bool CallLane::carry(const Transfer& transfer, choice::Pieces pieces, const SignalsHeld& held,
                     int64_t& result) noexcept {
  if (!carry_operations(transfer, pieces, held, result)) {
    return false;
  }
  // The vectors are looked at when the kernel has: they may lie where nothing can be read.
  return pieces.bytes > 0 ||
         (result >= 0 && static_cast<uint64_t>(result) == wanted_bytes(transfer));
}

/// Carries a transfer out, whole or in pieces. Returns false if the kernel refused some of
/// it; true with the bytes, of a whole one with its result. Nothing is under way any more.
bool CallLane::carry_operations(const Transfer& transfer, choice::Pieces pieces,
                                const SignalsHeld& held, int64_t& result) noexcept {
  if (!usable_ || is_shared_memory_of_another_process()) {
    return false;
  }
  const bool is_cut = pieces.bytes > 0;
  Waiting waiting;
  size_t queued_bytes = 0;
  unsigned under_way = 0;
  bool is_refused = false;
  bool is_queued = false;
  result = is_cut ? static_cast<int64_t>(transfer.bytes) : 0;
  while (under_way > 0 || (!is_queued && !is_refused)) {
    unsigned fresh = 0;
    while (!is_queued && !is_refused && under_way + fresh < pieces.at_once) {
      Transfer part = transfer;
      if (is_cut) {
        part.buffer = static_cast<char*>(transfer.buffer) + queued_bytes;
        part.bytes = std::min<size_t>(pieces.bytes, transfer.bytes - queued_bytes);
        part.offset += static_cast<int64_t>(queued_bytes);
      }
      queue(part);
      queued_bytes += part.bytes;
      is_queued = !is_cut || queued_bytes == transfer.bytes;
      ++fresh;
    }
    const unsigned taken = enter_and_wait(fresh, waiting, held);
    is_refused = is_refused || taken < fresh;
    under_way += taken;
    uint64_t bytes = 0;
    int64_t ended = 0;
    while (take_completion(bytes, ended)) {
      --under_way;
      if (!is_cut) {
        result = ended;
      } else if (ended != static_cast<int64_t>(bytes)) {
        is_refused = true;
      }
    }
  }
  return !is_refused;
}

long CallLane::enter(unsigned submit, unsigned flags, const void* argument) const noexcept {
  return raw_syscall(SYS_io_uring_enter, index_, submit, (flags & IORING_ENTER_GETEVENTS) != 0,
                     flags | IORING_ENTER_REGISTERED_RING, argument,
                     argument != nullptr ? sizeof(io_uring_getevents_arg) : 0);
}

bool CallLane::take_completion(uint64_t& bytes, int64_t& result) noexcept {
  const unsigned head = *cq_head_;       // ours alone
  if (head == load_acquire(cq_tail_)) {  // pairs with the kernel's release
    return false;
  }
  const io_uring_cqe& completion = completions_[head & cq_mask_];
  bytes = completion.user_data;
  result = completion.res;
  __atomic_store_n(cq_head_, head + 1, __ATOMIC_RELEASE);  // pairs with the kernel's acquire
  return true;
}

void CallLane::queue(const Transfer& transfer) noexcept {
  const unsigned tail = *sq_tail_;  // ours alone
  io_uring_sqe& entry = entries_[tail & sq_mask_];
  entry = {};
  entry.opcode = static_cast<uint8_t>(uring_code(transfer.op));
  entry.fd = transfer.fd;
  entry.addr = reinterpret_cast<uint64_t>(transfer.buffer);
  entry.len = static_cast<uint32_t>(transfer.bytes);
  entry.off = static_cast<uint64_t>(transfer.offset);
  entry.rw_flags = RWF_NOWAIT;
  entry.user_data = transfer.bytes;
  __atomic_store_n(sq_tail_, tail + 1, __ATOMIC_SEQ_CST);  // pairs with the kernel's acquire
}

/// Submits so many fresh entries, and waits until an operation has ended, at most for a moment.
/// Returns how many the kernel took; the others are taken back.
unsigned CallLane::enter_and_wait(unsigned fresh, Waiting& waiting,
                                  const SignalsHeld& held) noexcept {
  __kernel_timespec patience{0, kPatienceNs};
  io_uring_getevents_arg argument{};
  argument.ts = reinterpret_cast<uint64_t>(&patience);
  if (waiting.is_long) {
    argument.sigmask = reinterpret_cast<uint64_t>(&waiting.mask);
    argument.sigmask_sz = sizeof waiting.mask;
  }
  const long status = enter(fresh, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &argument);
  const unsigned head = load_acquire(sq_head_);
  const unsigned left = *sq_tail_ - head;
  if (left > 0) {
    // Refused for good, or for want of memory: the call is the program's either way.
    __atomic_store_n(sq_tail_, head, __ATOMIC_RELEASE);
    usable_ = status >= 0 || status == -EAGAIN || status == -EBUSY || status == -EINTR ||
              status == -ENOMEM;
  } else if (status == -ETIME && !waiting.is_long) {
    waiting.mask = held.but_for_fatal_ones();
    waiting.is_long = true;
  } else if (status < 0 && status != -ETIME && status != -EINTR) {
    // The kernel has our buffer and does not let us wait for it there: look now and then.
    raw_syscall(SYS_nanosleep, &patience, nullptr);
  }
  return fresh - left;
}

}  // namespace ioweave::calls
