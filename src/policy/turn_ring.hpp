#pragma once

#include <cstdint>

#include "policy/min_tree.hpp"

namespace ioweave::policy {

/// Turn takers, each waiting with a known need (of bandwidth) or idle.
///
/// The *holder* is the taker whose turn it is. Where its need does not fit, others that fit fill
/// in, in turns of their own, so that the device does not stand idle; the turn stays with the
/// holder. After kMostPassed of them the ring is *closed*: the scheduler lets nobody who needs
/// bandwidth pass any more, what runs drains, and the holder starts. So every taker is served after
/// at most (takers ahead of it) x (kMostPassed + 1) starts, however large its need.
///
/// Each call is O(log takers). One thread at a time.
class TurnRing {
 public:
  static constexpr uint32_t kNone = MinTree::kNone;
  static constexpr uint32_t kMostPassed = 16;

  [[nodiscard]] bool empty() const noexcept { return needs_.smallest() == MinTree::kNothing; }
  [[nodiscard]] bool is_closed() const noexcept { return passed_ >= kMostPassed; }

  /// The taker in `slot` waits, with this need.
  void set_waiting(uint32_t slot, int64_t need) { needs_.set(slot, need); }

  /// It does not wait any more.
  void set_idle(uint32_t slot) {
    needs_.set(slot, MinTree::kNothing);
    if (slot == turn_) {
      passed_ = 0;
    }
  }

  /// Whose turn it is; kNone where the ring is empty. The turn stays there until it is served or
  /// idle: a taker that begins to wait later does not get in front.
  [[nodiscard]] uint32_t find_holder() noexcept {
    const uint32_t slot = find_next(turn_, MinTree::kNothing - 1);
    turn_ = slot == kNone ? turn_ : slot;
    return slot;
  }

  /// Who goes next: the holder where its need is at most `room`, else somebody who fills in with
  /// at most `room_to_pass`, else kNone.
  [[nodiscard]] uint32_t pick(int64_t room, int64_t room_to_pass) noexcept {
    const uint32_t first = find_holder();
    if (first == kNone || needs_.get(first) <= room) {
      return first;
    }
    return find_next(fill_, room_to_pass);
  }

  /// The first waiting taker from slot `from` on, and around, whose need is at most `room`.
  [[nodiscard]] uint32_t find_next(uint32_t from, int64_t room) const noexcept {
    const uint32_t slot = needs_.find(from, room);
    return slot != kNone || from == 0 ? slot : needs_.find(0, room);
  }

  /// One operation of the taker in `slot` was started, whether it had waited or not. True where
  /// it was the holder.
  bool serve(uint32_t slot) noexcept {
    if (slot != turn_) {
      fill_ = slot + 1;
      return false;
    }
    turn_ = slot + 1;
    passed_ = 0;
    return true;
  }

  /// Somebody who holds bandwidth started while the holder waits for bandwidth.
  void pass_holder() noexcept {
    (void)find_holder();  // Settles who it is, so that set_idle() knows whose count to forget.
    ++passed_;
  }

 private:
  MinTree needs_;
  uint32_t turn_ = 0;
  uint32_t fill_ = 0;
  uint32_t passed_ = 0;  ///< since the holder got the turn
};

}  // namespace ioweave::policy
