#pragma once

// Decides whether files of one kind should be written early, from what became of the last ones.
// Pure logic without I/O, clock or thread.
//
// How it works. What a program writes between two moments at which its file is synced (by any call,
// of any process, or at the end of the file where that syncs) is a cycle. Early writing pays only
// where a sync follows: without one the program never waits for the device, and what it removes or
// rewrites soon was written for nothing. So the first cycles are left alone until one ends in a
// sync. The measure is the pace: seconds per byte of a cycle, computation and sync included.
//
//   learning -> early ... -> alone (1 cycle) -> early ...
//                  |
//                  +-- slower than alone: resting (4 cycles, then 8, ... 64) -> early ...
//
// The quickest of three cycles with early writing is compared with the quicker of the last two
// alone, of a similar size: what disturbs a machine only makes cycles longer. If it was slower by a
// twentieth, early writing rests. After 48 cycles one is left alone again.
//
// What is written early and not synced afterwards, in all, stays within what was synced.

#include <cstdint>
#include <optional>

#include "stats/help_report.hpp"

namespace ioweave::stream {

/// The trial of files that have the same use. One thread.
class EarlyTrial {
 public:
  struct Cycle {
    uint64_t bytes = 0;        ///< written by the program
    uint64_t early_bytes = 0;  ///< of these, written early
    uint64_t lost_bytes = 0;   ///< of these, written again by the program before the sync
    uint64_t ns = 0;
    bool is_synced = false;
    bool is_early = false;  ///< whether it was helped from its beginning on
  };

  /// Returns true if a cycle that begins now should be helped.
  [[nodiscard]] bool wants_early() const noexcept { return phase_ == Phase::early; }
  /// Returns why a cycle that begins now should be helped, or not. Of the first ones nobody knows
  /// before they end whether they are synced (EarlyHelp::first).
  [[nodiscard]] stats::EarlyHelp why() const noexcept;
  /// Returns the paces behind that: of the quickest cycles of each kind.
  [[nodiscard]] stats::Paces paces() const noexcept;
  /// Returns how many more bytes may be written early.
  [[nodiscard]] uint64_t allowance() const noexcept;

  /// Notes that so many bytes are written early, of a cycle that goes on.
  void note_early(uint64_t bytes) noexcept { open_bytes_ += bytes; }
  /// Notes the end of a cycle.
  void note_end(const Cycle& cycle) noexcept;

  /// Returns the bytes that were written early although no sync followed, or that were written
  /// again before it.
  [[nodiscard]] uint64_t lost_bytes() const noexcept { return lost_bytes_; }
  /// Returns the seconds that a cycle with early writing has saved, by the pace of those alone.
  /// Nothing if none was compared.
  [[nodiscard]] std::optional<double> saved_seconds(const Cycle& cycle) const noexcept;

  /// Shorter ones tell nothing.
  static constexpr uint64_t kLeastBytes = 8u << 20;

 private:
  enum class Phase : uint8_t { learning, early, alone, resting };
  struct Cycles {
    unsigned count = 0;
    double least_pace_ns = 0;  ///< per byte
    void add(const Cycle& cycle) noexcept;
  };

  [[nodiscard]] bool is_similar(const Cycle& cycle) const noexcept;
  void note_early_cycle(const Cycle& cycle) noexcept;
  void note_cycle_alone(const Cycle& cycle) noexcept;

  Phase phase_ = Phase::learning;
  Cycles alone_;               // the last ones without help
  Cycles early_;               // the last ones with it, until they are judged
  double judged_pace_ns_ = 0;  // of the quickest of the last ones that were judged
  uint64_t usual_bytes_ = 0;   // of a cycle alone
  unsigned early_cycles_ = 0;  // since one was left alone
  unsigned rest_ = 0;          // cycles left of the present rest
  unsigned next_rest_ = 4;
  uint64_t synced_bytes_ = 0;
  uint64_t open_bytes_ = 0;  // written early, of cycles that go on
  uint64_t lost_bytes_ = 0;
};

}  // namespace ioweave::stream
