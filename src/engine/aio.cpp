#include "engine/aio.hpp"

#include <cerrno>
#include <utility>

#include "base/futex.hpp"
#include "engine/kernel_order.hpp"

// How it works. Linux native AIO, by its system calls. Only O_DIRECT transfers are truly
// asynchronous: a buffered one would run inside io_submit, so it is `unsupported`, as is whatever
// the interface has no word for (the current position, prefetch). fsync goes to a kernel worker
// (4.18 and newer) and is welcome on any descriptor.
//
// The kernel copies an iocb while it takes it, so they live in an array of the owner's between
// submit() and flush() only. io_submit may be called by any thread, and wake() uses that for an
// event of its own (AioContext).
//
// What io_submit refuses (a bad descriptor, a misaligned buffer) is that operation's own result.
// It goes to the reaper through a list, and the same poll tells the reaper to look there.

namespace ioweave::engine {
AioBackend::AioBackend(std::unique_ptr<AioContext> context, uint32_t entries)
    : context_(std::move(context)),
      blocks_(std::make_unique<iocb[]>(entries)),
      block_list_(std::make_unique<iocb*[]>(entries)),
      event_room_(entries + 1),  // a wake-up beside them
      events_(std::make_unique<io_event[]>(event_room_)),
      in_flight_(entries) {}

// ---- Submission --------------------------------------------------------------------------------

Submitted AioBackend::submit(Operation& operation) noexcept {
  const long status = unsuitable_for_aio(operation);
  if (status > 0) return Submitted::unsupported;
  if (status < 0 || operation.op == Op::nop) {
    operation.result = status;
    return Submitted::completed;
  }
  if (in_flight_.full()) return Submitted::busy;
  fill_control_block(blocks_[queued_], operation);
  block_list_[queued_] = &blocks_[queued_];
  ++queued_;
  handed_to_kernel(&operation);
  in_flight_.add();
  return Submitted::queued;
}

int AioBackend::flush() noexcept {
  long status = 0;
  uint32_t taken = 0;
  while (taken < queued_) {
    status = context_->submit(std::span(&block_list_[taken], queued_ - taken));
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

void AioBackend::refuse(Operation& operation, int64_t result) noexcept {
  operation.result = result;
  {
    const std::lock_guard guard(refused_lock_);
    refused_.push(operation);
  }
  any_refused_.store(true, std::memory_order_release);  // pairs with the acquire in reap()
  context_->post_wake_event();
}

// ---- Completion --------------------------------------------------------------------------------

int AioBackend::reap(std::span<Operation*> out, const Reap& how) noexcept {
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
long AioBackend::collect(std::span<Operation*> out, bool sleep, int64_t timeout_ns,
                         bool& woken) noexcept {
  const size_t most = std::min(out.size(), event_room_);
  const long got = context_->get_events(std::span(events_.get(), most), sleep ? 1 : 0, timeout_ns);
  if (got <= 0) return got;
  size_t reaped = 0;
  for (const io_event& event : std::span(events_.get(), static_cast<size_t>(got))) {
    if (event.data == AioContext::kWakeEvent) {
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

size_t AioBackend::collect_refused(std::span<Operation*> out) noexcept {
  if (!any_refused_.load(std::memory_order_acquire)) return 0;  // pairs with refuse()
  const std::lock_guard guard(refused_lock_);
  size_t reaped = 0;
  while (reaped < out.size() && !refused_.empty()) out[reaped++] = refused_.pop();
  if (refused_.empty()) any_refused_.store(false, std::memory_order_relaxed);  // under the lock
  return reaped;
}

// ---- Waking ------------------------------------------------------------------------------------

void AioBackend::wake() noexcept {
  if (!wake_pending_.exchange(true)) context_->post_wake_event();
}

bool AioBackend::take_wake() noexcept {
  if (!wake_pending_.load(std::memory_order_relaxed)) return false;  // only to spare the exchange
  return wake_pending_.exchange(false);
}

std::unique_ptr<Backend> open_aio(const BackendOptions& options, Refusal& refusal) {
  auto context = AioContext::open(options.entries, refusal);
  return context == nullptr ? nullptr
                            : std::make_unique<AioBackend>(std::move(context), options.entries);
}

}  // namespace ioweave::engine
