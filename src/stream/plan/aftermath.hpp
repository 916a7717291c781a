#pragma once

#include <vector>

#include "stream/plan/plan.hpp"

namespace ioweave::stream {

/// What is to be done once the lock is free.
struct Plan::Aftermath {
  LinkedList<SliceWait> ended;
  Slice* unwanted = nullptr;       ///< of dropped entries, which are pinned: the gate may hold them
  std::vector<PageMemory> memory;  ///< to be given back to the system
};

/// A place in the line of those who wait until slices have ended: all, or those of a file.
class Plan::IdleWait final : public SliceWait {
 public:
  IdleWait(Plan& plan, const FileId* file) noexcept : plan_(plan), file_(file) {}

  bool begin() noexcept override {
    const std::lock_guard guard(plan_.lock_);
    if (is_over()) {
      return true;
    }
    plan_.idle_waits_.push_back(*this);
    return false;
  }
  bool withdraw() noexcept override { return false; }

  /// Under the lock.
  [[nodiscard]] bool is_over() const noexcept {
    if (file_ == nullptr) {
      return plan_.busy_ == 0;
    }
    const auto found = plan_.files_.find(*file_);
    return found == plan_.files_.end() || found->second.under_way == 0;
  }

 private:
  Plan& plan_;
  const FileId* const file_;
};

}  // namespace ioweave::stream
