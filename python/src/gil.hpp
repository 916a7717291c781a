#pragma once

// Giving up the GIL, and threads that do not get it back.
//
// A daemon thread that wants the GIL while the interpreter ends is ended by Python 3.13 and older
// with pthread_exit(3). That unwinds its stack, which functions that may not throw, as nanobind's
// are, answer with std::terminate(). Such a thread is left asleep instead, as Python 3.14 does.

#include <unistd.h>

#include <cxxabi.h>

#include "module.hpp"

namespace ioweave::python {

/// What to do with an abi::__forced_unwind.
[[noreturn]] inline void sleep_for_ever() noexcept {
  while (true) {
    pause();
  }
}

/// Calls what may wait for the GIL where no exception may pass.
template <class Call>
auto with_forced_unwind_as_sleep(const Call& call) noexcept {
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    sleep_for_ever();
  }
}

/// Without the GIL while it lives.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    with_forced_unwind_as_sleep([&] { PyEval_RestoreThread(state_); });
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// With the GIL while it lives: in a callback that a call without it makes, on a thread of
/// Python's.
class WithGil {
 public:
  WithGil() : state_(with_forced_unwind_as_sleep([] { return PyGILState_Ensure(); })) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  const PyGILState_STATE state_;
};

}  // namespace ioweave::python
