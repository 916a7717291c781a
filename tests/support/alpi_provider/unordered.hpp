#pragma once

// Tells ThreadSanitizer to forget what a thread does while an Unordered lives; see alpi_test.h,
// "What `relaxed` can simulate". Nothing in other builds.

#if defined(__SANITIZE_THREAD__)
#define ALPI_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ALPI_TEST_TSAN 1
#endif
#endif

#ifdef ALPI_TEST_TSAN
extern "C" {
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace alpi_test {

/// What runs inside may neither allocate, since the memory's earlier owner would seem to race with
/// its next, nor end the thread.
class Unordered {
 public:
  explicit Unordered([[maybe_unused]] bool wanted) noexcept {
#ifdef ALPI_TEST_TSAN
    wanted_ = wanted;
    if (wanted_) {
      AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
      AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
      AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
#endif
  }
  ~Unordered() {
#ifdef ALPI_TEST_TSAN
    if (wanted_) {
      AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
      AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
      AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    }
#endif
  }
  Unordered(const Unordered&) = delete;
  Unordered& operator=(const Unordered&) = delete;

#ifdef ALPI_TEST_TSAN
 private:
  bool wanted_ = false;
#endif
};

}  // namespace alpi_test
