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

/// Without the GIL while it lives.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind&) {
      sleep_for_ever();
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace ioweave::python
