#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "tasks.hpp"

namespace alpi_test {

/// Does things to tasks later, on a thread of its own. Thread-safe but for start() and stop().
class Timer {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Action : uint8_t { unblock, make_ready };
  using Fire = void (*)(Action action, Handle handle);

  /// `fire` runs on the timer's thread with no lock held.
  void start(Fire fire, uint64_t seed);
  /// What is still to come is dropped.
  void stop();

  void at(Clock::time_point when, Action action, Handle handle);
  /// After a random delay of at most `most`.
  void soon(Clock::duration most, Action action, Handle handle);

 private:
  struct Entry {
    Action action;
    Handle handle;
  };

  void run(Fire fire);

  std::mutex lock_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, Entry> entries_;
  std::mt19937_64 random_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace alpi_test
