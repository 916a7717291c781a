#pragma once

// A back end that starts nothing until the test says so: what waits for it waits for certain.

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/backends.hpp"

namespace ioweave::test {

class GatedBackend final : public engine::Backend {
 public:
  GatedBackend(std::unique_ptr<engine::Backend> inner, uint32_t entries)
      : inner_(std::move(inner)), entries_(entries) {
    const std::lock_guard guard(lock());
    all().push_back(this);
  }
  ~GatedBackend() override {
    const std::lock_guard guard(lock());
    std::erase(all(), this);
  }

  /// As service::Options::open_backend.
  static std::unique_ptr<engine::Backend> open_backend(const engine::BackendOptions& options,
                                                       int& error, std::string& why) {
    auto inner = engine::open_backend(options, error, why);
    return inner == nullptr ? nullptr
                            : std::make_unique<GatedBackend>(std::move(inner), options.entries);
  }
  static void close_gate() {
    const std::lock_guard guard(lock());
    is_open() = false;
    most_waiting_bytes() = 0;
  }
  static void open_gate() {
    const std::lock_guard guard(lock());
    is_open() = true;
    for (GatedBackend* const each : all()) {
      each->inner_->wake();
    }
  }

  /// Of transfers that waited at the gate at one time, since close_gate().
  static uint64_t most_bytes() {
    const std::lock_guard guard(lock());
    return most_waiting_bytes();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] engine::Submitted submit(engine::Operation& operation) noexcept override {
    if (in_flight_ == entries_) {
      return engine::Submitted::busy;
    }
    ++in_flight_;
    waiting_.push_back(&operation);
    const std::lock_guard guard(lock());
    uint64_t bytes = 0;
    for (const engine::Operation* const each : waiting_) {
      bytes += each->length;
    }
    most_waiting_bytes() = std::max(most_waiting_bytes(), bytes);
    return engine::Submitted::queued;
  }
  [[nodiscard]] int flush() noexcept override {
    let_through();
    return inner_->flush();
  }
  [[nodiscard]] int reap(std::span<engine::Operation*> out,
                         const engine::Reap& how) noexcept override {
    let_through();
    const int reaped = inner_->reap(out, how);
    in_flight_ -= static_cast<uint32_t>(std::max(reaped, 0));
    return reaped;
  }
  void wake() noexcept override { inner_->wake(); }
  [[nodiscard]] int cancel(engine::Operation&) noexcept override { return -ENOENT; }
  void abandon() noexcept override { inner_->abandon(); }

 private:
  static std::mutex& lock() {
    static auto& lock = *new std::mutex;
    return lock;
  }
  static bool& is_open() {
    static bool open = false;
    return open;
  }
  static uint64_t& most_waiting_bytes() {
    static uint64_t most = 0;
    return most;
  }
  static std::vector<GatedBackend*>& all() {
    static auto& all = *new std::vector<GatedBackend*>;  // threads may run to the very end
    return all;
  }

  /// Who drives the back end, one at a time: what waits goes to the inner one.
  void let_through() noexcept {
    {
      const std::lock_guard guard(lock());
      if (!is_open()) {
        return;
      }
    }
    while (!waiting_.empty() && inner_->submit(*waiting_.front()) == engine::Submitted::queued) {
      waiting_.pop_front();
    }
  }

  const std::unique_ptr<engine::Backend> inner_;
  const uint32_t entries_;
  std::deque<engine::Operation*> waiting_;
  uint32_t in_flight_ = 0;
};

}  // namespace ioweave::test
