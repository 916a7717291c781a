#include "engine/aio.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/futex.hpp"
#include "base/private_descriptors.hpp"
#include "engine/kernel_order.hpp"
#include "engine/raw_syscall.hpp"
#include "engine/system_facts.hpp"

// How it works. Linux native AIO, by its system calls. Only O_DIRECT transfers are truly
// asynchronous: a buffered one would run inside io_submit, so it is `unsupported`, as is whatever
// the interface has no word for (the current position, prefetch). fsync goes to a kernel worker
// (4.18 and newer) and is welcome on any descriptor.
//
// The kernel copies an iocb while it takes it, so they live in an array of the owner's between
// submit() and flush() only. io_submit may be called by any thread, and wake() uses that: it
// submits a poll of an eventfd that is always readable, which ends at once and wakes io_getevents.
//
// What io_submit refuses (a bad descriptor, a misaligned buffer) is that operation's own result.
// It goes to the reaper through a list, and the same poll tells the reaper to look there.

namespace ioweave::engine {
namespace {

/// aio_data of the poll that wakes the reaper; no Operation has this address.
constexpr uint64_t kWakeEvent = 0;
/// Room for wake-ups beside the operations in flight.
constexpr uint32_t kSpareEvents = 8;

/// 0 where native AIO can carry it without blocking in io_submit, 1 where it cannot, or the
/// operation's own error.
long unsuitable(const Operation& operation) noexcept {
  switch (operation.op) {
    case Op::read:
    case Op::write:
    case Op::readv:
    case Op::writev: {
      if (operation.offset == kCurrentPosition) return 1;
      const long flags = raw_syscall(SYS_fcntl, operation.fd, F_GETFL, 0);
      return flags < 0 ? flags : ((flags & O_DIRECT) != 0 ? 0 : 1);
    }
    case Op::fsync:
    case Op::fdatasync:
    case Op::nop:
      return 0;
    case Op::prefetch:
      break;
  }
  return 1;
}

void fill(iocb& block, const Operation& operation) noexcept {
  block = {};
  block.aio_data = reinterpret_cast<uintptr_t>(&operation);
  block.aio_lio_opcode = aio_opcode(operation.op);
  block.aio_fildes = static_cast<uint32_t>(operation.fd);
  if (operation.op == Op::fsync || operation.op == Op::fdatasync) return;
  const bool vectored = operation.op == Op::readv || operation.op == Op::writev;
  block.aio_buf = reinterpret_cast<uintptr_t>(vectored ? static_cast<const void*>(operation.vectors)
                                                       : operation.buffer);
  block.aio_nbytes = vectored ? operation.vector_count : transfer_bytes(operation);
  block.aio_offset = operation.offset;
  block.aio_rw_flags = operation.rw_flags;
  if (operation.ioprio_class != 0) {
    block.aio_flags = IOCB_FLAG_IOPRIO;
    block.aio_reqprio = static_cast<int16_t>(ioprio_word(operation.ioprio_class));
  }
}

}  // namespace

uint16_t aio_opcode(Op op) noexcept {
  switch (op) {
    case Op::read:
      return IOCB_CMD_PREAD;
    case Op::write:
      return IOCB_CMD_PWRITE;
    case Op::readv:
      return IOCB_CMD_PREADV;
    case Op::writev:
      return IOCB_CMD_PWRITEV;
    case Op::fsync:
      return IOCB_CMD_FSYNC;
    default:
      return IOCB_CMD_FDSYNC;
  }
}

AioLane::AioLane(aio_context_t context, int ready_fd, uint32_t entries)
    : context_(context),
      ready_fd_(ready_fd),
      blocks_(std::make_unique<iocb[]>(entries)),
      block_list_(std::make_unique<iocb*[]>(entries)),
      event_room_(entries + kSpareEvents),
      events_(std::make_unique<io_event[]>(event_room_)),
      in_flight_(entries) {}

AioLane::~AioLane() {
  if (abandoned_) return;  // the context belongs to the parent's memory
  raw_syscall(SYS_io_destroy, context_);
  forget_private_descriptor(ready_fd_);
  raw_syscall(SYS_close, ready_fd_);
}

void AioLane::abandon() noexcept {
  forget_private_descriptor(ready_fd_);
  raw_syscall(SYS_close, ready_fd_);
  abandoned_ = true;
}

// ---- Submission --------------------------------------------------------------------------------

Submitted AioLane::submit(Operation& operation) noexcept {
  const long status = unsuitable(operation);
  if (status > 0) return Submitted::unsupported;
  if (status < 0 || operation.op == Op::nop) {
    operation.result = status;
    return Submitted::completed;
  }
  if (in_flight_.full()) return Submitted::busy;
  fill(blocks_[queued_], operation);
  block_list_[queued_] = &blocks_[queued_];
  ++queued_;
  handed_to_kernel(&operation);
  in_flight_.add();
  return Submitted::queued;
}

int AioLane::flush() noexcept {
  long status = 0;
  uint32_t taken = 0;
  while (taken < queued_) {
    status = raw_syscall(SYS_io_submit, context_, queued_ - taken, &block_list_[taken]);
    if (status > 0) {
      taken += static_cast<uint32_t>(status);
      continue;
    }
    if (status == -EINTR) continue;
    if (status == 0 || status == -EAGAIN || status == -ENOMEM) break;  // not this one's fault
    refuse(*operation_at(block_list_[taken++]->aio_data), status);
  }
  // What is left moves to the front, in order, and is tried again by the next flush.
  for (uint32_t i = taken; i < queued_; ++i) blocks_[i - taken] = blocks_[i];
  queued_ -= taken;
  return queued_ == 0 ? 0 : -EAGAIN;
}

void AioLane::refuse(Operation& operation, int64_t result) noexcept {
  operation.result = result;
  {
    const std::lock_guard guard(refused_lock_);
    refused_.push(operation);
  }
  any_refused_.store(true, std::memory_order_release);  // pairs with the acquire in reap()
  post_wake_event();
}

// ---- Completion --------------------------------------------------------------------------------

int AioLane::reap(std::span<Operation*> out, const Reap& how) noexcept {
  const bool stuck = how.flush && flush() != 0 && in_flight_.count() == queued_;
  const Deadline deadline(stuck ? 0 : how.timeout_ns);
  const size_t wanted = std::min<size_t>(how.min_completions, out.size());
  size_t reaped = collect_refused(out);
  bool woken = reaped < wanted && take_wake();
  while (true) {
    const bool sleep = reaped < wanted && !woken && !deadline.passed();
    const long got = collect(out.subspan(reaped), sleep, deadline.left_ns(), woken);
    if (got < 0 && got != -EINTR && reaped == 0) return static_cast<int>(got);
    reaped += static_cast<size_t>(std::max(got, 0L));
    reaped += collect_refused(out.subspan(reaped));
    if (!sleep || got < 0) break;
  }
  if (reaped != 0) in_flight_.remove(reaped);
  return static_cast<int>(reaped);
}

/// Sleeps for one event at most: a wake is an event too, and must count for any number of them.
long AioLane::collect(std::span<Operation*> out, bool sleep, int64_t timeout_ns,
                      bool& woken) noexcept {
  const timespec span{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  const size_t most = std::min(out.size(), event_room_);
  const long got = raw_syscall(SYS_io_getevents, context_, sleep ? 1 : 0, most, events_.get(),
                               timeout_ns < 0 ? nullptr : &span);
  if (got <= 0) return got;
  size_t reaped = 0;
  for (const io_event& event : std::span(events_.get(), static_cast<size_t>(got))) {
    if (event.data == kWakeEvent) {
      if (sleep) woken = take_wake() || woken;
      continue;
    }
    Operation* operation = operation_at(event.data);
    given_back_by_kernel(operation);
    operation->result = event.res;
    out[reaped++] = operation;
  }
  return static_cast<long>(reaped);
}

size_t AioLane::collect_refused(std::span<Operation*> out) noexcept {
  if (!any_refused_.load(std::memory_order_acquire)) return 0;  // pairs with refuse()
  const std::lock_guard guard(refused_lock_);
  size_t reaped = 0;
  while (reaped < out.size() && !refused_.empty()) out[reaped++] = refused_.pop();
  if (refused_.empty()) any_refused_.store(false, std::memory_order_relaxed);  // under the lock
  return reaped;
}

// ---- Waking ------------------------------------------------------------------------------------

void AioLane::wake() noexcept {
  if (!wake_pending_.exchange(true)) post_wake_event();
}

bool AioLane::take_wake() noexcept {
  if (!wake_pending_.load(std::memory_order_relaxed)) return false;  // only to spare the exchange
  return wake_pending_.exchange(false);
}

void AioLane::post_wake_event() noexcept {
  iocb block{};
  block.aio_data = kWakeEvent;
  block.aio_lio_opcode = IOCB_CMD_POLL;
  block.aio_fildes = static_cast<uint32_t>(ready_fd_);
  block.aio_buf = POLLIN;
  iocb* list[] = {&block};
  // -EAGAIN means that the ring is full of events: then the reaper has reason enough to return.
  raw_syscall(SYS_io_submit, context_, 1, list);
}

// ---- Opening -----------------------------------------------------------------------------------

namespace {

Refusal explain(int error, uint32_t entries) {
  static constexpr const char* kAllow =
      "who starts the container can allow io_setup, io_submit and io_getevents";
  switch (-error) {
    case EAGAIN:
      return {error,
              "native AIO has no room for " + std::to_string(entries) +
                  " more events on this machine (fs.aio-max-nr=" +
                  read_small_file("/proc/sys/fs/aio-max-nr") + ")",
              "its administrator can raise it with sysctl; a program that sets its queue depth may "
              "lower that"};
    case ENOSYS:
      if (seccomp_filtered()) return {error, "a seccomp filter hides native AIO (ENOSYS)", kAllow};
      return {error, "this kernel was built without native AIO",
              "its administrator can install one built with CONFIG_AIO"};
    case EPERM:
      return {error, "a seccomp filter forbids native AIO (EPERM)", kAllow};
    case EMFILE:
    case ENFILE:
      return {error, "no descriptor is left for native AIO",
              "raise the limit of open files (ulimit -n, LimitNOFILE, sysctl fs.file-max)"};
    default:
      return {error, std::string("io_setup failed: ") + std::strerror(-error),
              "use the engine threads"};
  }
}

}  // namespace

std::unique_ptr<Backend> open_aio(const LaneOptions& options, Refusal& refusal) {
  aio_context_t context = 0;
  long status = raw_syscall(SYS_io_setup, options.entries + kSpareEvents, &context);
  if (status < 0) {
    refusal = explain(static_cast<int>(status), options.entries);
    return nullptr;
  }
  status = raw_syscall(SYS_eventfd2, 1, EFD_CLOEXEC);
  if (status < 0) {
    raw_syscall(SYS_io_destroy, context);
    refusal = explain(static_cast<int>(status), options.entries);
    return nullptr;
  }
  const int ready_fd = make_descriptor_private(
      static_cast<int>(status), [](auto... arguments) { return raw_syscall(arguments...); });
  return std::make_unique<AioLane>(context, ready_fd, options.entries);
}

}  // namespace ioweave::engine
