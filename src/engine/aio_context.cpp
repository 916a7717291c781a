#include "engine/aio_context.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/private_descriptors.hpp"
#include "engine/raw_syscall.hpp"
#include "engine/system_facts.hpp"

namespace ioweave::engine {
namespace {

/// Room for wake-ups beside the operations in flight.
constexpr uint32_t kSpareEvents = 8;

/// The head of the queue of events, which the kernel shares with its user (struct aio_ring of
/// fs/aio.c, unchanged since 2.6; fio and QEMU read it, too). The kernel itself says so by `magic`.
struct EventQueueHead {
  static constexpr uint32_t kMagic = 0xa10a10a1;
  uint32_t id;
  uint32_t entries;
  uint32_t head;
  uint32_t tail;
  uint32_t magic;
};

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

long unsuitable_for_aio(const Operation& operation) noexcept {
  switch (operation.op) {
    case Op::read:
    case Op::write:
    case Op::readv:
    case Op::writev: {
      if (operation.offset == kCurrentPosition) return 1;
      const long flags = find_descriptor_flags(operation);
      return flags < 0 ? flags : ((flags & O_DIRECT) != 0 ? 0 : 1);
    }
    case Op::fsync:
    case Op::fdatasync:
    case Op::nop:
      return 0;
    case Op::prefetch:
    case Op::write_back:
      break;
  }
  return 1;
}

void fill_control_block(iocb& block, const Operation& operation) noexcept {
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
}

std::unique_ptr<AioContext> AioContext::open(uint32_t entries, Refusal& refusal) {
  aio_context_t context = 0;
  long status = raw_syscall(SYS_io_setup, entries + kSpareEvents, &context);
  if (status < 0) {
    refusal = explain(static_cast<int>(status), entries);
    return nullptr;
  }
  status = raw_syscall(SYS_eventfd2, 1, EFD_CLOEXEC);
  if (status < 0) {
    raw_syscall(SYS_io_destroy, context);
    refusal = explain(static_cast<int>(status), entries);
    return nullptr;
  }
  const int ready_fd = make_descriptor_private(
      static_cast<int>(status), [](auto... arguments) { return raw_syscall(arguments...); });
  return std::unique_ptr<AioContext>(new AioContext(context, ready_fd));
}

AioContext::~AioContext() {
  destroy();
  if (ready_fd_ < 0) return;
  forget_private_descriptor(ready_fd_);
  raw_syscall(SYS_close, ready_fd_);
}

void AioContext::abandon() noexcept {
  forget_private_descriptor(ready_fd_);
  raw_syscall(SYS_close, ready_fd_);
  ready_fd_ = -1;
  destroyed_ = true;
}

void AioContext::destroy() noexcept {
  if (!std::exchange(destroyed_, true)) {
    raw_syscall(SYS_io_destroy, context_);
  }
}

long AioContext::submit(std::span<iocb*> blocks) noexcept {
  return raw_syscall(SYS_io_submit, context_, blocks.size(), blocks.data());
}

long AioContext::get_events(std::span<io_event> events, unsigned min, int64_t timeout_ns) noexcept {
  const timespec span{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  return raw_syscall(SYS_io_getevents, context_, min, events.size(), events.data(),
                     timeout_ns < 0 ? nullptr : &span);
}

bool AioContext::has_events() const noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is what the kernel's handle is.
  auto& queue = *reinterpret_cast<EventQueueHead*>(static_cast<uintptr_t>(context_));
  if (queue.magic != EventQueueHead::kMagic) return true;
  // Relaxed: whoever then asks the kernel for events is ordered by that.
  return __atomic_load_n(&queue.head, __ATOMIC_RELAXED) !=
         __atomic_load_n(&queue.tail, __ATOMIC_RELAXED);
}

bool AioContext::post_wake_event() noexcept {
  iocb block{};
  block.aio_data = kWakeEvent;
  block.aio_lio_opcode = IOCB_CMD_POLL;
  block.aio_fildes = static_cast<uint32_t>(ready_fd_);
  block.aio_buf = POLLIN;
  iocb* list[] = {&block};
  const long submitted = submit(list);
  // -EAGAIN means that the ring is full of events: then the reaper has reason enough to return.
  return submitted == 1 || submitted == -EAGAIN;
}

}  // namespace ioweave::engine
