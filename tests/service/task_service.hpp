#pragma once

// A service with tasks, through libioweave.so as a program has it, and what its tests share.

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include <gtest/gtest.h>

#include "ioweave/tasks.h"
#include "support/temp_file.hpp"
#include "support/workers.hpp"

namespace ioweave::test {

inline constexpr size_t kBlock = 4096;  // what O_DIRECT is aligned to

/// Memory for O_DIRECT.
class Aligned {
 public:
  explicit Aligned(size_t bytes)
      : bytes_(bytes),
        memory_(static_cast<std::byte*>(
            std::aligned_alloc(kBlock, (bytes + kBlock - 1) / kBlock * kBlock))) {
    if (memory_ == nullptr) {
      throw std::bad_alloc();
    }
  }
  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] size_t size() const { return bytes_; }
  [[nodiscard]] std::vector<std::byte> first(size_t bytes) const {
    return {data(), data() + bytes};
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

// Not to be inlined: a task of oneTBB may come back on another thread, whose errno is elsewhere.
__attribute__((noinline)) inline void set_errno(int value) {
  errno = value;
}
__attribute__((noinline)) inline int get_errno() {
  return errno;
}

inline iow_options options_for(HostUnderTest host) {
  iow_options options{};
  options.size = sizeof options;
  options.tasks = host == HostUnderTest::begun ? IOW_TASKS_NONE
                  : host == HostUnderTest::tbb ? IOW_TASKS_TBB
                                               : IOW_TASKS_ALPI;
  options.task_reaper = host == HostUnderTest::alpi_task ? IOW_REAPER_TASK : IOW_REAPER_THREAD;
  return options;
}

/// Workers, and a service for their tasks.
class TaskService : public ::testing::TestWithParam<HostUnderTest> {
 protected:
  void SetUp() override {
    if (const std::string why = missing(GetParam()); !why.empty()) {
      GTEST_SKIP() << why;
    }
  }
  void TearDown() override {
    if (workers != nullptr) {
      workers->wait();
    }
    close();
    workers.reset();
  }

  /// In this order: a runtime must be loaded when the service looks for it.
  void open(unsigned worker_count, iow_options options) {
    workers = make_workers(GetParam(), worker_count);
    char* why = nullptr;
    const int error = iow_service_open(&service, &options, &why);
    ASSERT_EQ(error, 0) << std::unique_ptr<char, decltype(&std::free)>(why, &std::free).get();
    workers->brackets().begin = [this](void (*done)(void*), void* user) {
      return iow_task_begin(service, done, user);
    };
    workers->brackets().end = [this] { return iow_task_end(service); };
  }
  void open(unsigned worker_count) { open(worker_count, options_for(GetParam())); }
  void close() {
    if (service != nullptr) {
      iow_service_close(service);
      service = nullptr;
    }
  }
  [[nodiscard]] iow_task_stats stats() const {
    iow_task_stats stats{};
    stats.size = sizeof stats;
    EXPECT_EQ(iow_service_task_stats(service, &stats), 0);
    return stats;
  }

  /// Calls that would have waited for a device with their core: a runtime that tells that nothing
  /// else is ready (nOS-V) keeps a task on it.
  [[nodiscard]] uint64_t waits() const { return stats().pauses + stats().alone; }

  std::unique_ptr<Workers> workers;
  iow_service* service = nullptr;
};

/// Hosts that can pause tasks.
class BlockingInTask : public TaskService {};
/// Hosts that hold up the end of a task.
class BoundToTask : public TaskService {};

}  // namespace ioweave::test
