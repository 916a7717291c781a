#include "policy/auto_constraint.hpp"

#include <algorithm>
#include <cmath>

#include "base/assert.hpp"
#include "policy/number_text.hpp"

namespace ioweave::policy {
namespace {

constexpr std::string_view kLearned = "auto";
constexpr size_t kChoicesKept = 64;

struct Pair {
  double mb_per_s;
  double mean_s;
};

/// Of "auto 2:84.5 4:41"; nothing where it is not of that form.
std::optional<std::vector<Pair>> read_pairs(std::string_view learned) {
  if (learned.substr(0, kLearned.size()) != kLearned) {
    return std::nullopt;
  }
  learned.remove_prefix(kLearned.size());
  std::vector<Pair> pairs;
  while (!learned.empty()) {
    const size_t end = std::min(learned.find(' ', 1), learned.size());
    const std::string_view word = learned.substr(1, end - 1);
    const size_t colon = word.find(':');
    Pair pair{};
    if (learned[0] != ' ' || colon == std::string_view::npos ||
        !parse_number(word.substr(0, colon), pair.mb_per_s) ||
        !parse_number(word.substr(colon + 1), pair.mean_s) || !(pair.mb_per_s >= kLeastMbPerS) ||
        !(pair.mb_per_s <= kMostMbPerS) || !(pair.mean_s >= 0) || !std::isfinite(pair.mean_s) ||
        (!pairs.empty() && pair.mb_per_s <= pairs.back().mb_per_s)) {
      return std::nullopt;
    }
    pairs.push_back(pair);
    learned.remove_prefix(end);
  }
  return pairs.empty() ? std::nullopt : std::optional(std::move(pairs));
}

}  // namespace

AutoConstraint::AutoConstraint(const FlowConfig& flow, const DeviceConfig& device)
    : constraint_(flow.constraint),
      budget_mb_per_s_(device.budget_mb_per_s),
      budget_bytes_per_s_(budget_bytes_per_s(device.budget_mb_per_s)),
      most_at_once_(most_at_once(flow.max_in_flight)),
      most_group_(std::min(most_at_once(device.max_in_flight),
                           device.scope == Scope::node ? most_at_once_ : Limit{}.at_once)) {
  const auto known = read_pairs(flow.learned);
  if (known && known->back().mb_per_s <= budget_mb_per_s_) {
    for (const Pair& pair : *known) {
      registry_.push_back({pair.mb_per_s, group(pair.mb_per_s), pair.mean_s});
    }
    learning_ = false;
    set_constraint(registry_.back().mb_per_s);
    return;
  }
  set_constraint(constraint_.kind == Constraint::Kind::auto_bounded
                     ? constraint_.min_mb_per_s
                     : budget_mb_per_s_ / constraint_.executors);
  begin_epoch();
}

uint32_t AutoConstraint::group(double mb_per_s) const noexcept {
  const int64_t fit = budget_bytes_per_s_ / constraint_bytes_per_s(mb_per_s);
  return static_cast<uint32_t>(std::min<int64_t>(fit, most_group_));
}

void AutoConstraint::set_constraint(double mb_per_s) {
  mb_per_s_ = mb_per_s;
  limit_ = {constraint_bytes_per_s(mb_per_s), most_at_once_};
  told_limit_ = std::min(group(mb_per_s), most_at_once_);
}

// ---- Learning ----------------------------------------------------------------------------------

void AutoConstraint::begin_epoch() {
  ++epoch_;
  wanted_ = group(mb_per_s_);
  started_ = 0;
  ended_ = 0;
  lost_ = 0;
  sum_s_ = 0;
}

bool AutoConstraint::is_epoch_full() const noexcept {
  return learning_ && started_ == wanted_;
}

bool AutoConstraint::wants_own_node() const noexcept {
  return learning_ && lost_ < wanted_;
}

EpochId AutoConstraint::count_start() {
  IOW_ASSERT(learning_ && started_ < wanted_);
  ++started_;
  return epoch_;
}

void AutoConstraint::count_end(EpochId epoch, std::optional<double> seconds) {
  if (!learning_ || epoch != epoch_) {
    return;
  }
  if (!seconds) {
    --started_;
    ++lost_;
    return;
  }
  ++ended_;
  sum_s_ += *seconds;
  if (ended_ == wanted_) {
    end_epoch();
  }
}

void AutoConstraint::begin_epoch_again() {
  begin_epoch();
}

void AutoConstraint::end_epoch() {
  const double mean_s = sum_s_ / ended_;
  if (!continues(mean_s)) {
    remember("not registered: more than half the time of the epoch before", false);
    learning_ = false;
    return;
  }
  registry_.push_back({mb_per_s_, wanted_, mean_s});
  const bool bounded = constraint_.kind == Constraint::Kind::auto_bounded;
  const double next = mb_per_s_ * (bounded ? constraint_.delta : 2);
  if (bounded && next > constraint_.max_mb_per_s) {
    remember("the last: the next constraint would be above max", true);
    learning_ = false;
  } else if (constraint_bytes_per_s(next) > budget_bytes_per_s_) {
    remember("the last: the next constraint would be above the budget", true);
    learning_ = false;
  } else {
    remember("registered", true);
    set_constraint(next);
    begin_epoch();
  }
}

bool AutoConstraint::continues(double mean_s) const {
  return constraint_.kind == Constraint::Kind::auto_bounded || registry_.empty() ||
         mean_s <= registry_.back().mean_s / 2;
}

void AutoConstraint::remember(std::string why, bool registered) {
  epochs_.push_back({mb_per_s_, wanted_, ended_, sum_s_ / ended_, registered, std::move(why)});
}

// ---- Choosing ----------------------------------------------------------------------------------

/// How long so many operations take that run at once, by interpolation in the registry.
double AutoConstraint::at_once_s(uint64_t operations) const {
  // The registry is by falling group: the first whose group is not larger.
  const auto below = std::find_if(registry_.begin(), registry_.end(),
                                  [&](const Known& known) { return known.group <= operations; });
  if (below == registry_.end()) {
    return registry_.back().mean_s;
  }
  if (below == registry_.begin()) {
    return below->mean_s;
  }
  const Known& above = *(below - 1);
  const double part = static_cast<double>(operations - below->group) / (above.group - below->group);
  return below->mean_s + part * (above.mean_s - below->mean_s);
}

double AutoConstraint::estimate(uint64_t operations, size_t index) const {
  const Known& known = registry_[index];
  const uint64_t groups = operations / known.group;
  const uint64_t rest = operations % known.group;
  const double rest_s = rest == 0 ? 0 : std::min(at_once_s(rest), known.mean_s);
  return static_cast<double>(groups) * known.mean_s + rest_s;
}

void AutoConstraint::hear_waiting(uint64_t operations, uint64_t now_ns) {
  if (!learning_) {
    choose(operations, now_ns);
  }
}

void AutoConstraint::choose(uint64_t waiting, uint64_t now_ns) {
  size_t best = 0;
  double best_s = estimate(waiting, 0);
  for (size_t i = 1; i < registry_.size(); ++i) {
    const double seconds = estimate(waiting, i);
    if (seconds <= best_s) {
      best = i;
      best_s = seconds;
    }
  }
  const double chosen = registry_[best].mb_per_s;
  if (chosen == mb_per_s_ && !choices_.empty()) {
    return;
  }
  set_constraint(chosen);
  Explanation::Choice choice{now_ns, waiting, chosen, {}};
  for (size_t i = 0; i < registry_.size(); ++i) {
    choice.estimates.push_back({registry_[i].mb_per_s, estimate(waiting, i)});
  }
  if (choices_.size() == kChoicesKept) {
    choices_.pop_front();
  }
  choices_.push_back(std::move(choice));
}

// ---- Text --------------------------------------------------------------------------------------

void AutoConstraint::explain(Explanation& out) const {
  out.policy = "auto";
  if (constraint_.kind == Constraint::Kind::auto_bounded) {
    out.policy += "(" + number_text(constraint_.min_mb_per_s) + "," +
                  number_text(constraint_.max_mb_per_s) + "," + number_text(constraint_.delta) +
                  ")";
  }
  out.phase = learning_ ? Explanation::Phase::learning : Explanation::Phase::chosen;
  out.constraint_mb_per_s = mb_per_s_;
  out.epoch_full = is_epoch_full();
  out.epochs = epochs_;
  if (learning_) {
    const std::string so_far = std::to_string(ended_) + " of " + std::to_string(wanted_) + " ended";
    out.epochs.push_back({mb_per_s_, wanted_, ended_, ended_ == 0 ? 0 : sum_s_ / ended_, false,
                          "under way: " + so_far});
  }
  for (const Known& known : registry_) {
    out.registry.push_back({known.mb_per_s, known.group, known.mean_s});
  }
  out.choices.assign(choices_.begin(), choices_.end());
}

std::string AutoConstraint::learned() const {
  if (learning_) {
    return {};
  }
  std::string text(kLearned);
  for (const Known& known : registry_) {
    text += ' ';
    append_number(text, known.mb_per_s);
    text += ':';
    append_number(text, known.mean_s);
  }
  return text;
}

bool AutoConstraint::can_read(std::string_view learned) {
  return read_pairs(learned).has_value();
}

uint32_t AutoConstraint::epochs_of(const Constraint& bounded, double budget_mb_per_s) {
  const double most = std::min(bounded.max_mb_per_s, budget_mb_per_s);
  uint32_t epochs = 0;
  for (double c = bounded.min_mb_per_s; c <= most && epochs <= kMostEpochs; c *= bounded.delta) {
    ++epochs;
  }
  return epochs;
}

}  // namespace ioweave::policy
