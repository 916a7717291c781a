#pragma once

// Which way calls of one kind go fastest, found out by the calls themselves. Pure logic without
// I/O, clock, thread or lock. It may lie in shared memory.
//
// How it works. The measure is the pace of a way: nanoseconds per byte, with all the time for which
// the program waited because of that way, be it in a later call. One way is *in use*. Now and then
// another one is examined: the two take turns of so many calls as usually last a millisecond, but 2
// to 16; then turns twice as long, and once more. The other way is given up when it was slower by
// half, or took twice as long as the whole first turn should. It takes over if it was faster by a
// tenth at the end, or by half before.
//
// What an examination may lose stays small beside what the calls take. So the first one comes when
// the calls have taken 25 ms in all, and the next one of a way after eight times as many calls. It
// comes at once when the pace of the way in use has doubled or halved for two looks of 64 calls,
// each time after twice as many calls.
//
// What is known beforehand, from the profile of the device or from calls on another file, decides
// which way is used first. A way that is known to be slower is examined late.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace ioweave::choice {

/// A way in which a call of an unmodified program can go.
enum class Way : uint8_t {
  plain,   ///< the program's own call
  engine,  ///< one operation of the engine, for which the program waits
  pieces,  ///< several operations of the engine at once, for all of which it waits
  behind,  ///< a write is held back, and written later together with others
  bounce,  ///< a read into memory of ours, in large pages, from where it is copied
};
inline constexpr size_t kWays = 5;
inline constexpr std::array<std::string_view, kWays> kWayNames{"plain", "engine", "pieces",
                                                               "behind", "bounce"};

/// A set of ways.
class Ways {
 public:
  constexpr Ways() = default;
  constexpr Ways(Way way) : bits_(bit(way)) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] constexpr bool has(Way way) const noexcept { return (bits_ & bit(way)) != 0; }
  constexpr Ways operator|(Ways other) const noexcept {
    Ways both;
    both.bits_ = bits_ | other.bits_;
    return both;
  }
  constexpr bool operator==(const Ways& other) const = default;
  constexpr void remove(Way way) noexcept { bits_ &= static_cast<uint8_t>(~bit(way)); }

 private:
  static constexpr uint8_t bit(Way way) noexcept {
    return static_cast<uint8_t>(1u << static_cast<unsigned>(way));
  }
  uint8_t bits_ = 0;
};

/// How fast each way is expected to be, over plain; 0: nobody knows.
using Expected = std::array<float, kWays>;

/// Calls of one kind: of one file, one operation, one range of sizes. One thread at a time.
class WayChoice {
 public:
  /// What was seen of a way.
  struct Seen {
    uint64_t calls = 0;
    uint64_t bytes = 0;
    uint64_t ns = 0;  ///< of the calls, and of what they made the program wait for later
    uint32_t examined = 0;
    uint32_t refused = 0;  ///< calls that could not go this way, and were made plainly
  };

  WayChoice() = default;
  /// `usable` has Way::plain.
  WayChoice(Ways usable, const Expected& expected) noexcept;

  /// Returns the way of the next call.
  [[nodiscard]] Way way() const noexcept { return way_; }

  /// A call of so many bytes went this way. With 0 bytes: the program waited because of earlier
  /// calls that did.
  void note(Way way, uint64_t bytes, uint64_t ns) noexcept;
  /// A call should have gone this way and could not, which took so long: it was made plainly.
  void note_refusal(Way way, uint64_t ns) noexcept;
  /// This way is closed for good.
  void rule_out(Way way) noexcept;

  // For whom a choice is explained to.
  [[nodiscard]] Way in_use() const noexcept { return in_use_; }
  [[nodiscard]] Way first() const noexcept { return first_; }
  [[nodiscard]] Ways usable() const noexcept { return usable_; }
  [[nodiscard]] const Seen& seen(Way way) const noexcept { return seen_[index(way)]; }
  [[nodiscard]] float expected(Way way) const noexcept { return expected_[index(way)]; }
  /// The bytes of all calls so far when the way in use was taken; 0: from the beginning.
  [[nodiscard]] uint64_t used_since_bytes() const noexcept { return used_since_bytes_; }
  /// The speed of a way over that of the way in use, as the last examination found it; 0: there
  /// was none.
  [[nodiscard]] float measured(Way way) const noexcept { return measured_[index(way)]; }
  /// What another choice about calls of this kind may expect.
  [[nodiscard]] Expected learned() const noexcept;

 private:
  struct Pace {
    uint64_t bytes = 0;
    uint64_t ns = 0;

    [[nodiscard]] double ns_per_byte() const noexcept {
      return bytes > 0 ? static_cast<double>(ns) / static_cast<double>(bytes) : 0;
    }
  };
  static constexpr size_t index(Way way) noexcept { return static_cast<size_t>(way); }

  void begin_examination(Way way) noexcept;
  void end_examination(bool is_won) noexcept;
  void advance_examination(Way way, uint64_t bytes) noexcept;
  [[nodiscard]] bool is_hopeless() const noexcept;
  void judge_round() noexcept;
  void look_at_pace(uint64_t bytes, uint64_t ns) noexcept;
  void examine_if_due() noexcept;
  [[nodiscard]] bool is_examining() const noexcept { return examined_ != in_use_; }
  void take(Way way) noexcept;

  Way way_ = Way::plain;
  Way in_use_ = Way::plain;
  Way first_ = Way::plain;
  Way examined_ = Way::plain;  // that of the way in use: none is
  Ways usable_ = Way::plain;
  uint8_t round_ = 0;
  uint8_t first_turn_ = 0;  // calls of a turn of the first round
  uint8_t calls_left_ = 0;  // of this turn
  uint8_t is_second_turn_ = 0;
  uint8_t odd_looks_ = 0;  // in a row, at which the pace had doubled or halved
  uint8_t is_changed_ = 0;
  uint8_t refusals_ = 0;  // in a row
  uint64_t calls_ = 0;
  uint64_t bytes_ = 0;
  uint64_t ns_ = 0;
  uint64_t used_since_bytes_ = 0;
  Pace compared_[2];  // of the way in use, and of the examined one
  Pace look_;
  uint32_t look_calls_ = 0;
  float usual_pace_ = 0;                            // of the way in use, ns per byte; 0: not known
  std::array<uint64_t, kWays> next_examination_{};  // as a number of calls
  uint64_t next_change_ = 0;                        // the same: from then on a change counts
  std::array<Seen, kWays> seen_{};
  std::array<float, kWays> measured_{};
  Expected expected_{};
};

static_assert(std::is_trivially_copyable_v<WayChoice> && std::is_standard_layout_v<WayChoice>);

}  // namespace ioweave::choice
