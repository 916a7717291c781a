#include "engine/shared_queue.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

#include <sys/uio.h>

#include "engine/aio_context.hpp"
#include "engine/kernel_order.hpp"
#include "engine/raw_syscall.hpp"

// How it works. Of all interfaces of Linux native AIO alone ends a direct transfer in the interrupt
// of the device, without any help of the thread that submitted it, and lets any thread submit and
// reap without a lock of ours. What it does badly is to wait inside io_submit, for an extent to be
// allocated or a lock: RWF_NOWAIT (Linux 4.13) makes that an -EAGAIN.

namespace ioweave::engine {
namespace {

class SharedAio final : public SharedQueue {
 public:
  explicit SharedAio(std::unique_ptr<AioContext> context) noexcept : context_(std::move(context)) {}

  [[nodiscard]] bool submit(Operation& operation) noexcept override {
    if (!is_transfer(operation) || unsuitable_for_aio(operation) != 0) return false;
    iocb block;
    fill_control_block(block, operation);
    block.aio_rw_flags = RWF_NOWAIT;
    iocb* one[] = {&block};
    handed_to_kernel(&operation);
    return context_->submit(one) == 1;
  }

  [[nodiscard]] bool has_ended() const noexcept override { return context_->has_events(); }

  [[nodiscard]] size_t reap(std::span<Operation*> out, bool sleep) noexcept override {
    std::array<io_event, 64> events;
    const size_t most = std::min(out.size(), events.size());
    const long got =
        context_->get_events(std::span(events).first(most), sleep ? 1 : 0, sleep ? -1 : 0);
    if (got < 0 && got != -EINTR && sleep) {
      pause_briefly();  // a filter that came later; who reaps on and on must not take a core
    }
    size_t reaped = 0;
    for (long i = 0; i < got; ++i) {
      const io_event& event = events[static_cast<size_t>(i)];
      if (event.data == AioContext::kWakeEvent) continue;
      Operation* const operation = operation_at(event.data);
      given_back_by_kernel(operation);
      operation->result = event.res;
      out[reaped++] = operation;
    }
    return reaped;
  }

  void wake() noexcept override {
    if (!context_->post_wake_event()) {
      context_->destroy();  // its descriptor was closed by the program, say
    }
  }
  void abandon() noexcept override { context_->abandon(); }

 private:
  static bool is_transfer(const Operation& operation) noexcept {
    return operation.op == Op::read || operation.op == Op::write || operation.op == Op::readv ||
           operation.op == Op::writev;
  }

  static void pause_briefly() noexcept {
    const timespec moment{0, 1'000'000};
    raw_syscall(SYS_nanosleep, &moment, nullptr);
  }

  const std::unique_ptr<AioContext> context_;
};

}  // namespace

std::unique_ptr<SharedQueue> open_shared_queue(uint32_t entries, std::string& why) {
  Refusal refusal;
  auto context = AioContext::open(entries, refusal);
  if (context == nullptr) {
    why = refusal.cause + "; " + refusal.remedy;
    return nullptr;
  }
  std::array<io_event, 1> wake;
  if (!context->post_wake_event() || context->get_events(wake, 1, 0) != 1) {
    why = "native AIO cannot wake whoever sleeps on it here: Linux 4.18 is needed";
    return nullptr;
  }
  return std::make_unique<SharedAio>(std::move(context));
}

}  // namespace ioweave::engine
