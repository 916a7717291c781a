#include "calls/libc/signal_context.hpp"

#include <csignal>
#include <thread>

#include <gtest/gtest.h>

// The sanitizers' own fault handlers neither block their signal nor, in part, use a stack of their
// own: with them in place every thread may be in a handler.
extern "C" const char* __tsan_default_options() {
  return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0";
}
extern "C" const char* __asan_default_options() {
  return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0";
}

namespace ioweave::calls {
namespace {

volatile sig_atomic_t seen = 0;

void look(int) {
  seen = may_be_in_signal_handler() ? 1 : 2;
}

/// Installs a handler for a test and takes it away again.
class Handler {
 public:
  Handler(int signal, int flags, bool mask_all = false) : signal_(signal) {
    struct sigaction action {};
    action.sa_handler = &look;
    action.sa_flags = flags;
    if (mask_all) {
      sigfillset(&action.sa_mask);
    }
    sigaction(signal, &action, &before_);
  }
  ~Handler() { sigaction(signal_, &before_, nullptr); }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

 private:
  int signal_;
  struct sigaction before_ {};
};

int seen_in_handler(int flags, bool mask_all) {
  const Handler handler(SIGUSR1, flags, mask_all);
  seen = 0;
  raise(SIGUSR1);
  return seen;
}

TEST(SignalContext, OrdinaryCodeIsOutside) {
  EXPECT_FALSE(may_be_in_signal_handler());
}

TEST(SignalContext, OrdinaryCodeIsOutsideWhereHandlersAreInstalled) {
  const Handler handler(SIGUSR1, 0);
  EXPECT_FALSE(may_be_in_signal_handler());
}

TEST(SignalContext, AHandlerIsInside) {
  EXPECT_EQ(seen_in_handler(0, false), 1);
  EXPECT_EQ(seen_in_handler(SA_RESTART, true), 1);
}

TEST(SignalContext, AHandlerThatDoesNotBlockItsOwnSignalIsInside) {
  EXPECT_EQ(seen_in_handler(SA_NODEFER, false), 1);
}

TEST(SignalContext, AThreadThatBlocksASignalWithoutAHandlerIsOutside) {
  sigset_t set;
  sigset_t before;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  EXPECT_FALSE(may_be_in_signal_handler());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(SignalContext, HeldSignalsComeAfterwards) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer delivers signals when it likes";
#endif
  const Handler handler(SIGUSR1, 0);
  seen = 0;
  {
    const SignalsHeld held;
    raise(SIGUSR1);
    EXPECT_EQ(seen, 0);
  }
  EXPECT_NE(seen, 0);
}

}  // namespace
}  // namespace ioweave::calls
