#pragma once

// An operation handed to the kernel by one thread and given back to another is ordered by the
// kernel: its own barriers stand between taking the submission and posting the completion.
// ThreadSanitizer does not see them and is told; elsewhere this is nothing.

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IOWEAVE_THREAD_SANITIZER 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define IOWEAVE_THREAD_SANITIZER 1
#endif

#ifdef IOWEAVE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace ioweave::engine {

inline void handed_to_kernel([[maybe_unused]] void* operation) noexcept {
#ifdef IOWEAVE_THREAD_SANITIZER
  __tsan_release(operation);
#endif
}

inline void given_back_by_kernel([[maybe_unused]] void* operation) noexcept {
#ifdef IOWEAVE_THREAD_SANITIZER
  __tsan_acquire(operation);
#endif
}

}  // namespace ioweave::engine
