#pragma once

// Whether helping a reader helps it: a controlled experiment that runs while the program does.
// Pure logic without I/O, clock or thread.
//
// How it works. What counts is the reader's pace, seconds per byte of its way, computation
// included. A stretch of the way without help is followed by a longer one with help:
//
//   warming -> alone -> helping ... -> draining -> alone -> helping ...
//                          |
//                          +-- slower than alone: draining -> resting ... -> alone -> ...
//
// A reader that alone does not wait, since the kernel's own read-ahead is in time, needs no help:
// it rests at once. A first stretch alone, with the way up to it, is at most 2 % of what is left;
// where less is left there is none, and the reader is helped when it is found waiting for a
// sixteenth of the time once the kernel's own window has grown (until then every reader waits), and
// its device idle for half of it, or a sixth in 32 looks: a device that nearly always has requests
// has nothing to give. If it was then slower by a tenth twice in a row it rests, too. Later
// stretches come after 50 times their length, and not before 2.5 seconds: the reader must first
// come up to what was asked for ahead of it (draining). Help that was slower by more than a tenth,
// or twice in a row by more than three parts in a hundred, rests, longer each time, and is then
// tried again.

#include <cstdint>
#include <optional>

namespace ioweave::stream {

/// One reader. One thread. Times in nanoseconds from any origin.
class HelpTrial {
 public:
  struct Step {
    uint64_t moved_bytes = 0;        ///< of the reader's way since the last step, > 0
    uint64_t outstanding_bytes = 0;  ///< asked for and not read yet
    uint64_t left_bytes = 0;         ///< of the file
    uint64_t unit_bytes = 0;         ///< a stretch that tells a pace
    uint64_t ramp_bytes = 0;         ///< at its beginning, in which every reader waits
    uint64_t lookahead_bytes = 0;    ///< most ahead of this reader
    uint64_t now_ns = 0;
    bool surely_waits = false;  ///< the kernel's own read-ahead does not serve it
  };
  void advance(const Step& step) noexcept;

  /// What is seen of the reader at one moment.
  struct Look {
    bool waits = false;           ///< for what it reads
    bool device_is_busy = false;  ///< surely; false where nobody tells
    bool is_crowded = false;      ///< it runs, and the run's processes have all processors
  };
  void note_look(const Look& look, uint64_t now_ns) noexcept;
  /// The same where nobody can tell: only a comparison may then say that it is helped.
  void note_nothing(uint64_t now_ns) noexcept;

  /// The pattern broke off, or what is read needs no help: the running stretch tells nothing.
  void interrupt() noexcept;

  /// Whether to ask for something at present.
  [[nodiscard]] bool helps_now() const noexcept { return phase_ == Phase::helping; }
  /// Whether a pace without help is being taken: positions should be looked at closely.
  [[nodiscard]] bool is_measuring() const noexcept {
    return phase_ == Phase::warming || phase_ == Phase::alone;
  }

  /// Whether note_look() counts at present.
  [[nodiscard]] bool wants_looks() const noexcept {
    return phase_ == Phase::alone || (phase_ == Phase::warming && is_short_ && !is_ramping_);
  }

  /// Whether it waits, and its device's time is what looks are for.
  [[nodiscard]] bool is_in_doubt() const noexcept {
    return is_short_ && phase_ == Phase::warming && waits_much();
  }

  [[nodiscard]] bool is_resting() const noexcept { return phase_ == Phase::resting; }

  /// Seconds that help has saved, computation included; below zero: it has cost them. Way with help
  /// times the difference of the paces, the one without help being the last measured. Nothing where
  /// there was no stretch without help to compare with.
  [[nodiscard]] std::optional<double> saved_seconds() const noexcept;

  /// Seconds that comparing has cost: what was read without help to know its pace, beyond what that
  /// would have taken with help. 0 where help does not pay.
  [[nodiscard]] double trial_seconds() const noexcept;

 private:
  enum class Phase : uint8_t { fresh, warming, alone, helping, draining, resting };

  void enter(Phase phase, uint64_t now_ns) noexcept;
  void settle(uint64_t now_ns) noexcept;
  [[nodiscard]] uint64_t settled_way() const noexcept;  ///< since then; 0 before
  void judge(const Step& step) noexcept;
  void judge_short(const Step& step) noexcept;
  void account() noexcept;
  /// Some part of the way, and how long it took.
  struct Way {
    uint64_t bytes = 0;
    uint64_t ns = 0;
  };
  [[nodiscard]] Way* way_of_phase() noexcept;
  [[nodiscard]] bool waits_much() const noexcept;
  [[nodiscard]] bool device_has_time() const noexcept;
  [[nodiscard]] bool processors_have_time() const noexcept;

  Phase phase_ = Phase::fresh;
  uint64_t begin_ns_ = 0;    // of the stretch
  uint64_t last_ns_ = 0;     // of the last step
  uint64_t way_bytes_ = 0;   // of the stretch
  uint64_t settled_ns_ = 0;  // from when on its pace counts; 0: not yet
  uint64_t settled_bytes_ = 0;
  uint64_t outstanding_bytes_ = 0;  // when help ended
  uint64_t drain_bytes_ = 0;
  bool is_ramping_ = false;
  bool is_short_ = false;  // too little is left to compare: helped when it is seen to wait
  unsigned looks_ = 0;     // of note_look(), at the present stretch alone
  unsigned waits_ = 0;
  unsigned moves_ = 0;  // of advance(), the same
  uint64_t looked_at_ns_ = 0;
  uint64_t looked_ns_ = 0;    // that the looks stand for
  uint64_t waited_ns_ = 0;    // those that found it waiting
  uint64_t busy_ns_ = 0;      // those that found its device busy
  uint64_t crowded_ns_ = 0;   // those that found no processor idle
  bool rests_next_ = false;   // behind draining
  bool judged_ = true;        // the last stretch alone has been compared with
  double alone_pace_ns_ = 0;  // per byte; 0: not measured
  double short_pace_ns_ = 0;  // the same, of a short file's reader while it was looked at
  uint64_t next_trial_ns_ = 0;
  uint64_t rest_ns_ = 0;
  unsigned losses_ = 0;  // in a row
  double saved_ns_ = 0;  // of stretches that have ended
  bool compared_ = false;
  Way without_help_;
  Way with_help_;
};

}  // namespace ioweave::stream
