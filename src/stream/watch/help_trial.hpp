#pragma once

// Finds out whether help makes a reader faster, by a controlled experiment that runs while the
// program does. Pure logic without I/O, clock or thread.
//
// How it works. The measure is the reader's pace: seconds per byte of its way, computation
// included. A stretch of the way without help is followed by a longer one with help:
//
//   warming -> alone -> helping ... -> draining -> alone -> helping ...
//                          |
//                          +-- slower than alone: draining -> resting ... -> alone -> ...
//
// A reader that does not wait when it is alone, because the kernel's own read-ahead is in time,
// needs no help, so help rests at once. The first stretch alone, with the way up to it, is at most
// 2 % of what is left of the file. If less is left, there is no such stretch. Then the reader is
// helped if looks at it find two things: it waits for a sixteenth of the time, once the kernel's
// own window has grown (until then every reader waits); and its device is idle for half of the
// time, or for a sixth of it in 32 looks, since a device that nearly always has requests has no
// time to give. If the reader is then slower by a tenth twice in a row, help rests, too.
//
// Later stretches alone come after 50 times their length, and not before 2.5 seconds. Before each,
// the reader must first come up to what was asked for ahead of it (draining). If the reader was
// slower with help by more than a tenth, or twice in a row by more than three parts in a hundred,
// help rests, longer each time, and is then tried again.

#include <cstdint>
#include <optional>

#include "stats/help_report.hpp"

namespace ioweave::stream {

/// The trial of one reader. One thread. Times in nanoseconds from any origin.
class HelpTrial {
 public:
  struct Step {
    uint64_t moved_bytes = 0;        ///< the reader's way since the last step, > 0
    uint64_t outstanding_bytes = 0;  ///< asked for ahead of the reader and not read yet
    uint64_t left_bytes = 0;         ///< what is left of the file
    uint64_t unit_bytes = 0;         ///< the length of a stretch that gives a pace
    uint64_t least_pace_bytes = 0;   ///< a shorter way of a short file's reader gives none
    uint64_t ramp_bytes = 0;         ///< the part at the beginning in which every reader waits
    uint64_t lookahead_bytes = 0;    ///< most bytes ahead of this reader
    uint64_t now_ns = 0;
    bool surely_waits = false;  ///< the kernel's own read-ahead does not serve this reader
  };
  void advance(const Step& step) noexcept;

  /// What is seen of the reader at one moment.
  struct Look {
    bool waits = false;           ///< the reader waits for what it reads
    bool device_is_busy = false;  ///< its device is certainly busy; false if that is not known
    bool is_crowded = false;      ///< it runs, and the run's processes use all processors
  };
  void note_look(const Look& look, uint64_t now_ns) noexcept;
  /// Notes a look that could not be taken: then only a comparison may decide for help.
  void note_nothing(uint64_t now_ns) noexcept;

  /// Drops the running stretch: the pattern broke off, or what is read needs no help.
  void interrupt() noexcept;

  /// Returns true if something should be asked for ahead of the reader now.
  [[nodiscard]] bool helps_now() const noexcept { return phase_ == Phase::helping; }
  /// Returns true while a pace without help is measured, so that positions need frequent looks.
  [[nodiscard]] bool is_measuring() const noexcept {
    return phase_ == Phase::warming || phase_ == Phase::alone;
  }

  /// Returns true if note_look() counts now.
  [[nodiscard]] bool wants_looks() const noexcept {
    return phase_ == Phase::alone || (phase_ == Phase::warming && is_short_ && !is_ramping_);
  }

  /// Returns true if the reader waits, and further looks are to find out whether its device has
  /// time.
  [[nodiscard]] bool is_in_doubt() const noexcept {
    return is_short_ && phase_ == Phase::warming && waits_much();
  }

  [[nodiscard]] bool is_resting() const noexcept { return phase_ == Phase::resting; }

  /// Returns what was last decided about help, and why.
  [[nodiscard]] stats::ReadHelp why() const noexcept;
  /// Returns the paces behind that, as far as they are measured.
  [[nodiscard]] stats::Paces paces() const noexcept;

  /// Returns the seconds that help has saved, computation included; below zero, help has cost time.
  /// It is the way with help times the difference of the paces; the pace without help is the one
  /// measured last. Nothing if there was no stretch without help to compare with.
  [[nodiscard]] std::optional<double> saved_seconds() const noexcept;

  /// Returns the seconds that comparing has cost: the time of the stretches without help, beyond
  /// what they would have taken with help. 0 if help does not pay.
  [[nodiscard]] double trial_seconds() const noexcept;

 private:
  enum class Phase : uint8_t { fresh, warming, alone, helping, draining, resting };

  void enter(Phase phase, uint64_t now_ns) noexcept;
  void rest(stats::ReadHelp why, uint64_t now_ns) noexcept;
  [[nodiscard]] bool is_looked_at_enough() const noexcept;
  [[nodiscard]] stats::ReadHelp why_not() const noexcept;
  void settle(uint64_t now_ns) noexcept;
  [[nodiscard]] uint64_t settled_way() const noexcept;  ///< the way since settle(); 0 before
  void judge(const Step& step) noexcept;
  void judge_short(const Step& step) noexcept;
  void account() noexcept;
  /// A part of the way, and how long it took.
  struct Way {
    uint64_t bytes = 0;
    uint64_t ns = 0;
  };
  [[nodiscard]] Way* way_of_phase() noexcept;
  [[nodiscard]] bool waits_much() const noexcept;
  [[nodiscard]] bool device_has_time() const noexcept;
  [[nodiscard]] bool processors_have_time() const noexcept;

  Phase phase_ = Phase::fresh;
  stats::ReadHelp why_ = stats::ReadHelp::too_short;
  uint64_t begin_ns_ = 0;    // when the stretch began
  uint64_t last_ns_ = 0;     // of the last step
  uint64_t way_bytes_ = 0;   // the length of the stretch so far
  uint64_t settled_ns_ = 0;  // when its pace began to count; 0: not yet
  uint64_t settled_bytes_ = 0;
  uint64_t outstanding_bytes_ = 0;  // when help ended
  uint64_t drain_bytes_ = 0;
  uint64_t least_pace_bytes_ = 0;
  bool is_ramping_ = false;
  bool is_short_ =
      false;             // too little is left to compare: the reader is helped if looks find waits
  unsigned looks_ = 0;   // calls of note_look() in the present stretch alone
  unsigned untold_ = 0;  // of these, that could not be taken
  unsigned waits_ = 0;
  unsigned moves_ = 0;  // calls of advance() in it
  uint64_t looked_at_ns_ = 0;
  uint64_t looked_ns_ = 0;     // the time that the looks stand for
  uint64_t waited_ns_ = 0;     // the time of looks that found the reader waiting
  uint64_t busy_ns_ = 0;       // the time of looks that found its device busy
  uint64_t crowded_ns_ = 0;    // the time of looks that found no processor idle
  bool rests_next_ = false;    // help rests after draining
  bool judged_ = true;         // help was compared with the last stretch alone
  double alone_pace_ns_ = 0;   // per byte; 0: not measured
  double short_pace_ns_ = 0;   // the same, of a short file's reader while looks were taken
  double helped_pace_ns_ = 0;  // with help, as it was last judged
  uint64_t next_trial_ns_ = 0;
  uint64_t rest_ns_ = 0;
  unsigned losses_ = 0;  // in a row
  double saved_ns_ = 0;  // by stretches that have ended
  bool compared_ = false;
  Way without_help_;
  Way with_help_;
};

}  // namespace ioweave::stream
