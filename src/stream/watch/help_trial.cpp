#include "stream/watch/help_trial.hpp"

#include <algorithm>

namespace ioweave::stream {
namespace {

constexpr uint64_t kFirstTrialShare = 75;  // of what is left; one stretch and a half: 2 %
constexpr uint64_t kTrialShare = 50;       // of the time
constexpr uint64_t kLeastTrialNs = 2'500'000'000;
constexpr uint64_t kMostRestNs = 60'000'000'000;
constexpr uint64_t kHelpedUnits = 8;  // a stretch with help, at least
constexpr double kLost = 1.10;        // of the pace alone
constexpr double kLostLittle = 1.03;
constexpr unsigned kLossesToRest = 2;
constexpr unsigned kLooksToTell = 6;
constexpr unsigned kLooksToRest = 16;
constexpr unsigned kLooksToRestAgain = 8;
constexpr unsigned kMovesToRest = 2;  // whoever computes long between reads waits seldom
constexpr unsigned kWaitsToTell = 4;
constexpr unsigned kWaitsAtTheEnd = 2;
constexpr uint64_t kFewWaits = 16;  // of the time
// Of the looks at a device, those that find it idle: so many at last, or early.
constexpr uint64_t kSomeTime = 6;
constexpr uint64_t kMuchTime = 2;
constexpr unsigned kLooksInDoubt = 32;  // at a reader that waits
constexpr uint64_t kFewCrowded = 8;     // of the time
constexpr uint64_t kShortRestNs = 50'000'000;
constexpr uint64_t kShortUnits = 2;  // a stretch with help that is compared with it

}  // namespace

void HelpTrial::enter(Phase phase, uint64_t now_ns) noexcept {
  account();
  phase_ = phase;
  if (phase == Phase::helping) why_ = stats::ReadHelp::helped;
  begin_ns_ = now_ns;
  way_bytes_ = 0;
  settled_ns_ = 0;
  const bool begins_to_measure = phase == Phase::alone || phase == Phase::warming;
  if (begins_to_measure) {
    looks_ = untold_ = waits_ = moves_ = 0;
    looked_ns_ = waited_ns_ = busy_ns_ = crowded_ns_ = 0;
  }
}

void HelpTrial::rest(stats::ReadHelp why, uint64_t now_ns) noexcept {
  why_ = why;
  enter(Phase::resting, now_ns);
}

void HelpTrial::account() noexcept {
  const bool helped = phase_ == Phase::helping || phase_ == Phase::draining;
  if (!helped || alone_pace_ns_ == 0 || way_bytes_ == 0) return;
  saved_ns_ +=
      alone_pace_ns_ * static_cast<double>(way_bytes_) - static_cast<double>(last_ns_ - begin_ns_);
  compared_ = true;
}

HelpTrial::Way* HelpTrial::way_of_phase() noexcept {
  switch (phase_) {
    case Phase::warming:
    case Phase::alone:
      return &without_help_;
    case Phase::helping:
      return &with_help_;
    case Phase::draining:
      return way_bytes_ <= outstanding_bytes_ ? &with_help_ : &without_help_;
    default:
      return nullptr;
  }
}

void HelpTrial::interrupt() noexcept {
  way_bytes_ = 0;
  settled_ns_ = 0;
  switch (phase_) {
    case Phase::warming:
      phase_ = Phase::fresh;
      break;
    case Phase::draining:
      phase_ = rests_next_ ? Phase::resting : Phase::helping;
      rests_next_ = false;
      break;
    default:
      break;
  }
  begin_ns_ = 0;
}

void HelpTrial::advance(const Step& step) noexcept {
  if (begin_ns_ == 0 && phase_ != Phase::fresh) {
    begin_ns_ = last_ns_ = step.now_ns;  // behind an interruption: the way up to here is unknown
    return;
  }
  way_bytes_ += step.moved_bytes;
  least_pace_bytes_ = step.least_pace_bytes;
  if (Way* const way = way_of_phase(); way != nullptr) {
    way->bytes += step.moved_bytes;
    way->ns += step.now_ns - last_ns_;
  }
  last_ns_ = step.now_ns;
  switch (phase_) {
    case Phase::fresh:
      is_short_ = step.left_bytes < kFirstTrialShare * step.unit_bytes;
      if (is_short_ && step.surely_waits) {
        next_trial_ns_ = UINT64_MAX;
        enter(Phase::helping, step.now_ns);
        return;
      }
      phase_ = Phase::warming;
      begin_ns_ = step.now_ns;
      is_ramping_ = true;
      [[fallthrough]];
    case Phase::warming:
      ++moves_;
      is_ramping_ = is_ramping_ && way_bytes_ < step.ramp_bytes;
      if (!is_ramping_ && settled_ns_ == 0) settle(step.now_ns);
      if (!is_short_ && way_bytes_ >= step.unit_bytes / 2) enter(Phase::alone, step.now_ns);
      return;
    case Phase::alone:
      if (way_bytes_ < step.unit_bytes) return;
      alone_pace_ns_ =
          static_cast<double>(step.now_ns - begin_ns_) / static_cast<double>(way_bytes_);
      judged_ = false;
      next_trial_ns_ =
          step.now_ns + std::max(kLeastTrialNs, kTrialShare * (step.now_ns - begin_ns_));
      if (looks_ >= kLooksToTell && !waits_much()) {
        rest_ns_ = std::clamp(2 * rest_ns_, kLeastTrialNs, kMostRestNs);
        rest(stats::ReadHelp::hardly_waits, step.now_ns);
        return;
      }
      enter(Phase::helping, step.now_ns);
      return;
    case Phase::helping:
      if (is_short_) {
        judge_short(step);
      } else {
        judge(step);
      }
      return;
    case Phase::draining:
      if (way_bytes_ < drain_bytes_) return;
      enter(rests_next_ ? Phase::resting : Phase::alone, step.now_ns);
      rests_next_ = false;
      return;
    case Phase::resting:
      if (step.now_ns < begin_ns_ + rest_ns_) return;
      enter(is_short_ ? Phase::warming : Phase::alone, step.now_ns);
      return;
  }
}

bool HelpTrial::waits_much() const noexcept {
  return waited_ns_ * kFewWaits > looked_ns_;
}

bool HelpTrial::device_has_time() const noexcept {
  const uint64_t share = looks_ >= kLooksInDoubt ? kSomeTime : kMuchTime;
  return (looked_ns_ - busy_ns_) * share > looked_ns_;
}

/// Returns true if the program mostly leaves a processor idle, a part of which help takes.
bool HelpTrial::processors_have_time() const noexcept {
  return crowded_ns_ * kFewCrowded <= looked_ns_;
}

void HelpTrial::note_look(const Look& look, uint64_t now_ns) noexcept {
  if (!wants_looks()) return;
  // Looks are not equally far apart, so each stands for the time since the one before.
  const uint64_t passed_ns = looks_ == 0 ? 1 : std::max<uint64_t>(1, now_ns - looked_at_ns_);
  looked_at_ns_ = now_ns;
  ++looks_;
  looked_ns_ += passed_ns;
  if (look.device_is_busy) busy_ns_ += passed_ns;
  if (look.is_crowded) crowded_ns_ += passed_ns;
  if (look.waits) {
    ++waits_;
    waited_ns_ += passed_ns;
  }
  if (!is_short_ || phase_ != Phase::warming) return;
  const bool is_over = is_looked_at_enough();
  const bool waits = waits_ >= (is_over ? kWaitsAtTheEnd : kWaitsToTell) && waits_much();
  if (waits && device_has_time() && processors_have_time()) {
    const uint64_t way = settled_way();
    const auto took = static_cast<double>(last_ns_ - settled_ns_);
    short_pace_ns_ = way >= least_pace_bytes_ ? took / static_cast<double>(way) : 0;
    enter(Phase::helping, last_ns_);
    next_trial_ns_ = UINT64_MAX;
  } else if (is_over && (!waits || looks_ >= kLooksInDoubt)) {
    rest_ns_ = std::clamp(2 * rest_ns_, kShortRestNs, kMostRestNs);
    rest(why_not(), last_ns_);
  }
}

bool HelpTrial::is_looked_at_enough() const noexcept {
  return moves_ >= kMovesToRest && looks_ >= (rest_ns_ == 0 ? kLooksToRest : kLooksToRestAgain);
}

/// Returns why looks at a short file's reader do not decide for help.
stats::ReadHelp HelpTrial::why_not() const noexcept {
  if (2 * untold_ > looks_) return stats::ReadHelp::not_told;
  if (waits_ < kWaitsAtTheEnd || !waits_much()) return stats::ReadHelp::hardly_waits;
  return device_has_time() ? stats::ReadHelp::no_processor : stats::ReadHelp::device_busy;
}

stats::ReadHelp HelpTrial::why() const noexcept {
  const bool is_looked_at = is_short_ && phase_ == Phase::warming && is_looked_at_enough();
  return is_looked_at ? why_not() : why_;
}

stats::Paces HelpTrial::paces() const noexcept {
  const double alone_ns = alone_pace_ns_ > 0 ? alone_pace_ns_ : short_pace_ns_;
  double helped_ns = helped_pace_ns_;
  if (helped_ns == 0 && with_help_.bytes > 0) {
    helped_ns = static_cast<double>(with_help_.ns) / static_cast<double>(with_help_.bytes);
  }
  return {stats::Paces::mb_per_s(alone_ns), stats::Paces::mb_per_s(helped_ns)};
}

void HelpTrial::note_nothing(uint64_t now_ns) noexcept {
  if (!is_short_) return;
  if (wants_looks()) ++untold_;
  note_look({}, now_ns);
}

void HelpTrial::settle(uint64_t now_ns) noexcept {
  settled_ns_ = now_ns;
  settled_bytes_ = way_bytes_;
}

uint64_t HelpTrial::settled_way() const noexcept {
  return settled_ns_ != 0 ? way_bytes_ - settled_bytes_ : 0;
}

/// Judges help for a short file. A short stretch shows little, so help ends only after two in a row
/// that are much slower than the reader was while it was looked at.
void HelpTrial::judge_short(const Step& step) noexcept {
  if (short_pace_ns_ == 0) return;
  if (settled_ns_ == 0) {
    if (way_bytes_ >= step.unit_bytes) settle(step.now_ns);
    return;
  }
  const uint64_t way = settled_way();
  if (way < kShortUnits * step.unit_bytes) return;
  const auto took = static_cast<double>(step.now_ns - settled_ns_);
  settle(step.now_ns);
  helped_pace_ns_ = took / static_cast<double>(way);
  losses_ = took > kLost * short_pace_ns_ * static_cast<double>(way) ? losses_ + 1 : 0;
  if (losses_ < kLossesToRest) return;
  losses_ = 0;
  rest_ns_ = std::clamp(2 * rest_ns_, kLeastTrialNs, kMostRestNs);
  rest(stats::ReadHelp::slower, step.now_ns);
}

void HelpTrial::judge(const Step& step) noexcept {
  outstanding_bytes_ = step.outstanding_bytes;
  drain_bytes_ = step.outstanding_bytes + step.unit_bytes / 2;
  // Until the look-ahead has filled up, the reader waits once for more than it will later.
  if (settled_ns_ == 0 && way_bytes_ >= step.lookahead_bytes) settle(step.now_ns);
  const uint64_t way = settled_way();
  if (!judged_ && way >= std::max(kHelpedUnits * step.unit_bytes, step.lookahead_bytes)) {
    judged_ = true;
    const auto took = static_cast<double>(step.now_ns - settled_ns_);
    const double ratio = took / (alone_pace_ns_ * static_cast<double>(way));
    helped_pace_ns_ = took / static_cast<double>(way);
    losses_ = ratio > kLostLittle ? losses_ + 1 : 0;
    if (ratio > kLost || losses_ >= kLossesToRest) {
      losses_ = 0;
      const auto lost_ns = static_cast<uint64_t>(took - took / ratio);
      rest_ns_ =
          std::clamp(std::max(2 * rest_ns_, kTrialShare * lost_ns), kLeastTrialNs, kMostRestNs);
      rests_next_ = true;
      why_ = stats::ReadHelp::slower;
      enter(Phase::draining, step.now_ns);
      return;
    }
    if (losses_ == 0) rest_ns_ = 0;
  }
  if (judged_ && step.now_ns >= next_trial_ns_ &&
      step.left_bytes >= kFirstTrialShare * step.unit_bytes) {
    enter(Phase::draining, step.now_ns);
  }
}

std::optional<double> HelpTrial::saved_seconds() const noexcept {
  HelpTrial ended = *this;
  ended.account();
  if (!ended.compared_) return std::nullopt;
  return ended.saved_ns_ * 1e-9;
}

double HelpTrial::trial_seconds() const noexcept {
  if (!saved_seconds() || with_help_.bytes == 0) return 0;
  const double helped_pace_ns =
      static_cast<double>(with_help_.ns) / static_cast<double>(with_help_.bytes);
  const double with_help_ns = helped_pace_ns * static_cast<double>(without_help_.bytes);
  return std::max(0.0, static_cast<double>(without_help_.ns) - with_help_ns) * 1e-9;
}

}  // namespace ioweave::stream
