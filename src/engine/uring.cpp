#include "engine/uring.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <poll.h>

#include "base/private_descriptors.hpp"
#include "engine/kernel_order.hpp"
#include "engine/raw_syscall.hpp"

// How it works. The owner fills submission entries in place and publishes them at flush; the kernel
// takes them in io_uring_enter, or by itself with SQPOLL. user_data is the address of the
// Operation. The reaper reads the completion queue in user space and enters the kernel only to
// sleep, or where the ring says that it holds something back.
//
// Two shapes (uring_open.cpp). A plain ring posts completions from task work of the thread that
// submitted, which the kernel interrupts for it, so any thread may reap. A single_owner ring
// (DEFER_TASKRUN) posts them only while the owner is in the kernel asking for events; its owner is
// the thread that first flushes or reaps, not the one that opened it.
//
// Waking. wake_fd_ is an eventfd watched by a multishot poll inside the ring, so a reaper asleep
// in io_uring_enter wakes as from any completion. The poll dies with the thread that armed it, as
// all its requests do; IOPOLL rings take none. While no poll is armed the reaper sleeps in ppoll(2)
// on the eventfd and the ring. Either way: the waker sets the flag first and writes second, the
// reaper looks at the flag before it sleeps, and what is written after that look ends the sleep.

namespace ioweave::engine {
namespace {

// user_data of requests that are nobody's operation; no object has such an address.
constexpr uint64_t kIgnored = 1;
constexpr uint64_t kWakePoll = 2;
constexpr uint64_t kLastInternal = 2;

template <typename T>
T load_acquire(const T* from) noexcept {
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

template <typename T>
T load_relaxed(const T* from) noexcept {
  return __atomic_load_n(from, __ATOMIC_RELAXED);
}

template <typename T>
void store_release(T* to, T value) noexcept {
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}

uint64_t user_data_of(const Operation& operation) noexcept {
  return reinterpret_cast<uintptr_t>(&operation);
}

__kernel_timespec timespec_of(int64_t nanoseconds) noexcept {
  return {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
}

/// Errors of io_uring_enter after which the ring is as good as before.
bool is_passing(int error) noexcept {
  return error == -ETIME || error == -EINTR || error == -EAGAIN || error == -EBUSY;
}

}  // namespace

// ---- CancelMailbox -----------------------------------------------------------------------------

bool CancelMailbox::post(const Operation& operation) noexcept {
  const std::lock_guard guard(lock_);
  if (requests_.size() == requests_.capacity()) return false;
  requests_.push_back(&operation);
  any_.store(true, std::memory_order_release);  // pairs with the acquire in any()
  return true;
}

void CancelMailbox::forget(const Operation& operation) noexcept {
  const std::lock_guard guard(lock_);
  std::erase(requests_, &operation);
}

const Operation* CancelMailbox::take() noexcept {
  const std::lock_guard guard(lock_);
  if (requests_.empty()) {
    any_.store(false, std::memory_order_relaxed);  // ordered by the lock
    return nullptr;
  }
  const Operation* oldest = requests_.front();
  requests_.erase(requests_.begin());
  return oldest;
}

/// Stands for the address space that rings come from and go back to: liburing maps and unmaps them
/// by system calls that ThreadSanitizer does not see, and a new ring may lie where another thread's
/// was.
static char ring_memory;

// ---- Life --------------------------------------------------------------------------------------

UringBackend::UringBackend(const io_uring& ring, int wake_fd, const BackendOptions& options)
    : ring_(ring),
      wake_fd_(wake_fd),
      mode_(options.mode),
      single_owner_(options.single_owner),
      processors_(options.processors),
      kflags_(ring.sq.kflags),
      sq_(ring_.sq),
      slots_(ring_, options.fixed),
      cq_{ring.cq.khead, ring.cq.ktail, ring.cq.cqes, ring.cq.ring_mask},
      in_flight_(std::min(options.entries, kMaxUringEntries)),
      cancels_(options.entries) {
  wake_polls_refused_.store(mode_ == UringMode::iopoll, std::memory_order_relaxed);
  given_back_by_kernel(&ring_memory);
  // The array between the ring and the entries is never used to reorder: identity, once.
  for (unsigned i = 0; i < sq_.entries; ++i) ring_.sq.array[i] = i;
}

UringBackend::~UringBackend() {
  handed_to_kernel(&ring_memory);
  if (abandoned_) {
    // The descriptors are closed; what is left is this process's own mappings.
    raw_syscall(SYS_munmap, ring_.sq.sqes, sq_.entries * sizeof(io_uring_sqe));
    if (ring_.cq.ring_ptr != ring_.sq.ring_ptr) {
      raw_syscall(SYS_munmap, ring_.cq.ring_ptr, ring_.cq.ring_sz);
    }
    raw_syscall(SYS_munmap, ring_.sq.ring_ptr, ring_.sq.ring_sz);
    return;
  }
  forget_private_descriptor(ring_.ring_fd);
  forget_private_descriptor(wake_fd_);
  io_uring_queue_exit(&ring_);
  raw_syscall(SYS_close, wake_fd_);
}

void UringBackend::abandon() noexcept {
  forget_private_descriptor(ring_.ring_fd);
  forget_private_descriptor(wake_fd_);
  raw_syscall(SYS_close, ring_.ring_fd);
  raw_syscall(SYS_close, wake_fd_);
  abandoned_ = true;
}

// ---- Submission --------------------------------------------------------------------------------

UringBackend::SubmissionQueue::SubmissionQueue(const io_uring_sq& sq) noexcept
    : khead(sq.khead),
      ktail(sq.ktail),
      sqes(sq.sqes),
      mask(sq.ring_mask),
      entries(sq.ring_entries),
      tail(load_relaxed(sq.ktail)) {}

io_uring_sqe* UringBackend::SubmissionQueue::next() noexcept {
  // Pairs with the kernel's release of the head: an entry is written again only once it was read.
  if (tail - load_acquire(khead) == entries) return nullptr;
  io_uring_sqe* sqe = &sqes[tail++ & mask];
  std::memset(sqe, 0, sizeof *sqe);
  return sqe;
}

void UringBackend::SubmissionQueue::publish() noexcept {
  // Pairs with the kernel's acquire of the tail, and is sequentially consistent for SQPOLL's sake:
  // it must be visible before submission_flags() looks whether the kernel's thread sleeps.
  if (load_relaxed(ktail) != tail) __atomic_store_n(ktail, tail, __ATOMIC_SEQ_CST);
}

unsigned UringBackend::SubmissionQueue::unsubmitted() const noexcept {
  return load_relaxed(ktail) - load_acquire(khead);  // pairs with the kernel's release
}

Submitted UringBackend::submit(Operation& operation) noexcept {
  if (operation.op == Op::prefetch) return Submitted::unsupported;
  // An entry has 32 bits for the length, and the result does not tell of a rest.
  if (operation.op == Op::write_back && operation.length > UINT32_MAX) {
    return Submitted::unsupported;
  }
  const uint64_t most_bytes =
      mode_ == UringMode::iopoll ? pollable_bytes(operation) : kMaxTransferBytes;
  if (most_bytes == 0) return Submitted::unsupported;
  if (in_flight_.full()) return Submitted::busy;
  if (cancels_.any()) cancels_.forget(operation);
  io_uring_sqe* sqe = next_sqe();
  if (sqe == nullptr) return Submitted::busy;
  fill(*sqe, operation, most_bytes);
  handed_to_kernel(&operation);
  in_flight_.add();
  return Submitted::queued;
}

io_uring_sqe* UringBackend::next_sqe() noexcept {
  io_uring_sqe* sqe = sq_.next();
  if (sqe != nullptr) [[likely]] {
    return sqe;
  }
  // There are as many entries as operations in flight: only the ring's own requests lead here.
  sq_.publish();
  submit_published(0, 0, nullptr);
  return sq_.next();
}

/// How much of the operation a ring with IOPOLL can carry; the kernel refuses the rest only after
/// the fact, or never. A bad descriptor goes to the kernel, which has the right error for it.
uint64_t UringBackend::pollable_bytes(const Operation& operation) noexcept {
  switch (operation.op) {
    case Op::nop:
      return kMaxTransferBytes;
    case Op::read:
    case Op::write:
    case Op::readv:
    case Op::writev: {
      const long flags = find_descriptor_flags(operation);
      return flags < 0 || (flags & O_DIRECT) != 0 ? polled_sizes_.bytes(operation) : 0;
    }
    default:
      return 0;
  }
}

void UringBackend::fill(io_uring_sqe& sqe, const Operation& operation,
                        uint64_t most_bytes) noexcept {
  sqe.user_data = user_data_of(operation);
  sqe.fd = operation.fd;
  switch (operation.op) {
    case Op::read:
    case Op::write:
      sqe.opcode = operation.op == Op::read ? IORING_OP_READ : IORING_OP_WRITE;
      sqe.addr = reinterpret_cast<uintptr_t>(operation.buffer);
      sqe.len = static_cast<uint32_t>(std::min<uint64_t>(transfer_bytes(operation), most_bytes));
      break;
    case Op::readv:
    case Op::writev:
      sqe.opcode = operation.op == Op::readv ? IORING_OP_READV : IORING_OP_WRITEV;
      sqe.addr = reinterpret_cast<uintptr_t>(operation.vectors);
      sqe.len = operation.vector_count;
      break;
    case Op::fsync:
    case Op::fdatasync:
      sqe.opcode = IORING_OP_FSYNC;
      sqe.fsync_flags = operation.op == Op::fdatasync ? IORING_FSYNC_DATASYNC : 0;
      if (operation.fixed_file != 0) use_slots(sqe, operation);
      return;
    case Op::write_back:
      sqe.opcode = IORING_OP_SYNC_FILE_RANGE;
      sqe.len = static_cast<uint32_t>(operation.length);
      sqe.sync_range_flags = SYNC_FILE_RANGE_WRITE;
      break;
    default:
      sqe.opcode = IORING_OP_NOP;
      return;
  }
  sqe.off = static_cast<uint64_t>(operation.offset);
  if (operation.hand_over) sqe.flags |= IOSQE_ASYNC;
  if ((operation.fixed_buffer | operation.fixed_file) != 0) use_slots(sqe, operation);
}

void UringBackend::use_slots(io_uring_sqe& sqe, const Operation& operation) noexcept {
  if (operation.fixed_file != 0 && slots_.holds_file(operation.fixed_file, operation.fd)) {
    sqe.fd = operation.fixed_file;
    sqe.flags |= IOSQE_FIXED_FILE;
  }
  const bool one_buffer = operation.op == Op::read || operation.op == Op::write;
  if (one_buffer && operation.fixed_buffer != 0 &&
      slots_.holds_buffer(operation.fixed_buffer, operation.buffer, sqe.len)) {
    sqe.opcode = operation.op == Op::read ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
    sqe.buf_index = operation.fixed_buffer;
  }
}

int UringBackend::flush() noexcept {
  constexpr int kTries = 8;
  prepare_submission();
  int status = submit_published(0, 0, nullptr);
  for (int again = 1; status < 0 && is_passing(status) && again < kTries; ++again) {
    // -EAGAIN: no memory for requests just now. -EBUSY, before 5.19: completions are held back
    // until somebody asks for them.
    raw_syscall(SYS_sched_yield);
    status = submit_published(0, IORING_ENTER_GETEVENTS, nullptr);
  }
  return std::min(status, 0);
}

void UringBackend::start() noexcept {
  if (started_) [[likely]] {
    return;
  }
  started_ = true;
  // A failure shows as -EBADFD of the next io_uring_enter.
  if ((ring_.flags & IORING_SETUP_R_DISABLED) != 0) io_uring_enable_rings(&ring_);
  // Since 5.14; before, the workers may run anywhere.
  if (processors_ != nullptr) {
    io_uring_register_iowq_aff(&ring_, sizeof *processors_, processors_);
  }
}

void UringBackend::prepare_submission() noexcept {
  start();
  slots_.follow();
  if (wants_wake_poll()) queue_wake_poll();
  if (cancels_.any()) queue_cancels();
  sq_.publish();
}

bool UringBackend::wants_wake_poll() const noexcept {
  // Both pair with the releases in on_wake_poll().
  return !wake_poll_queued_ &&
         wake_polls_begun_.load(std::memory_order_relaxed) ==
             wake_polls_ended_.load(std::memory_order_acquire) &&
         !wake_polls_refused_.load(std::memory_order_acquire);
}

void UringBackend::queue_wake_poll() noexcept {
  io_uring_sqe* sqe = next_sqe();
  if (sqe == nullptr) return;  // the next flush tries again; until then reap() uses ppoll
  io_uring_prep_poll_multishot(sqe, wake_fd_, POLLIN);
  sqe->user_data = kWakePoll;
  wake_poll_queued_ = true;
}

void UringBackend::queue_cancels() noexcept {
  while (const Operation* operation = cancels_.take()) {
    io_uring_sqe* sqe = next_sqe();
    if (sqe == nullptr) {
      (void)cancels_.post(*operation);  // into the room it just left
      return;
    }
    io_uring_prep_cancel64(sqe, user_data_of(*operation), 0);
    sqe->user_data = kIgnored;
  }
}

bool UringBackend::owner_has_chores() const noexcept {
  return single_owner_ && (wants_wake_poll() || cancels_.any());
}

unsigned UringBackend::submission_flags() const noexcept {
  if (mode_ != UringMode::sqpoll) return 0;
  const unsigned flags = __atomic_load_n(kflags_, __ATOMIC_SEQ_CST);  // after publish()
  return (flags & IORING_SQ_NEED_WAKEUP) != 0 ? IORING_ENTER_SQ_WAKEUP : 0;
}

int UringBackend::submit_published(unsigned min_completions, unsigned flags,
                                   const __kernel_timespec* timeout) noexcept {
  unsigned left = mode_ == UringMode::sqpoll ? 0 : sq_.unsubmitted();
  flags |= submission_flags();
  int status = 0;
  if (left != 0 || flags != 0) {
    do {
      status = enter(left, min_completions, flags, timeout);
      left = mode_ == UringMode::sqpoll ? 0 : sq_.unsubmitted();
      // Before SUBMIT_ALL (5.18) an entry that the kernel refuses ends the call early.
    } while (left != 0 && status > 0);
  }
  if (wake_poll_queued_ && left == 0) {
    wake_poll_queued_ = false;
    // Pairs with the acquire in sleeps_in_ring().
    wake_polls_begun_.store(wake_polls_begun_.load(std::memory_order_relaxed) + 1,
                            std::memory_order_release);
  }
  return status;
}

int UringBackend::enter(unsigned to_submit, unsigned min_completions, unsigned flags,
                        const __kernel_timespec* timeout) noexcept {
  const auto fd = static_cast<unsigned>(ring_.ring_fd);
  if (timeout == nullptr) return io_uring_enter(fd, to_submit, min_completions, flags, nullptr);
  io_uring_getevents_arg argument{};
  argument.ts = reinterpret_cast<uintptr_t>(timeout);
  return io_uring_enter2(fd, to_submit, min_completions, flags | IORING_ENTER_EXT_ARG,
                         reinterpret_cast<sigset_t*>(&argument), sizeof argument);
}

// ---- Completion --------------------------------------------------------------------------------

int UringBackend::reap(std::span<Operation*> out, const Reap& how) noexcept {
  const bool submitting = how.flush || owner_has_chores();
  if (submitting) prepare_submission();
  woken_ = false;
  const size_t wanted = std::min<size_t>(how.min_completions, out.size());
  size_t reaped = collect(out);
  int status = 0;
  if (reaped < wanted && how.timeout_ns != 0 && !take_wake()) {
    status = sleep(static_cast<unsigned>(wanted - reaped), how.timeout_ns, submitting);
    reaped += collect(out.subspan(reaped));
    if (woken_) (void)take_wake();
  } else if (submitting || (reaped == 0 && kernel_holds_completions())) {
    const unsigned flags = kernel_holds_completions() ? IORING_ENTER_GETEVENTS : 0;
    status = submitting ? submit_published(0, flags, nullptr) : enter(0, 0, flags, nullptr);
    reaped += collect(out.subspan(reaped));
  }
  if (reaped == 0 && status < 0 && !is_passing(status)) return status;
  return static_cast<int>(reaped);
}

size_t UringBackend::collect(std::span<Operation*> out) noexcept {
  size_t reaped = 0;
  unsigned head = load_relaxed(cq_.khead);        // written by the reaper only
  const unsigned tail = load_acquire(cq_.ktail);  // pairs with the kernel's release
  for (; head != tail && reaped < out.size(); ++head) {
    const io_uring_cqe& cqe = cq_.cqes[head & cq_.mask];
    if (cqe.user_data > kLastInternal) [[likely]] {
      Operation* operation = operation_at(cqe.user_data);
      given_back_by_kernel(operation);
      operation->result = cqe.res;
      out[reaped++] = operation;
    } else if (cqe.user_data == kWakePoll) {
      on_wake_poll(cqe);
    }
  }
  store_release(cq_.khead, head);  // pairs with the kernel's acquire: the entries have been read
  if (reaped != 0) in_flight_.remove(reaped);
  return reaped;
}

void UringBackend::on_wake_poll(const io_uring_cqe& cqe) noexcept {
  woken_ = true;
  if ((cqe.flags & IORING_CQE_F_MORE) != 0) return;
  // -ECANCELED: the thread that armed it has exited. Its successor as owner arms another one.
  if (cqe.res < 0 && cqe.res != -ECANCELED) {
    wake_polls_refused_.store(true, std::memory_order_release);  // pairs with wants_wake_poll()
  }
  wake_polls_ended_.store(wake_polls_ended_.load(std::memory_order_relaxed) + 1,
                          std::memory_order_release);  // pairs with wants_wake_poll()
}

bool UringBackend::kernel_holds_completions() const noexcept {
  constexpr unsigned kHeldBack = IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW;
  if ((load_relaxed(kflags_) & kHeldBack) != 0) return true;
  return mode_ == UringMode::iopoll && in_flight_.count() != 0;  // polled only when asked for
}

bool UringBackend::sleeps_in_ring() const noexcept {
  // Pairs with the release in submit_published(). The difference is negative for a moment where a
  // poll ended before its owner came to count it.
  const uint32_t begun = wake_polls_begun_.load(std::memory_order_acquire);
  return static_cast<int32_t>(begun - wake_polls_ended_.load(std::memory_order_relaxed)) > 0;
}

int UringBackend::sleep(unsigned min_completions, int64_t timeout_ns, bool submitting) noexcept {
  const bool polling_device = mode_ == UringMode::iopoll && in_flight_.count() != 0;
  if (polling_device || sleeps_in_ring() || (submitting && wake_poll_queued_)) {
    return sleep_in_ring(min_completions, timeout_ns, submitting);
  }
  if (submitting) {
    const int status = submit_published(0, 0, nullptr);
    if (status < 0) return status;
  }
  return sleep_in_poll(timeout_ns);
}

int UringBackend::sleep_in_ring(unsigned min_completions, int64_t timeout_ns,
                                bool submitting) noexcept {
  const __kernel_timespec span = timespec_of(timeout_ns);
  const __kernel_timespec* timeout = timeout_ns < 0 ? nullptr : &span;
  if (submitting) {
    const int status = submit_published(min_completions, IORING_ENTER_GETEVENTS, timeout);
    const bool out_of_memory = status == -EAGAIN || status == -EBUSY;
    // Then nothing more can be submitted until something ends, if there is anything to end.
    if (!out_of_memory || in_flight_.count() <= sq_.unsubmitted()) return status;
  }
  return enter(0, min_completions, IORING_ENTER_GETEVENTS, timeout);
}

int UringBackend::sleep_in_poll(int64_t timeout_ns) noexcept {
  pollfd watched[] = {{wake_fd_, POLLIN, 0}, {ring_.ring_fd, POLLIN, 0}};
  const __kernel_timespec span = timespec_of(timeout_ns);
  const long ready = raw_syscall(SYS_ppoll, watched, mode_ == UringMode::iopoll ? 1 : 2,
                                 timeout_ns < 0 ? nullptr : &span, nullptr, 0);
  if (ready <= 0) return static_cast<int>(ready);
  if (watched[0].revents != 0) {
    uint64_t count = 0;
    raw_syscall(SYS_read, wake_fd_, &count, sizeof count);
    woken_ = true;
  }
  return kernel_holds_completions() ? enter(0, 0, IORING_ENTER_GETEVENTS, nullptr) : 0;
}

// ---- Waking and cancelling ---------------------------------------------------------------------

void UringBackend::wake() noexcept {
  if (wake_pending_.exchange(true)) return;  // the reaper has not come to the last one yet
  const uint64_t one = 1;
  raw_syscall(SYS_write, wake_fd_, &one, sizeof one);
}

bool UringBackend::take_wake() noexcept {
  if (!wake_pending_.load(std::memory_order_relaxed)) return false;  // only to spare the exchange
  return wake_pending_.exchange(false);
}

int UringBackend::cancel(Operation& operation) noexcept {
  if (in_flight_.count() == 0) return -ENOENT;
  io_uring_sync_cancel_reg request{};  // a zero timeout: do not wait for what is running already
  request.addr = user_data_of(operation);
  request.fd = -1;
  const int status = io_uring_register_sync_cancel(&ring_, &request);
  if (status >= 0) return 0;
  if (status == -ENOENT) return -ENOENT;
  if (status == -EALREADY || status == -ETIME || status == -EINTR) return -EALREADY;
  // Not allowed to anybody but the owner (-EEXIST), or the kernel is older than 6.0 (-EINVAL).
  if (!cancels_.post(operation)) return -EALREADY;
  if (single_owner_) wake();
  return 0;
}

}  // namespace ioweave::engine
