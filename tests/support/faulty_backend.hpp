#pragma once

// A backend that misbehaves on purpose, over one that does not: what a disk, a kernel or another
// thread may do to an operation, on demand and repeatable from a seed.

#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/backend.hpp"

namespace ioweave::test {

/// Each rate is the chance, 0 to 1, that the fault meets one operation (busy: one submit).
struct FaultOptions {
  uint64_t seed = 0;          ///< 0: a random one
  double short_transfer = 0;  ///< moves fewer bytes than asked, at least one
  double interrupted = 0;     ///< -EINTR, nothing moved
  double again = 0;           ///< -EAGAIN, nothing moved
  double cancelled = 0;       ///< -ECANCELED, nothing moved
  double io_error = 0;        ///< -EIO, nothing moved
  double no_space = 0;        ///< -ENOSPC, writes only, nothing moved
  bool no_direct = false;     ///< -EINVAL of writes past the page cache, nothing moved
  double busy = 0;            ///< submit answers busy, at most kMaxBusyRun times in a row
  double delay = 0;           ///< the completion is held back for some looks of reap()
  bool reorder = false;       ///< completions come in random order
  std::string only_below;     ///< faults meet only files below this folder; empty: all
  uint64_t spared = 0;        ///< so many operations on these files are met by no fault, at first
  uint32_t entries = 256;     ///< most operations in flight, those held back included

  static constexpr uint32_t kMaxBusyRun = 3;
  static constexpr uint32_t kMaxDelayLooks = 5;
};

/// How often each fault happened so far.
struct FaultCounts {
  uint64_t short_transfers = 0;
  uint64_t errors = 0;  ///< of all five kinds
  uint64_t busy = 0;
  uint64_t delayed = 0;
};

/// The threads of Backend; one mutex, never held while the inner backend sleeps.
class FaultyBackend final : public engine::Backend {
 public:
  FaultyBackend(std::unique_ptr<engine::Backend> inner, const FaultOptions& options);

  /// To be printed by the test (SCOPED_TRACE): the same seed gives the same faults to the same
  /// sequence of submits.
  [[nodiscard]] uint64_t seed() const noexcept { return options_.seed; }
  [[nodiscard]] FaultCounts counts() const;

  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] engine::Submitted submit(engine::Operation& operation) noexcept override;
  [[nodiscard]] int flush() noexcept override;
  [[nodiscard]] int reap(std::span<engine::Operation*> out,
                         const engine::Reap& how) noexcept override;
  void wake() noexcept override;
  [[nodiscard]] int cancel(engine::Operation& operation) noexcept override;
  [[nodiscard]] int fixed_error() const noexcept override { return inner_->fixed_error(); }
  void abandon() noexcept override { inner_->abandon(); }

 private:
  /// What the inner backend sees in place of the caller's operation.
  struct Shadow : engine::Operation {
    explicit Shadow(engine::Operation& of) : engine::Operation(of), original(of) {}
    engine::Operation& original;
    std::vector<iovec> shortened;
  };
  struct Held {
    engine::Operation* operation;
    uint32_t looks;  ///< it stays for so many more
  };

  [[nodiscard]] bool happens(double rate);
  [[nodiscard]] bool is_spared(const engine::Operation& operation);
  [[nodiscard]] int error_for(const engine::Operation& operation);
  void shorten(Shadow& shadow);
  void hold(engine::Operation& operation, int64_t result);
  [[nodiscard]] size_t release(std::span<engine::Operation*> out);
  [[nodiscard]] int collect(size_t wanted, int64_t timeout_ns);

  const std::unique_ptr<engine::Backend> inner_;
  FaultOptions options_;

  mutable std::mutex lock_;  ///< all below
  std::mt19937_64 random_;
  FaultCounts counts_;
  uint64_t spared_ = 0;
  std::unordered_map<const engine::Operation*, std::unique_ptr<Shadow>> shadows_;
  std::vector<Held> queued_;  ///< refused by a fault, to be completed at flush
  std::vector<Held> held_;    ///< completed
  uint32_t in_flight_ = 0;
  uint32_t busy_run_ = 0;
  bool woken_ = false;
};

}  // namespace ioweave::test
