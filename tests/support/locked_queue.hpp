#pragma once

// A shared queue over a back end of one owner, a faulty one for instance: one lock around each
// call, and a sleep of small steps. For tests.

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/shared_queue.hpp"

namespace ioweave::test {

class LockedQueue final : public engine::SharedQueue {
 public:
  explicit LockedQueue(std::unique_ptr<engine::Backend> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] bool submit(engine::Operation& operation) noexcept override {
    const std::lock_guard guard(lock_);
    if (inner_->submit(operation) != engine::Submitted::queued) return false;
    static_cast<void>(inner_->flush());
    return true;
  }
  [[nodiscard]] bool has_ended() const noexcept override { return true; }
  [[nodiscard]] size_t reap(std::span<engine::Operation*> out, bool sleep) noexcept override {
    while (true) {
      {
        const std::lock_guard guard(lock_);
        const int reaped = inner_->reap(out, {.flush = true});
        if (reaped != 0 || !sleep || std::exchange(is_woken_, false)) {
          return reaped > 0 ? static_cast<size_t>(reaped) : 0;
        }
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  void wake() noexcept override {
    const std::lock_guard guard(lock_);
    is_woken_ = true;
  }
  void abandon() noexcept override { inner_->abandon(); }

 private:
  std::mutex lock_;
  const std::unique_ptr<engine::Backend> inner_;
  bool is_woken_ = false;
};

}  // namespace ioweave::test
