#include "timer.hpp"

namespace alpi_test {

void Timer::start(Fire fire, uint64_t seed) {
  random_.seed(seed);
  ends_ = false;
  thread_ = std::thread(&Timer::run, this, fire);
}

void Timer::stop() {
  {
    const std::lock_guard guard(lock_);
    ends_ = true;
    entries_.clear();
  }
  changed_.notify_one();
  thread_.join();
}

void Timer::at(Clock::time_point when, Action action, Handle handle) {
  const std::lock_guard guard(lock_);
  const auto place = entries_.emplace(when, Entry{action, handle});
  if (place == entries_.begin()) {
    changed_.notify_one();
  }
}

void Timer::soon(Clock::duration most, Action action, Handle handle) {
  const Clock::time_point now = Clock::now();
  Clock::duration delay{};
  {
    const std::lock_guard guard(lock_);
    delay = Clock::duration(std::uniform_int_distribution<int64_t>(0, most.count())(random_));
  }
  at(now + delay, action, handle);
}

void Timer::run(Fire fire) {
  std::unique_lock guard(lock_);
  while (!ends_) {
    if (entries_.empty()) {
      changed_.wait(guard);
      continue;
    }
    const auto first = entries_.begin();
    if (const auto when = first->first; when > Clock::now()) {
      changed_.wait_until(guard, when);
      continue;
    }
    const Entry entry = first->second;
    entries_.erase(first);
    guard.unlock();
    fire(entry.action, entry.handle);
    guard.lock();
  }
}

}  // namespace alpi_test
