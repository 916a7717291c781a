#pragma once

namespace ioweave {

/// Prints the failed condition to standard error and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace ioweave

/// Asserts state transitions, ownership and counts, in every build. An errno is an operating error
/// and is never asserted. The cost is one predicted branch.
#define IOW_ASSERT(condition)                        \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::ioweave::assertion_failed(#condition, __FILE__, __LINE__))
