#pragma once

namespace ioweave::stream {

/// A list in order of arrival of things that have `previous` and `next` and are in one list at a
/// time. It owns nothing and allocates nothing.
template <typename T>
class LinkedList {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] T* first() const noexcept { return first_; }

  void push_back(T& item) noexcept {
    item.previous = last_;
    item.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &item;
    last_ = &item;
  }
  void push_front(T& item) noexcept {
    item.previous = nullptr;
    item.next = first_;
    (first_ != nullptr ? first_->previous : last_) = &item;
    first_ = &item;
  }
  void insert_before(T& place, T& item) noexcept {
    item.previous = place.previous;
    item.next = &place;
    (place.previous != nullptr ? place.previous->next : first_) = &item;
    place.previous = &item;
  }
  void remove(T& item) noexcept {
    (item.previous != nullptr ? item.previous->next : first_) = item.next;
    (item.next != nullptr ? item.next->previous : last_) = item.previous;
    item.previous = nullptr;
    item.next = nullptr;
  }
  /// Null if there is none.
  T* pop_front() noexcept {
    T* const item = first_;
    if (item != nullptr) {
      remove(*item);
    }
    return item;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace ioweave::stream
