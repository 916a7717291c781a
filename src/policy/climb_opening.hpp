#pragma once

// How `climb` begins: a search by operations that end, for devices whose operations are quick. The
// samples of climb.hpp say nothing for a quarter of a second and little for a second, in which a
// hundred operations of 10 ms could have run.
//
// The limit is doubled while that pays. A *step* is what operations say that began under its limit
// and ended while as many as the limit ran: n at once, each taking t, are n / t a second, however
// they began together. It ends after as many operations as the limit, four at least, and after up
// to four times as many where their durations differ much. Then
//   up      the limit doubles while a step is 5 % better than all before, twice in one from 16 or
//           fewer where it was nearly twice as good, which is made good where that does not pay;
//   down    it is halved, where the first doubling did not pay, while a step is hardly worse;
//   found   the fewest that were within 3 % of the best.
// A step that would end the way up is measured twice where operations take less than 50 ms, and the
// better one counts: what holds one of them up on a busy machine is as long as they are.
// Where operations take much longer to come back than they say, as on a cluster, operations that
// ended per second bound what a step is worth.
//
// Operations of some size are compared by their bytes, those of few bytes by their number.

#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "policy/event.hpp"

namespace ioweave::policy {

class Opening {
 public:
  /// An operation that ended well.
  struct End {
    double seconds = 0;
    uint64_t bytes = 0;
    uint32_t running = 0;  ///< on its node, itself included; on a shared device, of all nodes
    NodeId node = 0;       ///< 0 on a shared device
    bool others_wait = false;
    uint64_t now_ns = 0;
  };
  struct Step {
    uint32_t limit = 0;
    double per_s = 0;  ///< operations of a node
    double mb_per_s = 0;
  };

  /// The highest limit that may more than double at once: what has begun cannot be stopped.
  static constexpr uint32_t kMostLeaping = 16;

  Opening(uint32_t first, uint32_t most) noexcept : limit_(first), most_(most) {}

  [[nodiscard]] bool searching() const noexcept { return way_ != Way::found; }
  [[nodiscard]] uint32_t limit() const noexcept { return limit_; }
  /// Those of an opening that has found its limit, by their limit; few where samples were quicker.
  [[nodiscard]] const std::vector<Step>& steps() const noexcept { return steps_; }
  [[nodiscard]] double worth(const Step& step) const noexcept;

  /// The step that ended with this operation, if one did. limit() is another one then, or not.
  [[nodiscard]] std::optional<Step> ended(const End& end);
  /// Samples are quicker.
  void stop() noexcept { way_ = Way::found; }
  /// It begins here; before anything has ended.
  void begin_at(uint32_t limit) noexcept { limit_ = limit; }

 private:
  enum class Way : uint8_t { up, between, down, found };

  void begin_step(uint64_t now_ns);
  [[nodiscard]] bool is_enough() const noexcept;
  [[nodiscard]] Step measured(uint64_t now_ns) const noexcept;
  [[nodiscard]] double most_worth() const noexcept;
  [[nodiscard]] double most_worth_of_others() const noexcept;
  [[nodiscard]] bool is_to_repeat() const noexcept;
  void decide(double before);
  [[nodiscard]] uint32_t find() const noexcept;

  uint32_t limit_;
  uint32_t most_;
  Way way_ = Way::up;
  std::vector<Step> steps_;  ///< ascending
  bool repeats_ = false;     ///< the one under way was measured before

  // The step that is under way.
  uint64_t since_ns_ = 0;
  uint64_t all_ = 0;  ///< operations that ended
  std::unordered_set<NodeId> nodes_;
  uint32_t counted_ = 0;
  double seconds_ = 0;
  double squares_ = 0;
  double mb_ = 0;

  double all_mb_ = 0;  ///< of all that counted
  uint64_t all_counted_ = 0;
};

}  // namespace ioweave::policy
