#include "policy/climb.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "policy/number_text.hpp"

namespace ioweave::policy {
namespace {

// Gains are logarithms: 0.02 is about 2 %. How sure: in deviations of a gain.
constexpr double kFewer = 0.02;  ///< so much less is given for fewer operations at once
constexpr double kWorth = 0.015;
constexpr double kToMove = 0.7;
constexpr double kToTry = 1;
constexpr double kToTryBeyond = 0.3;  ///< everything tried
constexpr double kToGoOn = 0.6;
constexpr double kLinear = 0.26;  ///< of a step, nearly; quite linear would be 0.35
constexpr double kSteep = 0.2;
constexpr double kGentle = 0.05;  ///< half a step follows

constexpr uint32_t kMostOfTrial = 8;
constexpr uint32_t kFirstPause = 10;
constexpr uint32_t kLongestPause = 40;
constexpr uint32_t kToRefuse = 2;  ///< samples in a row, where another one costs little
/// Of the throughput, for looks: a trial that cost as much as half a sample is paid for in 67.
constexpr double kPrice = 0.0075;
constexpr double kMostOwed = 200;

constexpr double kFarOff = 3;
constexpr double kExpected = 1;
constexpr double kChanged = 6;  ///< three far off in a row, or ten by 1.6 deviations

constexpr double kWhole_s = 0.95;  ///< a sample
constexpr double kMostQuarters = 16;
constexpr double kSure = 0.1;   ///< of quarters, the deviation of their mean
constexpr double kSurely = 2;   ///< deviations of parts of a second
constexpr double kPart = 0.16;  ///< the deviation of a part at first
constexpr uint32_t kFirstPairs = 3;
constexpr uint32_t kMostPairs = 20;
constexpr double kNothing = 1;  ///< one in which nothing moved differs by so much

constexpr double kTheirs = 0.05;       ///< of what operations say, the least that they moved
constexpr double kBytesOfOne = 1e6;    ///< that says none
constexpr double kRemembered_s = 100;  ///< of both

/// Of the limit, for a sample to be one of it: operations take a while to start on a cluster.
constexpr double kFilled = 0.8;

/// The deviation of a uniform distribution: where in a sample its number of operations changed.
constexpr double kOfRange = 0.3;

constexpr size_t kHeardKept = 256;

uint32_t most_limit(const DeviceConfig& device) {
  const int64_t bytes = device.budget_mb_per_s == 0 ? Climber::kMostAtOnce
                                                    : budget_bytes_per_s(device.budget_mb_per_s);
  const int64_t most = std::min<int64_t>(bytes, most_at_once(device.max_in_flight));
  return static_cast<uint32_t>(std::min<int64_t>(most, Climber::kMostAtOnce));
}

/// More operations at once than an earlier run's word is taken for.
constexpr uint32_t kOnTrust = 8;
constexpr double kAsBefore = 0.2;    ///< the logarithm differs by less
constexpr double kKnownWell = 0.15;  ///< the deviation of what is told of another number

}  // namespace

Climber::Climber(const DeviceConfig& device)
    : most_(most_limit(device)),
      part_variance_(kPart * kPart),
      part_pairs_(kFirstPairs),
      curve_(most_),
      base_(curve_.nearest(std::clamp(device.begins_at, 1u, most_))),
      tried_(base_),
      opening_(curve_.limit_at(base_), most_) {
  limit_ = opening_.limit();
}

// ---- Samples -----------------------------------------------------------------------------------

void Climber::sample(const Sample& sample, const Climbing& operations, uint64_t now_ns) {
  const uint32_t limit = limit_;
  const double bytes = sample.bytes_per_second * sample.seconds;
  if (const Unit unit = weigh(bytes, operations, now_ns); unit != unit_) {
    count_in(unit);
  }
  const Begun begun = begin_of(sample, operations.running, now_ns);
  std::string why(no_use(operations, begun));
  double mb_per_s = sample.bytes_per_second / kBytesPerMb;
  bool heard = false;
  if (why.empty()) {
    add(sample, operations, begun);
    mb_per_s = sum_.mb / sum_.seconds;
    const double throughput = in_unit(sum_.mb, sum_.ended) / sum_.seconds;
    const Ran many = ran();
    const bool whole = is_whole(sample, now_ns);
    heard = whole ? throughput > 0 : is_steep(many, throughput);
    if (heard && opening_.searching()) {
      end_opening();
    }
    if (heard) {
      why = hear(many, throughput, now_ns);
      sum_ = {};
    } else if (whole) {
      why = "nothing moved: counts with the next";
    }
  }
  if (!why.empty()) {
    remember({now_ns, limit, mb_per_s, heard, std::move(why)});
  }
  nodes_[sample.node] = {.since_ns = now_ns, .running = std::max(operations.running, limit_)};
}

void Climber::remember(Explanation::Heard&& heard) {
  if (heard_.size() == kHeardKept) {
    heard_.erase(heard_.begin() + kHeardKept / 2);  // How it began is kept.
  }
  heard_.push_back(std::move(heard));
  ++heard_of_all_;
}

/// How many ran at a beginning that nobody saw is known only where the limit is still the same.
Climber::Begun Climber::begin_of(const Sample& sample, uint32_t running, uint64_t now_ns) const {
  if (const auto found = nodes_.find(sample.node); found != nodes_.end()) {
    return found->second;
  }
  const auto length_ns = static_cast<uint64_t>(sample.seconds * 1e9);
  const uint64_t since_ns = now_ns - std::min(now_ns, length_ns);
  return {since_ns, since_ns < changed_ns_ ? 0 : std::max(running, limit_)};
}

/// Why a sample cannot be used; nothing where it can.
std::string_view Climber::no_use(const Climbing& operations, const Begun& begun) const {
  if (!operations.limit_reached) {
    return "not used: the limit was not reached";
  }
  if (operations.at_once < kFilled * limit_) {
    return "not used: fewer than the limit ran";
  }
  if (begun.since_ns < changed_ns_ && begun.running < limit_) {
    return "not used: the limit changed meanwhile";
  }
  return {};
}

void Climber::add(const Sample& sample, const Climbing& operations, const Begun& begun) {
  const double mb = sample.bytes_per_second / kBytesPerMb * sample.seconds;
  // What began as the limit changed is of this one.
  const uint32_t least = begun.since_ns < changed_ns_ ? 0 : limit_;
  const auto [fewest, most] =
      std::minmax(std::max(begun.running, least), std::max(operations.running, limit_));
  if (sum_.seconds == 0) {
    sum_.since_ns = begun.since_ns;
    sum_.fewest = fewest;
  }
  sum_.fewest = std::min(sum_.fewest, fewest);
  sum_.most = std::max(sum_.most, most);
  sum_.seconds += sample.seconds;
  sum_.mb += mb;
  sum_.ended += operations.ended;
  if (sample.seconds < kWhole_s) {
    hear_part(in_unit(mb, operations.ended) / sample.seconds);
  }
}

/// A second; or a quarter of each node, where that is sure enough.
bool Climber::is_whole(const Sample& sample, uint64_t now_ns) const {
  if (sample.seconds >= kWhole_s) {
    return true;
  }
  const double since_s = static_cast<double>(now_ns - sum_.since_ns) / 1e9;
  const double quarters = std::clamp(static_cast<double>(nodes_.size()), 4.0, kMostQuarters);
  const bool of_all = sum_.seconds >= kWhole_s * quarters / 4;
  const bool sure = part_variance_ <= kSure * kSure * sum_.parts;
  return sum_.seconds >= kWhole_s && (since_s >= kWhole_s || (of_all && sure));
}

/// How much parts of a second differ that follow each other under one limit.
void Climber::hear_part(double throughput) {
  if (sum_.parts > 0) {
    const bool moved = sum_.last > 0 && throughput > 0;
    const double off = moved ? std::log(throughput / sum_.last) : kNothing;
    part_pairs_ = std::min(part_pairs_ + 1, kMostPairs);
    part_variance_ += (off * off / 2 - part_variance_) / part_pairs_;
  }
  ++sum_.parts;
  sum_.last = throughput;
}

/// The deviation of the mean of parts, as far as the curve's noise does not cover it.
double Climber::beyond_noise() const {
  const double of_mean = sum_.parts == 0 ? 0 : part_variance_ / sum_.parts;
  return std::sqrt(std::max(0.0, of_mean - curve_.noise_variance() / sum_.at_least_one_s()));
}

/// A part of a second in which the step up has surely paid, and not by more than a step can.
bool Climber::is_steep(const Ran& ran, double throughput) const {
  const bool of_all = sum_.parts >= nodes_.size();
  if (!known_ || way_ != Way::up || looks_ || throughput <= 0 || !of_all) {
    return false;
  }
  const double octaves = std::log2(ran.at_once / curve_.limit_at(base_));
  const double gain = std::log(throughput / curve_.mb_per_s(base_));
  const double unsure = kSurely * std::sqrt(part_variance_ / sum_.parts);
  constexpr double kSteps = 2;  // of an octave
  return gain - unsure >= kSteep * kSteps * octaves && gain <= std::log(2) * octaves + unsure;
}

/// Whether the device moves what operations say that they did. By sums over long, since many may
/// end at once that moved their bytes before, and caches are written back now and then.
Climber::Unit Climber::weigh(double bytes, const Climbing& operations, uint64_t now_ns) {
  const double since_s = static_cast<double>(now_ns - weighed_ns_) / 1e9;
  const double kept = std::exp(-since_s / kRemembered_s);
  weighed_ns_ = now_ns;
  const double said = operations.ended_bytes > 0 ? static_cast<double>(operations.ended_bytes)
                                                 : kBytesOfOne * operations.ended;
  moved_ = kept * moved_ + bytes;
  said_ = kept * said_ + said;
  return moved_ < kTheirs * said_ ? Unit::operations : Unit::bytes;
}

/// What was known is of the other unit; the search goes on from the limit.
void Climber::count_in(Unit unit) {
  unit_ = unit;
  curve_ = CurveEstimate(most_);
  known_ = false;
  promised_.reset();
  slower_ = faster_ = 0;
  search_anew(curve_.nearest(limit_));
  part_variance_ = kPart * kPart;
  part_pairs_ = kFirstPairs;
}

/// How many operations ran at once, on average.
Climber::Ran Climber::ran() const {
  const double fewest = sum_.fewest;
  const double most = sum_.most;
  return {0.5 * (fewest + most), std::hypot(kOfRange * std::log(most / fewest), beyond_noise())};
}

std::string Climber::hear(const Ran& ran, double throughput, uint64_t now_ns) {
  const double at_once = ran.at_once;
  const double seconds = sum_.at_least_one_s();
  if (!known_ && promised_ &&
      std::abs(std::log(throughput / promised_->mb_per_s(at_once))) < kAsBefore) {
    passed_ns_ = now_ns;
    begin_at(*promised_);
    set_limit(curve_.limit_at(base_), now_ns);
    return "as an earlier run had it: goes on from what that found";
  }
  if (!known_ && shape_) {
    begin_with_shape(*shape_, at_once, throughput);
    shape_.reset();
  }
  if (known_) {
    // What an earlier run learned is as good as new at the first sample, whatever the clock says.
    const uint64_t since_ns = passed_ns_ == 0 ? now_ns : passed_ns_;
    curve_.pass(static_cast<double>(now_ns - since_ns) / 1e9, base_);
    const double surprise = curve_.surprise(at_once, throughput, ran.unsure, seconds);
    if (has_changed(surprise)) {
      curve_.changed(curve_.nearest(at_once), throughput);
      search_anew(curve_.nearest(at_once));
      last_way_ = surprise > 0 ? Way::down : Way::up;
    } else if (std::abs(surprise) > kFarOff) {
      curve_.hear_noise(at_once, throughput, seconds);
      passed_ns_ = now_ns;
      return "far from what was expected: waits for another";
    }
  }
  passed_ns_ = now_ns;
  known_ = true;
  curve_.sample(at_once, throughput, ran.unsure, seconds);
  if (const uint32_t found = best(); found != base_) {
    search_from(found);
  }
  pay(at_once);
  return decide(at_once, now_ns);
}

// ---- The opening -------------------------------------------------------------------------------

bool Climber::ended(const Opening::End& end) {
  const std::optional<Opening::Step> step = opening_.ended(end);
  if (!step) {
    return false;
  }
  std::string why = std::to_string(step->limit) +
                    " at once: " + number_text(std::round(10 * step->per_s) / 10) + " operations/s";
  sum_ = {};
  const uint32_t before = limit_;
  if (opening_.searching()) {
    set_limit(opening_.limit(), end.now_ns);
    why += "; tries " + std::to_string(limit_);
  } else {
    set_limit(opening_.limit(), end.now_ns);
    end_opening();
    why += "; best " + std::to_string(limit_);
  }
  remember({end.now_ns, step->limit, step->mb_per_s, true, std::move(why)});
  return limit_ != before;
}

/// The search goes on by samples, from the limit. What an earlier run learned stands where the
/// opening came out there.
void Climber::end_opening() {
  const std::vector<Opening::Step>& steps = opening_.steps();
  const bool found = !opening_.searching();
  opening_.stop();
  const uint32_t at = curve_.nearest(limit_);
  if (known_ && std::max(at, base_) - std::min(at, base_) <= 1) {
    return;
  }
  search_anew(at);
  known_ = false;
  if (!found) {
    return;
  }
  std::vector<LearnedCurve::Point> points;
  points.reserve(steps.size());
  for (const Opening::Step& step : steps) {
    // What moved no bytes says nothing of the others, which are compared by them.
    if (const double worth = opening_.worth(step); worth > 0) points.push_back({step.limit, worth});
  }
  const auto best = std::ranges::find(points, limit_, &LearnedCurve::Point::at_once);
  if (points.size() > 1 && best != points.end()) {
    shape_ = LearnedCurve(*best, points);
  }
}

/// What the opening heard of other limits, made as high as the first sample.
void Climber::begin_with_shape(const LearnedCurve& shape, double at_once, double throughput) {
  const double times = throughput / shape.mb_per_s(at_once);
  const auto higher = [times](const LearnedCurve::Point& point) {
    return LearnedCurve::Point{point.at_once, times * point.mb_per_s};
  };
  std::vector<LearnedCurve::Point> points;
  points.reserve(shape.all().size());
  std::ranges::transform(shape.all(), std::back_inserter(points), higher);
  begin_at(LearnedCurve(higher(shape.best()), points));
}

/// Page's cumulative sum, both ways.
bool Climber::has_changed(double surprise) {
  const double by = std::clamp(surprise, -kFarOff, kFarOff);
  slower_ = std::max(0.0, slower_ - by - kExpected);
  faster_ = std::max(0.0, faster_ + by - kExpected);
  if (std::max(slower_, faster_) < kChanged) {
    return false;
  }
  slower_ = faster_ = 0;
  return true;
}

// ---- Decisions ---------------------------------------------------------------------------------

/// Another base: what was refused around the last one says nothing. A trial goes on from here.
void Climber::search_from(uint32_t base) {
  base_ = base;
  of_trial_ = doubts_ = refused_ = pause_ = wait_ = 0;
  looks_ = false;
}

/// The same, where nothing above it has been tried.
void Climber::search_anew(uint32_t base) {
  search_from(base);
  tried_ = base;
  way_ = Way::none;
}

/// The fewest operations that are as good as the best, as far as that is sure.
uint32_t Climber::best() const {
  uint32_t best = base_;
  double most = 0;
  for (uint32_t point = 0; point <= tried_; ++point) {
    const double gain = curve_.gain(base_, point) - kToMove * curve_.unsure(base_, point);
    if (gain > most) {
      best = point;
      most = gain;
    }
  }
  for (uint32_t point = 0; point < best; ++point) {
    if (curve_.gain(point, best) + kToMove * curve_.unsure(point, best) < kFewer) {
      return point;
    }
  }
  return best;
}

/// What a trial, or what it left behind, cost in the sample, and what the sample pays back.
void Climber::pay(double at_once) {
  const double lost = std::max(0.0, curve_.gain_between(at_once, curve_.limit_at(base_)));
  const double most = kMostOwed * static_cast<double>(nodes_.size());
  owed_ = std::clamp(owed_ + lost / kPrice - 1, 0.0, most);
}

/// After a sample of so many. On the way down, one of hardly fewer than the base says nothing yet.
std::string Climber::decide(double at_once, uint64_t now_ns) {
  if (way_ != Way::none) {
    constexpr double kRounding = 0.5;
    const bool there = at_once <= limit_ + kRounding;
    const bool scans = way_ == Way::down && !there;
    of_trial_ += there ? 1 : 0;
    doubts_ = worth(way_) >= kWorth                       ? 0
              : scans && curve_.nearest(at_once) == base_ ? doubts_
                                                          : doubts_ + 1;
    const bool refused = doubts_ >= (looks_ || scans ? kToRefuse : 1);
    if (refused || of_trial_ == kMostOfTrial) {
      end_trial(refused);
    }
  } else if (wait_ > 0) {
    --wait_;
  }
  if (way_ == Way::none && wait_ == 0) {
    const Way other = last_way_ == Way::up ? Way::down : Way::up;
    way_ = worth(other) >= kWorth ? other : worth(last_way_) >= kWorth ? last_way_ : Way::none;
  }
  if (way_ == Way::none && owed_ <= 0 && next(base_, Way::up) != base_) {
    way_ = Way::up;
    looks_ = true;
  }
  set_limit(way_ == Way::none ? curve_.limit_at(base_) : trial_limit(), now_ns);
  return explain();
}

void Climber::end_trial(bool refused) {
  last_way_ = way_;
  way_ = Way::none;
  looks_ = false;
  owed_ = std::max(owed_, static_cast<double>(kFirstPause * nodes_.size()));
  ++refused_;
  if (refused_ >= 2) {
    pause_ = pause_ == 0 ? kFirstPause : std::min(2 * pause_, kLongestPause);
    wait_ = pause_ * static_cast<uint32_t>(nodes_.size());
  } else {
    wait_ = refused ? 1 : of_trial_;  // Undecided: the base is what is not known well enough.
  }
  of_trial_ = doubts_ = 0;
}

/// The next point with another limit; this one where there is none.
uint32_t Climber::next(uint32_t point, Way way) const noexcept {
  uint32_t at = point;
  while (curve_.limit_at(at) == curve_.limit_at(point)) {
    if (way == Way::up ? at + 1 == curve_.points() : at == 0) {
      return point;
    }
    at = way == Way::up ? at + 1 : at - 1;
  }
  return at;
}

/// What a step this way may gain.
double Climber::worth(Way way) const {
  const uint32_t to = next(base_, way);
  if (to == base_) {
    return -1;
  }
  const double trust = way == way_ && of_trial_ > 0 ? kToGoOn : kToTry;
  const double hoped = curve_.gain(base_, to) + trust * curve_.unsure(base_, to);
  if (way == Way::down) {
    return hoped + kFewer;
  }
  const uint32_t before = next(base_, Way::down);
  if (to <= tried_ || before == base_) {
    return hoped;
  }
  // Curves bend down.
  const double last = curve_.gain(before, base_) + kToTryBeyond * curve_.unsure(before, base_);
  return std::min(hoped, last);
}

/// The limit of the trial under way.
uint32_t Climber::trial_limit() {
  const uint32_t before = next(base_, Way::down);
  uint32_t to = next(base_, way_);
  const double slope = way_ == Way::down
                           ? curve_.gain(base_, to)
                           : curve_.gain(before, base_) - curve_.unsure(before, base_);
  const bool leaps = way_ == Way::up && curve_.limit_at(base_) <= Opening::kMostLeaping;
  const int most = leaps && slope >= kLinear ? 3 : slope >= kSteep ? 1 : 0;
  for (int further = 0; further < most; ++further) {
    const uint32_t beyond = next(to, way_);
    if (curve_.gain(to, beyond) + kToTry * curve_.unsure(to, beyond) < kWorth) {
      break;
    }
    to = beyond;
  }
  tried_ = std::max(tried_, to);
  const uint32_t limit = curve_.limit_at(to);
  if (way_ == Way::up && (looks_ || (slope < kGentle && pause_ == 0))) {
    const double half = std::sqrt(static_cast<double>(limit) * curve_.limit_at(base_));
    return std::max(curve_.limit_at(base_) + 1, static_cast<uint32_t>(std::ceil(half)));
  }
  return limit;
}

void Climber::set_limit(uint32_t limit, uint64_t now_ns) {
  if (limit != limit_) {
    changed_ns_ = now_ns;
    limit_ = limit;
  }
}

// ---- Memory ------------------------------------------------------------------------------------

/// "best 45: 361 MB/s; tries 54: 358 +- 6 % expected".
std::string Climber::explain() const {
  const auto whole = [](double value) { return std::to_string(std::lround(value)); };
  std::string text = "best " + std::to_string(curve_.limit_at(base_)) + ": " +
                     number_text(std::round(10 * curve_.mb_per_s(base_)) / 10) +
                     (unit_ == Unit::operations ? " operations/s" : " MB/s");
  if (way_ == Way::none) {
    return text;
  }
  const uint32_t to = curve_.nearest(limit_);
  return text + "; tries " + std::to_string(limit_) + ": " +
         number_text(std::round(10 * curve_.mb_per_s(to)) / 10) + " +- " +
         whole(100 * curve_.unsure(base_, to)) + " % expected";
}

void Climber::begin_with(std::string_view text) {
  const std::optional<LearnedCurve> learned = LearnedCurve::read(text);
  if (!learned || learned->best().at_once > most_) {
    return;
  }
  if (learned->best().at_once <= kOnTrust) {
    begin_at(*learned);
  } else {
    base_ = tried_ = curve_.nearest(kOnTrust);
    promised_ = learned;
  }
  limit_ = curve_.limit_at(base_);
  opening_.begin_at(limit_);
}

void Climber::begin_at(const LearnedCurve& learned) {
  base_ = curve_.nearest(learned.best().at_once);
  tried_ = std::max(base_, curve_.nearest(learned.most()));
  curve_.begin_with(base_, learned);
  known_ = true;
}

std::string Climber::learned() const {
  if (!known_ || unit_ == Unit::operations) {
    return {};
  }
  std::vector<LearnedCurve::Point> points;
  for (uint32_t point = 0; point <= tried_; ++point) {
    const bool is_new = point == 0 || curve_.limit_at(point) != curve_.limit_at(point - 1);
    if (is_new && curve_.unsure(base_, point) <= kKnownWell) {
      points.push_back({curve_.limit_at(point), curve_.mb_per_s(point)});
    }
  }
  return LearnedCurve({curve_.limit_at(base_), curve_.mb_per_s(base_)}, points).text();
}

std::string Climber::learned_from(std::span<const std::pair<double, double>> curve) {
  const std::optional<LearnedCurve> learned = LearnedCurve::from(curve, kFewer);
  return learned && learned->best().at_once <= kMostAtOnce ? learned->text() : std::string();
}

bool Climber::can_read(std::string_view text) {
  return LearnedCurve::read(text).has_value();
}

// ---- The constraint of a flow ------------------------------------------------------------------

ClimbConstraint::ClimbConstraint(const FlowConfig& flow, const DeviceConfig& device,
                                 Climber& climber)
    : has_budget_(device.budget_mb_per_s != 0),
      budget_bytes_per_s_(has_budget_ ? budget_bytes_per_s(device.budget_mb_per_s)
                                      : kNominalBudget),
      most_at_once_(most_at_once(flow.max_in_flight)),
      climber_(climber) {}

Limit ClimbConstraint::limit() const noexcept {
  return {budget_bytes_per_s_ / climber_.limit(), std::min(climber_.limit(), most_at_once_)};
}

void ClimbConstraint::explain(Explanation& out) const {
  out.policy = "climb";
  out.phase = climber_.settled() ? Explanation::Phase::settled : Explanation::Phase::climbing;
  out.constraint_mb_per_s =
      has_budget_ ? static_cast<double>(limit().hold_bytes_per_s) / kBytesPerMb : 0;
  out.samples.assign(climber_.heard().begin(), climber_.heard().end());
  out.samples_heard = climber_.heard_of_all();
}

}  // namespace ioweave::policy
