#include "choice/way_choice.hpp"

#include <algorithm>

namespace ioweave::choice {
namespace {

constexpr uint64_t kFirstExaminationNs = 25'000'000;
constexpr uint64_t kFirstExamination = 64;  // and so many calls
constexpr uint64_t kGrowth = 8;
constexpr uint64_t kTurnNs = 1'000'000;  // of the first turns
constexpr uint64_t kFewestCalls = 2;     // of a turn
constexpr uint64_t kMostCalls = 16;      // of the first turns
constexpr uint8_t kRounds = 3;
constexpr double kMuchSlower = 1.5;
constexpr double kHopeless = 2;
constexpr double kFaster = 0.9;
constexpr uint32_t kLookCalls = 64;
constexpr double kChanged = 2;
constexpr uint8_t kOddLooks = 2;
/// Less is not worth taking a way that nobody has tried yet.
constexpr float kWorthTaking = 1.15F;
/// A way that is expected to be slower than that is examined as if it had lost already.
constexpr float kSlower = 0.97F;

}  // namespace

WayChoice::WayChoice(Ways usable, const Expected& expected) noexcept
    : usable_(usable), expected_(expected) {
  float best = kWorthTaking;
  for (size_t i = 0; i < kWays; ++i) {
    const auto way = static_cast<Way>(i);
    next_examination_[i] = kFirstExamination;
    if (!usable_.has(way)) continue;
    if (way != Way::plain && expected[i] > 0 && expected[i] < kSlower) {
      next_examination_[i] *= kGrowth;
    }
    if (expected[i] >= best) {
      best = expected[i];
      first_ = way;
    }
  }
  way_ = in_use_ = examined_ = first_;
}

void WayChoice::note(Way way, uint64_t bytes, uint64_t ns) noexcept {
  Seen& seen = seen_[index(way)];
  if (way == way_ && bytes > 0) refusals_ = 0;
  const bool is_first = seen.calls == 0 && bytes > 0;
  seen.calls += bytes > 0 ? 1 : 0;
  seen.bytes += bytes;
  seen.ns += ns;
  calls_ += bytes > 0 ? 1 : 0;
  bytes_ += bytes;
  ns_ += ns;
  if (is_first) return;  // it may have opened something
  if (is_examining()) {
    if (way == in_use_ || way == examined_) {
      Pace& pace = compared_[way == examined_ ? 1 : 0];
      pace.bytes += bytes;
      pace.ns += ns;
    }
    if (is_hopeless()) {
      end_examination(false);
    } else {
      advance_examination(way, bytes);
    }
    return;
  }
  if (way == in_use_) look_at_pace(bytes, ns);
  examine_if_due();
}

void WayChoice::note_refusal(Way way, uint64_t ns) noexcept {
  constexpr uint32_t kMostRefusals = 64;
  constexpr uint8_t kMostInARow = 4;
  Seen& seen = seen_[index(way)];
  ++seen.refused;
  seen.ns += ns;
  ns_ += ns;
  if (++refusals_ < kMostInARow) return;
  refusals_ = 0;
  if (is_examining() && way == examined_) {
    end_examination(false);
  } else if (way == in_use_ && way != Way::plain) {
    if (is_examining()) end_examination(false);
    take(Way::plain);
    next_examination_[index(way)] = std::max(calls_ * kGrowth, kFirstExamination);
  }
  if (seen.refused >= kMostRefusals && seen.calls == 0) rule_out(way);
}

void WayChoice::rule_out(Way way) noexcept {
  if (way == Way::plain) return;
  usable_.remove(way);
  if (is_examining() && (way == examined_ || way == in_use_)) end_examination(false);
  if (way == in_use_) take(Way::plain);
}

Expected WayChoice::learned() const noexcept {
  Expected learned{};
  const float plain = in_use_ == Way::plain ? 1 : measured_[index(Way::plain)];
  if (plain <= 0) return expected_;
  for (size_t i = 0; i < kWays; ++i) {
    const bool is_in_use = static_cast<Way>(i) == in_use_;
    learned[i] =
        measured_[i] > 0 || is_in_use ? (is_in_use ? 1 : measured_[i]) / plain : expected_[i];
  }
  return learned;
}

// ---- Examinations -------------------------------------------------------------------------------

void WayChoice::take(Way way) noexcept {
  in_use_ = examined_ = way_ = way;
  used_since_bytes_ = bytes_;
  usual_pace_ = 0;
  look_ = {};
  look_calls_ = 0;
  odd_looks_ = 0;
}

void WayChoice::begin_examination(Way way) noexcept {
  examined_ = way;
  ++seen_[index(way)].examined;
  compared_[0] = compared_[1] = {};
  round_ = 0;
  is_second_turn_ = 0;
  const uint64_t calls = calls_ * kTurnNs / std::max<uint64_t>(ns_, 1);
  first_turn_ = static_cast<uint8_t>(std::clamp(calls, kFewestCalls, kMostCalls));
  calls_left_ = first_turn_;
  // What a way makes the program wait for later shows in the next turn: so plain comes second.
  way_ = std::max(in_use_, examined_);
}

void WayChoice::advance_examination(Way way, uint64_t bytes) noexcept {
  if (way != way_ || bytes == 0 || --calls_left_ > 0) return;
  if (is_second_turn_ != 0) {
    judge_round();
    return;
  }
  is_second_turn_ = 1;
  calls_left_ = static_cast<uint8_t>(first_turn_ << round_);
  way_ = std::min(in_use_, examined_);
}

/// Whether the examined way has taken so long in the first turn that waiting for its end would lose
/// more than it could tell.
bool WayChoice::is_hopeless() const noexcept {
  const Seen& usual = seen_[index(in_use_)];
  if (round_ > 0 || usual.bytes == 0) return false;
  const double pace = usual_pace_ > 0
                          ? static_cast<double>(usual_pace_)
                          : static_cast<double>(usual.ns) / static_cast<double>(usual.bytes);
  const double turn_bytes =
      static_cast<double>(bytes_) / static_cast<double>(calls_) * static_cast<double>(first_turn_);
  const double turn_ns = pace * turn_bytes;
  return static_cast<double>(compared_[1].ns) > kHopeless * turn_ns;
}

void WayChoice::judge_round() noexcept {
  const double usual = compared_[0].ns_per_byte();
  const double other = compared_[1].ns_per_byte();
  if (other > 0) measured_[index(examined_)] = static_cast<float>(usual / other);
  const bool is_given_up = other > kMuchSlower * usual;
  const bool is_clear = round_ > 0 && other * kMuchSlower < usual;
  if (is_given_up || is_clear || ++round_ == kRounds) {
    end_examination(!is_given_up && other < kFaster * usual);
    return;
  }
  is_second_turn_ = 0;
  calls_left_ = static_cast<uint8_t>(first_turn_ << round_);
  way_ = std::max(in_use_, examined_);
}

void WayChoice::end_examination(bool is_won) noexcept {
  const Way examined = examined_;
  const Way before = in_use_;
  is_changed_ = 0;
  const uint64_t next = std::max(calls_ * kGrowth, kFirstExamination);
  next_examination_[index(examined)] = next;
  if (!is_won) {
    way_ = examined_ = in_use_;
    look_ = {};
    look_calls_ = 0;
    return;
  }
  measured_[index(before)] = 1 / measured_[index(examined)];
  next_examination_[index(before)] = next;
  take(examined);
}

void WayChoice::look_at_pace(uint64_t bytes, uint64_t ns) noexcept {
  look_.bytes += bytes;
  look_.ns += ns;
  look_calls_ += bytes > 0 ? 1 : 0;
  if (look_calls_ < kLookCalls) return;
  const double pace = look_.ns_per_byte();
  look_ = {};
  look_calls_ = 0;
  if (usual_pace_ <= 0) {
    usual_pace_ = static_cast<float>(pace);
    return;
  }
  const double ratio = pace / static_cast<double>(usual_pace_);
  odd_looks_ = ratio > kChanged || ratio < 1 / kChanged ? static_cast<uint8_t>(odd_looks_ + 1) : 0;
  if (odd_looks_ >= kOddLooks) {
    odd_looks_ = 0;
    usual_pace_ = static_cast<float>(pace);
    // The pace of writes that are held back is uneven by itself.
    is_changed_ = calls_ >= next_change_ ? 1 : 0;
    next_change_ = std::max(next_change_, 2 * calls_);
  }
}

void WayChoice::examine_if_due() noexcept {
  if (ns_ < kFirstExaminationNs) return;
  for (size_t i = 0; i < kWays; ++i) {
    const auto way = static_cast<Way>(i);
    const bool is_due = calls_ >= next_examination_[i] || is_changed_ != 0;
    if (way != in_use_ && usable_.has(way) && calls_ >= kFirstExamination && is_due) {
      begin_examination(way);
      return;
    }
  }
  is_changed_ = 0;
}

}  // namespace ioweave::choice
