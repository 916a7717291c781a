#pragma once

#include <cstdint>

#include "engine/backend.hpp"

namespace ioweave::engine {

/// First in, first out, linked through Operation::next. One thread, or under a lock.
class OperationList {
 public:
  [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }
  [[nodiscard]] uint32_t size() const noexcept { return size_; }

  void push(Operation& operation) noexcept {
    operation.next = nullptr;
    (tail_ == nullptr ? head_ : tail_->next) = &operation;
    tail_ = &operation;
    ++size_;
  }

  /// The oldest, or null.
  [[nodiscard]] Operation* pop() noexcept {
    Operation* first = head_;
    if (first == nullptr) return nullptr;
    head_ = first->next;
    if (head_ == nullptr) tail_ = nullptr;
    --size_;
    return first;
  }

  /// Moves all of `other` to the end of this list.
  void append(OperationList& other) noexcept {
    if (other.empty()) return;
    (tail_ == nullptr ? head_ : tail_->next) = other.head_;
    tail_ = other.tail_;
    size_ += other.size_;
    other = {};
  }

  /// False where it is not in the list.
  bool remove(const Operation& operation) noexcept {
    Operation* before = nullptr;
    for (Operation* at = head_; at != nullptr; before = at, at = at->next) {
      if (at != &operation) continue;
      (before == nullptr ? head_ : before->next) = at->next;
      if (tail_ == at) tail_ = before;
      --size_;
      return true;
    }
    return false;
  }

 private:
  Operation* head_ = nullptr;
  Operation* tail_ = nullptr;
  uint32_t size_ = 0;
};

}  // namespace ioweave::engine
