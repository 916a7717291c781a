#include <array>
#include <cerrno>
#include <cstring>

#include <sys/eventfd.h>

#include "base/private_descriptors.hpp"
#include "engine/raw_syscall.hpp"
#include "engine/system_facts.hpp"
#include "engine/uring.hpp"

namespace ioweave::engine {
namespace {

// SUBMIT_ALL (5.18): an entry that is refused does not stop those behind it.
// COOP_TASKRUN (5.19): completions wait for the owner's next system call instead of interrupting
// it; TASKRUN_FLAG: the ring tells that some are waiting.
// SINGLE_ISSUER (6.0), DEFER_TASKRUN (6.1): they wait until the owner asks for events. R_DISABLED:
// whoever enables the ring becomes its owner, so a backend may be opened by another thread.
constexpr unsigned kBase = IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;
constexpr unsigned kDeferred = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                               IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED;
constexpr unsigned kCooperative = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;

/// The kernel's thread spins this long after the last entry, then sleeps; the kernel rounds up to
/// its tick. With an unbounded spin on two cores one operation took 8 ms.
constexpr unsigned kSqpollIdleMs = 1;

constexpr const char* kAllowInSeccomp =
    "who starts the container can allow io_uring_setup, io_uring_enter and io_uring_register in "
    "its seccomp profile";

/// Flags to try, best first: a kernel answers -EINVAL to those it does not know yet.
std::array<unsigned, 3> flag_choices(const BackendOptions& options) noexcept {
  switch (options.mode) {
    case UringMode::sqpoll:  // does not go together with DEFER_TASKRUN
      return {kBase | IORING_SETUP_SQPOLL | IORING_SETUP_SUBMIT_ALL, kBase | IORING_SETUP_SQPOLL,
              kBase | IORING_SETUP_SQPOLL};
    case UringMode::iopoll:
      return {kBase | IORING_SETUP_IOPOLL | IORING_SETUP_SUBMIT_ALL, kBase | IORING_SETUP_IOPOLL,
              kBase | IORING_SETUP_IOPOLL};
    case UringMode::plain:
      break;
  }
  if (options.single_owner) {
    return {kBase | IORING_SETUP_SUBMIT_ALL | kDeferred,
            kBase | IORING_SETUP_SUBMIT_ALL | kCooperative, kBase};
  }
  return {kBase | IORING_SETUP_SUBMIT_ALL, kBase, kBase};
}

int set_up(const BackendOptions& options, io_uring& ring) noexcept {
  const uint32_t entries = std::min(options.entries, kMaxUringEntries);
  int status = -EINVAL;
  for (const unsigned flags : flag_choices(options)) {
    io_uring_params parameters{};
    parameters.flags = flags;
    parameters.cq_entries = completion_entries(entries);
    if (options.mode == UringMode::sqpoll) parameters.sq_thread_idle = kSqpollIdleMs;
    // The kernel's thread takes entries in its own time, so the ring's own requests need room too.
    const uint32_t slots = options.mode == UringMode::sqpoll ? 2 * entries : entries;
    status = io_uring_queue_init_params(slots, &ring, &parameters);
    if (status != -EINVAL) break;
  }
  return status;
}

/// Out of the way of the program whose process this is.
int make_private(int fd) noexcept {
  return make_descriptor_private(fd, [](auto... arguments) { return raw_syscall(arguments...); });
}

Refusal explain_forbidden(int error) {
  switch (io_uring_disabled()) {
    case 2:
      return {error, "io_uring is switched off on this machine (kernel.io_uring_disabled=2)",
              "its administrator can allow it: sysctl kernel.io_uring_disabled=0"};
    case 1:
      return {error, "io_uring is kept for privileged users (kernel.io_uring_disabled=1)",
              "the administrator can put you into the group kernel.io_uring_group or set "
              "kernel.io_uring_disabled=0"};
    default:
      break;
  }
  if (seccomp_filtered()) {
    return {error, "a seccomp filter forbids io_uring (EPERM), as container runtimes do by default",
            kAllowInSeccomp};
  }
  return {error, "a security module (SELinux, AppArmor) forbids io_uring (EPERM)",
          "the administrator can allow it in its policy"};
}

Refusal explain_missing(int error) {
  if (seccomp_filtered() && kernel_at_least(5, 1)) {
    return {error, "a seccomp filter hides io_uring (ENOSYS), as container runtimes do by default",
            kAllowInSeccomp};
  }
  return {error, "this kernel (" + kernel_release() + ") has no io_uring",
          "its administrator can install 5.13 or newer, built with CONFIG_IO_URING"};
}

Refusal explain(int error, const BackendOptions& options) {
  switch (-error) {
    case EPERM:
    case EACCES:
      return explain_forbidden(error);
    case ENOSYS:
      return explain_missing(error);
    case ENOMEM:
      return {
          error,
          "no memory for an io_uring of " + std::to_string(options.entries) +
              " entries; many kernels count rings against the limit of locked memory, here " +
              memlock_limit(),
          "raise it (ulimit -l, LimitMEMLOCK); a program that sets its queue depth may lower that"};
    case EMFILE:
    case ENFILE:
      return {error, "no descriptor is left for an io_uring",
              "raise the limit of open files (ulimit -n, LimitNOFILE, sysctl fs.file-max)"};
    case EINVAL:
      return {error,
              "this kernel (" + kernel_release() + ") does not know the mode asked of io_uring",
              "use the plain mode or a newer kernel"};
    default:
      return {error, std::string("io_uring_setup failed: ") + std::strerror(-error),
              "use the engine threads"};
  }
}

}  // namespace

std::unique_ptr<Backend> open_uring(const BackendOptions& options, Refusal& refusal) {
  io_uring ring{};
  const int status = set_up(options, ring);
  if (status < 0) {
    refusal = explain(status, options);
    return nullptr;
  }
  constexpr unsigned kNeeded = IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_RW_CUR_POS;
  if ((ring.features & kNeeded) != kNeeded) {
    io_uring_queue_exit(&ring);
    refusal = {-ENOSYS,
               "the io_uring of this kernel (" + kernel_release() +
                   ") cannot sleep with a timeout, which came with 5.11",
               "its administrator can install 5.13 or newer"};
    return nullptr;
  }
  const long wake_fd = raw_syscall(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) {
    io_uring_queue_exit(&ring);
    refusal = explain(static_cast<int>(wake_fd), options);
    return nullptr;
  }
  ring.ring_fd = make_private(ring.ring_fd);
  ring.enter_ring_fd = ring.ring_fd;
  return std::make_unique<UringBackend>(ring, make_private(static_cast<int>(wake_fd)), options);
}

}  // namespace ioweave::engine
