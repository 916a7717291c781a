#pragma once

// The public interface as a program sees it: ioweave.h and libioweave.so, nothing of src/.

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>

#include "ioweave/ioweave.h"
#include "support/request.hpp"
#include "support/temp_file.hpp"

namespace ioweave::test {

inline constexpr int64_t kForEver = -1;
/// Long enough for what could go wrong to happen. Nothing is asserted to be faster than it.
inline constexpr int64_t kMomentNs = 20'000'000;
/// As long as no machine should take, for what would otherwise be waited for in vain.
inline constexpr int64_t kLongNs = 20'000'000'000;

/// Takes an error_text: owns it, and knows whether the function has set it at all.
class ErrorText {
 public:
  ErrorText() = default;
  ~ErrorText() { release(); }
  ErrorText(const ErrorText&) = delete;
  ErrorText& operator=(const ErrorText&) = delete;

  [[nodiscard]] char** out() {
    release();
    return &text_;
  }
  [[nodiscard]] bool untouched() const { return text_ == &kUntouched; }
  /// "" where there is none; fails the test where the pointer was left as it was.
  [[nodiscard]] std::string str() const {
    EXPECT_FALSE(untouched()) << "*error_text was not set";
    return untouched() || text_ == nullptr ? std::string() : std::string(text_);
  }

 private:
  void release() {
    if (!untouched()) {
      std::free(text_);
    }
    text_ = &kUntouched;
  }
  static inline char kUntouched = '?';
  char* text_ = &kUntouched;
};

struct CloseService {
  void operator()(iow_service* service) const { iow_service_close(service); }
};
using OwnedService = std::unique_ptr<iow_service, CloseService>;

/// Null where it fails, with the reason in `why`.
inline OwnedService open_service(const iow_options& options, std::string* why = nullptr) {
  ErrorText text;
  iow_service* service = nullptr;
  const int error = iow_service_open(&service, &options, text.out());
  EXPECT_EQ(error == 0, service != nullptr);
  if (why != nullptr) {
    *why = text.str();
  }
  return OwnedService(service);
}

inline iow_request make_nop() {
  return make_request(IOW_OP_NOP, -1, nullptr, 0, 0);
}

inline iow_stats stats_of(iow_service* service) {
  iow_stats stats{};
  stats.size = sizeof stats;
  EXPECT_EQ(iow_service_stats(service, &stats), 0);
  return stats;
}

/// What ran and where, for callbacks.
struct Calls {
  std::atomic<int> count{0};
  std::atomic<std::thread::id> thread{};
  std::atomic<int64_t> result{0};
};

inline void note_call(iow_request* request, void* user) {
  auto& calls = *static_cast<Calls*>(user);
  calls.thread = std::this_thread::get_id();
  calls.result = request->result;
  ++calls.count;  // last: the test goes on when it sees it
}

inline void await(const std::atomic<int>& count, int wanted) {
  while (count < wanted) {
    std::this_thread::yield();
  }
}

/// Every engine in turn: what the interface promises does not depend on it.
class OnEveryEngine : public ::testing::TestWithParam<iow_engine> {
 protected:
  void SetUp() override { open({}); }

  void open(iow_options options) {
    options.engine = GetParam();
    options.required = 1;
    std::string why;
    owned_ = open_service(options, &why);
    service = owned_.get();
    if (service == nullptr) {
      GTEST_SKIP() << why;
    }
  }
  void close() {
    owned_.reset();
    service = nullptr;
  }

  int submit(iow_request& request) {
    iow_request* const one = &request;
    return iow_submit(service, &one, 1);
  }
  /// Submits and waits.
  int64_t result_of(iow_request& request) {
    const int taken = submit(request);
    if (taken != 1) {
      ADD_FAILURE() << "iow_submit: " << taken;
      return taken;
    }
    EXPECT_EQ(iow_wait(service, &request, kForEver), 0);
    return request.result;
  }

  iow_service* service = nullptr;

 private:
  OwnedService owned_;
};

inline std::string name_of(const ::testing::TestParamInfo<iow_engine>& info) {
  return info.param == IOW_ENGINE_URING ? "uring"
         : info.param == IOW_ENGINE_AIO ? "aio"
                                        : "threads";
}

inline auto every_engine() {
  return ::testing::Values(IOW_ENGINE_URING, IOW_ENGINE_AIO, IOW_ENGINE_THREADS);
}

}  // namespace ioweave::test
