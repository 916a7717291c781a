// The libraries are linked with --wrap for every name of IOWEAVE_OWN_CALLS, a list of the table,
// that has a real function (own_calls.in), so that their own parts (service, engine, the C++
// runtime) make the real calls: on the threads of Ioweave nothing is tracked, and a call that were
// to come back through the wrappers could meet itself.

#include "calls/libc/real.hpp"

namespace ioweave::calls {

#define IOWEAVE_OWN(name, result, parameters, arguments, ...)       \
  extern "C" result own_##name parameters __asm__("__wrap_" #name); \
  extern "C" result own_##name parameters {                         \
    return real::name arguments;                                    \
  }
#define IOWEAVE_OWN_VARIANT(name, target)                               \
  extern "C" decltype(own_##target) own_##name __asm__("__wrap_" #name) \
      __attribute__((alias("__wrap_" #target)));
IOWEAVE_OWN_CALLS(IOWEAVE_OWN, IOWEAVE_OWN_VARIANT, IOWEAVE_SKIP)

}  // namespace ioweave::calls
