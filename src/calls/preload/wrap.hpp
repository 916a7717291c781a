#pragma once

// Defines a function under a name of the C library. The C++ name differs, so that the C library's
// declaration (with its attributes, redirections and exception specification) does not get in the
// way; the assembler name is what programs link to.

#define IOWEAVE_WRAP(result, name, parameters)      \
  extern "C" __attribute__((visibility("default"))) \
  result wrapped_##name parameters __asm__(#name);  \
  extern "C" result wrapped_##name parameters

/// The same function under another name: on 64-bit Linux off64_t is off_t.
#define IOWEAVE_ALIAS(result, name, parameters, target)             \
  extern "C" __attribute__((visibility("default"), alias(#target))) \
  result wrapped_##name parameters __asm__(#name)
