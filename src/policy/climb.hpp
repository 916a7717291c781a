#pragma once

// `climb`: the number of operations at once that a device serves best, found from its measured
// throughput (Sample) while every node works on.
//
// Every sample is of some number of operations at once, also while the surplus of a higher limit
// drains. It goes into an estimate of the device's curve (curve_estimate.hpp), which knows how sure
// it is. From that follow, after each sample:
//   base   is the fewest operations known to be within 2 % of the best; the limit, while nothing is
//          on trial. There it is *settled*.
//   trial  of one step up or down (by 1.4, by 2 while the curve is steep, and up by 4 from 16 or
//          fewer while it is linear), where that may well be better. Beyond everything tried, where
//          a trial leaves operations that cannot be stopped, the last step's gain is the most to
//          hope for, and a small one is followed by a small step. A trial ends where it is the new
//          base, where it is not worth it (on the way down by two samples in a row: one may be far
//          off), and after eight samples, since others must know the base as well.
// After two refused trials the next waits for 10 samples of each node, then 20, then 40.
//
// A device that serves more operations than before does not show it while no more run. So now and
// then climb *looks*: half a step up for two samples, whatever is known of it. What trials cost is
// paid for: the next look waits until they have cost no more than 0.75 % of the throughput.
//
// Samples that keep differing from what is expected (a cumulative sum of standardized surprises)
// mean that the device has changed: what is known of its curve is forgotten, in part where it
// changed by less than 30 %, and the search goes on from here, down first where it got slower. A
// lower limit takes effect only as operations end, which is a scan of the curve on the way: it is
// lowered further or stopped by what they show. A single sample far off is left out.
//
// Samples count where the limit, not a lack of work, held operations back (some waited all the
// time), and not where it rose meanwhile. Shorter ones are put together to a second; of several
// nodes one of each is enough where they differ little. One in which nothing moved counts with the
// next one that did: counters of calls see nothing of a long call before its end. On the way up a
// part of a second is enough where it shows a steep gain beyond what parts differ by.
//
// Operations a second are its throughput where operations end of whose bytes the device knows next
// to nothing (metadata, what the page cache has, storage that no counter sees).
//
// Where operations are quick, all this begins only when the search by operations that end has found
// a limit (climb_opening.hpp); what that heard of other limits gives the curve its first shape. The
// first whole sample under one limit ends that search, for it is as slow.
//
// It begins where an earlier run ended, but with 8 operations at once at most: the device may be
// another one, and operations that have begun cannot be stopped. If these are as fast as they were
// then, it goes on with all that is known of the curve (learned_curve.hpp), else it searches from
// there.
//
// One climber per device, shared by its flows with this constraint: they are limited together. The
// nodes of a device of scope node are taken for equal: one limit for all, and every sample counts.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "policy/climb_opening.hpp"
#include "policy/climbing.hpp"
#include "policy/curve_estimate.hpp"
#include "policy/learned_curve.hpp"
#include "policy/limiter.hpp"

namespace ioweave::policy {

class Climber {
 public:
  explicit Climber(const DeviceConfig& device);

  [[nodiscard]] uint32_t limit() const noexcept { return limit_; }
  [[nodiscard]] bool settled() const noexcept { return known_ && way_ == Way::none; }

  /// `operations` are those in the scope of the sample.
  void sample(const Sample& sample, const Climbing& operations, uint64_t now_ns);
  /// An operation has ended well; true where the limit changed.
  [[nodiscard]] bool ended(const Opening::End& end);
  void node_down(NodeId node) { nodes_.erase(node); }

  /// Begins where an earlier run ended; before anything is heard. Text of other kinds is not used.
  void begin_with(std::string_view learned);
  [[nodiscard]] std::string learned() const;
  [[nodiscard]] static bool can_read(std::string_view learned);
  /// What learned() would say of a device that was measured before: (operations at once, MB/s of
  /// all together), ascending. Empty where there is no point.
  [[nodiscard]] static std::string learned_from(std::span<const std::pair<double, double>> curve);

  /// The first and the last of them.
  [[nodiscard]] const std::deque<Explanation::Heard>& heard() const noexcept { return heard_; }
  [[nodiscard]] uint64_t heard_of_all() const noexcept { return heard_of_all_; }

  static constexpr uint32_t kMostAtOnce = 1u << 16;

 private:
  enum class Way : uint8_t { none, up, down };
  enum class Unit : uint8_t { bytes, operations };
  /// Operations during a sample, and by what deviation of the logarithm that is not certain.
  struct Ran {
    double at_once = 0;
    double unsure = 0;
  };
  /// A node's sample that is under way.
  struct Begun {
    uint64_t since_ns = 0;
    uint32_t running = 0;
  };
  /// Samples that are to be one, of whichever nodes, under one limit.
  struct Sum {
    uint64_t since_ns = 0;
    double seconds = 0;
    double mb = 0;
    uint32_t ended = 0;   ///< operations
    uint32_t fewest = 0;  ///< operations at once
    uint32_t most = 0;
    uint32_t parts = 0;
    double last = 0;  ///< throughput of the last one, in the unit
    [[nodiscard]] double at_least_one_s() const noexcept { return seconds < 1 ? 1 : seconds; }
  };

  [[nodiscard]] Unit weigh(double bytes, const Climbing& operations, uint64_t now_ns);
  void count_in(Unit unit);
  [[nodiscard]] Begun begin_of(const Sample& sample, uint32_t running, uint64_t now_ns) const;
  [[nodiscard]] std::string_view no_use(const Climbing& operations, const Begun& begun) const;
  [[nodiscard]] Ran ran() const;
  [[nodiscard]] double in_unit(double mb, double operations) const noexcept {
    return unit_ == Unit::bytes ? mb : operations;
  }
  void add(const Sample& sample, const Climbing& operations, const Begun& begun);
  [[nodiscard]] bool is_whole(const Sample& sample, uint64_t now_ns) const;
  void remember(Explanation::Heard&& heard);
  void hear_part(double throughput);
  [[nodiscard]] double beyond_noise() const;
  [[nodiscard]] bool is_steep(const Ran& ran, double throughput) const;
  [[nodiscard]] std::string hear(const Ran& ran, double throughput, uint64_t now_ns);
  void begin_at(const LearnedCurve& learned);
  void end_opening();
  void begin_with_shape(const LearnedCurve& shape, double at_once, double throughput);
  [[nodiscard]] bool has_changed(double surprise);
  void search_from(uint32_t base);
  void search_anew(uint32_t base);
  [[nodiscard]] uint32_t best() const;
  [[nodiscard]] std::string decide(double at_once, uint64_t now_ns);
  void pay(double at_once);
  void end_trial(bool refused);
  [[nodiscard]] uint32_t next(uint32_t point, Way way) const noexcept;
  [[nodiscard]] double worth(Way way) const;
  [[nodiscard]] uint32_t trial_limit();
  [[nodiscard]] std::string explain() const;
  void set_limit(uint32_t limit, uint64_t now_ns);

  const uint32_t most_;
  uint32_t limit_ = 1;
  uint64_t changed_ns_ = 0;
  std::unordered_map<NodeId, Begun> nodes_;
  Sum sum_;
  Unit unit_ = Unit::bytes;  ///< of the throughput
  double moved_ = 0;         ///< bytes, by the device
  double said_ = 0;          ///< by operations
  uint64_t weighed_ns_ = 0;
  double part_variance_;  ///< of the logarithms of parts of a second
  uint32_t part_pairs_;   ///< it is the mean of

  CurveEstimate curve_;
  bool known_ = false;      ///< anything of it
  uint64_t passed_ns_ = 0;  ///< the last sample that counted; 0: none yet
  double slower_ = 0;       ///< cumulative sums of surprises
  double faster_ = 0;

  uint32_t base_ = 0;   ///< a point of the curve
  uint32_t tried_ = 0;  ///< the highest
  Way way_ = Way::none;
  Way last_way_ = Way::down;
  uint32_t of_trial_ = 0;  ///< samples
  uint32_t doubts_ = 0;    ///< samples in a row by which it is not worth it
  uint32_t refused_ = 0;   ///< trials around this base
  uint32_t pause_ = 0;     ///< the last one, in samples of each node
  uint32_t wait_ = 0;      ///< samples before the next trial
  bool looks_ = false;     ///< the trial is a look
  double owed_ = 0;        ///< samples before the next look

  Opening opening_;
  std::optional<LearnedCurve> shape_;  ///< that the opening found, in whatever unit

  std::optional<LearnedCurve> promised_;  ///< best with more than is taken on trust

  std::deque<Explanation::Heard> heard_;
  uint64_t heard_of_all_ = 0;
};

/// A flow's share in its device's climber. An operation holds budget / limit where the device has a
/// budget; where it has none, the same part of a nominal one, so that flows are limited together.
class ClimbConstraint final : public Limiter {
 public:
  ClimbConstraint(const FlowConfig& flow, const DeviceConfig& device, Climber& climber);

  [[nodiscard]] Limit limit() const noexcept override;
  [[nodiscard]] uint32_t told_limit() const noexcept override { return limit().at_once; }
  void explain(Explanation& out) const override;
  [[nodiscard]] std::string learned() const override { return climber_.learned(); }
  [[nodiscard]] bool adapts() const noexcept override { return true; }

  /// In bytes per second, of a device without a budget.
  static constexpr int64_t kNominalBudget = int64_t{1} << 40;

 private:
  const bool has_budget_;
  const int64_t budget_bytes_per_s_;
  const uint32_t most_at_once_;
  Climber& climber_;
};

}  // namespace ioweave::policy
