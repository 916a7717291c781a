#include "calls/libc/signal_context.hpp"

#include <cerrno>
#include <csignal>

#include <sys/syscall.h>
#include <unistd.h>

#include "engine/raw_syscall.hpp"

namespace ioweave::calls {
namespace {

constexpr int kSignals = 64;
constexpr int kSetxidSignal = 33;  // the C library's, invisible through its own interface

constexpr uint64_t bit(int signal) {
  return uint64_t{1} << (signal - 1);
}

/// As the kernel reads it, which differs from the C library's struct.
struct KernelAction {
  void (*handler)(int);
  unsigned long flags;
#if defined(__x86_64__) || defined(__aarch64__)
  void (*restorer)();
#endif
  uint64_t mask;
};

/// Synchronous faults: a blocked one whose action is the default may be a handler with
/// SA_RESETHAND at work, since nobody else blocks these alone.
constexpr uint64_t kFaults = bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) | bit(SIGABRT);

uint64_t set_mask(int how, const uint64_t* mask) noexcept {
  uint64_t before = 0;
  engine::raw_syscall(SYS_rt_sigprocmask, how, mask, &before, sizeof before);
  return before;
}

/// 1 on the alternate stack, 0 off it, -1 where there is none.
int on_alternate_stack() noexcept {
  stack_t stack{};
  if (sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) != 0) {
    return -1;
  }
  return (stack.ss_flags & SS_ONSTACK) != 0 ? 1 : 0;
}

bool handler_may_run(int signal, uint64_t blocked, int alternate) noexcept {
  KernelAction action{};
  if (engine::raw_syscall(SYS_rt_sigaction, signal, nullptr, &action, sizeof action.mask) != 0) {
    return false;
  }
  if (action.handler == SIG_IGN) {
    return false;
  }
  if (action.handler == SIG_DFL) {
    return (blocked & kFaults & bit(signal)) != 0 && (blocked & kFaults) != kFaults;
  }
  if ((action.flags & SA_ONSTACK) != 0 && alternate == 0) {
    return false;  // it would run on the other stack
  }
  const uint64_t own = (action.flags & SA_NODEFER) != 0 ? 0 : bit(signal);
  return ((action.mask | own) & ~blocked) == 0;
}

}  // namespace

bool may_be_in_signal_handler() noexcept {
  const int saved = errno;
  const uint64_t blocked = set_mask(SIG_BLOCK, nullptr);
  const int alternate = on_alternate_stack();
  bool may = alternate == 1;
  for (int signal = 1; signal <= kSignals && !may; ++signal) {
    // The C library's own handlers (32, 33) call no wrapped function.
    may = signal != 32 && signal != kSetxidSignal && handler_may_run(signal, blocked, alternate);
  }
  errno = saved;
  return may;
}

SignalsHeld::SignalsHeld() noexcept {
  const uint64_t all = ~bit(kSetxidSignal);
  before_ = set_mask(SIG_SETMASK, &all);
}

uint64_t SignalsHeld::but_for_fatal_ones() const noexcept {
  uint64_t held = ~bit(kSetxidSignal);
  for (int signal = 1; signal <= kSignals; ++signal) {
    KernelAction action{};
    if (engine::raw_syscall(SYS_rt_sigaction, signal, nullptr, &action, sizeof action.mask) == 0 &&
        action.handler == SIG_DFL) {
      held &= ~bit(signal);
    }
  }
  return held | before_;
}

void SignalsHeld::let_fatal_ones_in() const noexcept {
  const uint64_t mask = but_for_fatal_ones();
  set_mask(SIG_SETMASK, &mask);
}

SignalsHeld::~SignalsHeld() {
  set_mask(SIG_SETMASK, &before_);
}

}  // namespace ioweave::calls
