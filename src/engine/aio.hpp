#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine/aio_context.hpp"
#include "engine/operation_list.hpp"

namespace ioweave::engine {

/// Linux native AIO. See aio.cpp for how it works and Backend for which thread may call what.
class AioBackend final : public Backend {
 public:
  AioBackend(std::unique_ptr<AioContext> context, uint32_t entries);

  [[nodiscard]] std::string_view name() const noexcept override {
    return backend_name(Kind::aio, UringMode::plain);
  }
  [[nodiscard]] Submitted submit(Operation& operation) noexcept override;
  [[nodiscard]] int flush() noexcept override;
  [[nodiscard]] int reap(std::span<Operation*> out, const Reap& how) noexcept override;
  void wake() noexcept override;
  /// No driver of a disk implements io_cancel(2): what is in flight can only be waited for.
  [[nodiscard]] int cancel(Operation&) noexcept override {
    return in_flight_.count() == 0 ? -ENOENT : -EALREADY;
  }
  void abandon() noexcept override { context_->abandon(); }

 private:
  void refuse(Operation& operation, int64_t result) noexcept;
  [[nodiscard]] bool take_wake() noexcept;
  [[nodiscard]] size_t collect_refused(std::span<Operation*> out) noexcept;
  [[nodiscard]] long collect(std::span<Operation*> out, bool sleep, int64_t timeout_ns,
                             bool& woken) noexcept;

  const std::unique_ptr<AioContext> context_;
  const std::unique_ptr<iocb[]> blocks_;       ///< owner
  const std::unique_ptr<iocb*[]> block_list_;  ///< owner: points at blocks_, in order
  uint32_t queued_ = 0;                        ///< owner: blocks filled and not taken yet
  const size_t event_room_;
  const std::unique_ptr<io_event[]> events_;  ///< reaper

  InFlight in_flight_;
  std::mutex refused_lock_;
  OperationList refused_;  ///< under refused_lock_
  std::atomic<bool> any_refused_{false};
  std::atomic<bool> wake_pending_{false};
};

}  // namespace ioweave::engine
