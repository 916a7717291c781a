#pragma once

#include <atomic>

#include "service/request.hpp"

namespace ioweave::service {

/// First in, first out, through Operation::next: no memory of its own. One thread.
class RequestList {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }

  void push(iow_request& request) noexcept {
    engine::Operation& operation = journey_of(request).operation;
    operation.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &operation;
    last_ = &operation;
  }

  void push_front(iow_request& request) noexcept {
    engine::Operation& operation = journey_of(request).operation;
    operation.next = first_;
    if (first_ == nullptr) {
      last_ = &operation;
    }
    first_ = &operation;
  }

  iow_request& pop() noexcept {
    engine::Operation& operation = *first_;
    first_ = operation.next;
    return request_of(operation);
  }

 private:
  engine::Operation* first_ = nullptr;
  engine::Operation* last_ = nullptr;
};

/// Many pushers, one taker at a time.
class Inbox {
 public:
  void push(iow_request& request) noexcept {
    engine::Operation& operation = journey_of(request).operation;
    engine::Operation* head = head_.load(std::memory_order_relaxed);
    do {
      operation.next = head;
      // seq_cst, not release: the pusher next looks whether the taker sleeps, and the taker, having
      // said so, looks here; one of the two must see the other.
    } while (!head_.compare_exchange_weak(head, &operation, std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
  }

  [[nodiscard]] bool empty() const noexcept {
    return head_.load(std::memory_order_seq_cst) == nullptr;
  }

  /// Appends everything to `list` in the order of pushing.
  void move_to(RequestList& list) noexcept {
    if (head_.load(std::memory_order_relaxed) == nullptr) {
      return;
    }
    engine::Operation* newest = head_.exchange(nullptr, std::memory_order_acquire);
    engine::Operation* oldest = nullptr;
    while (newest != nullptr) {
      engine::Operation* const older = newest->next;
      newest->next = oldest;
      oldest = newest;
      newest = older;
    }
    while (oldest != nullptr) {
      engine::Operation* const newer = oldest->next;
      list.push(request_of(*oldest));
      oldest = newer;
    }
  }

 private:
  std::atomic<engine::Operation*> head_{nullptr};
};

}  // namespace ioweave::service
