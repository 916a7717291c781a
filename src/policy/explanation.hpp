#pragma once

// Why a flow's constraint is what it is, as plain data, for reports and pictures.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/event.hpp"

namespace ioweave::policy {

struct Explanation {
  enum class Phase : uint8_t { none, fixed, learning, chosen, climbing, settled };

  /// One learning epoch of `auto`; the last one may be under way.
  struct Epoch {
    double constraint_mb_per_s = 0;
    uint32_t limit = 0;  ///< operations at once under this constraint
    uint32_t tasks = 0;  ///< operations that ended in it
    double mean_s = 0;   ///< of these
    bool registered = false;
    std::string why;
  };

  /// What `auto` goes by: how long an operation takes under a constraint.
  struct Registered {
    double constraint_mb_per_s = 0;
    uint32_t limit = 0;
    double mean_s = 0;
  };

  struct Estimate {
    double constraint_mb_per_s = 0;
    double seconds = 0;  ///< for all that wait
  };

  /// An evaluation of the objective of `auto` that changed the constraint.
  struct Choice {
    uint64_t now_ns = 0;
    uint64_t waiting = 0;
    double constraint_mb_per_s = 0;
    std::vector<Estimate> estimates;
  };

  /// What `climb` heard; `why` says where it counts operations a second instead of bytes.
  struct Heard {
    uint64_t now_ns = 0;
    uint32_t limit = 0;
    double mb_per_s = 0;
    bool used = false;
    std::string why;  ///< what it was used for, or why not
  };

  std::string flow;
  std::string device;
  std::string policy;  ///< none, fixed, auto, auto(2,256,2) or climb
  Phase phase = Phase::none;
  double constraint_mb_per_s = 0;  ///< what one operation holds; 0: nothing
  uint32_t limit = 0;              ///< as in SetLimit
  uint32_t nodes = 0;              ///< that have the device; none: what is for any node waits
  /// Of a flow that learns on a device of scope node: where, and whether others are kept out.
  std::optional<NodeId> learning_node;
  bool keeps_others_out = false;
  /// All operations of the epoch have started, not all have ended: others there wait for the next.
  bool epoch_full = false;
  std::vector<Epoch> epochs;
  std::vector<Registered> registry;
  std::vector<Choice> choices;  ///< the last 64
  std::vector<Heard> samples;   ///< the first 128 and the last 128
  uint64_t samples_heard = 0;   ///< in all
};

/// One JSON object, on one line. Bytes of names that are not UTF-8 are written as U+FFFD.
[[nodiscard]] std::string to_json(const Explanation& explanation);

}  // namespace ioweave::policy
