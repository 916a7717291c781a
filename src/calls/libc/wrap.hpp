#pragma once

// Defines a function under a name of the C library. The C++ name differs, so that the C library's
// declaration (with its attributes, redirections and exception specification) does not get in the
// way; the assembler name is what programs link to.

#include "calls/libc/wrapped_calls.hpp"

#define IOWEAVE_MEMBER(name, ...) name,
namespace ioweave::calls {
enum class WrappedName { IOWEAVE_ALL_CALLS(IOWEAVE_MEMBER, IOWEAVE_MEMBER, IOWEAVE_MEMBER) };
}

#define IOWEAVE_WRAP(result, name, parameters)                           \
  static_assert(WrappedName::name >= WrappedName{}, "not in the table"); \
  extern "C" __attribute__((visibility("default")))                      \
  result wrapped_##name parameters __asm__(#name);                       \
  extern "C" result wrapped_##name parameters

/// The same function under another name.
#define IOWEAVE_ALIAS(name, target)                                   \
  extern "C" decltype(wrapped_##target) wrapped_##name __asm__(#name) \
      __attribute__((visibility("default"), alias(#target)));

/// The other names of the functions in a list of the table, all of which are defined above.
#define IOWEAVE_VARIANTS(list) list(IOWEAVE_SKIP, IOWEAVE_ALIAS, IOWEAVE_SKIP)
