#pragma once

// Policies `sync`, `writes` and `auto`: which way a call past the page cache goes, as choice/ finds
// out for each file, operation and class of sizes.
//
//   plain    the program's own call
//   engine   engine_calls.hpp
//   pieces   the same, as several operations at once
//   bounce   bounce.hpp
//   behind   write_behind.hpp
//
// What is chosen and why lies in the segment: `ioweave report --why` tells it.

#include <atomic>
#include <cstdint>

#include "calls/preload/call_lane.hpp"
#include "choice/expectation.hpp"
#include "stats/segment.hpp"

namespace ioweave::calls {

/// The choices of this process. Thread-safe, async-signal-safe: who finds a choice taken goes on
/// without telling it anything. Constant-initialised.
class Choices {
 public:
  /// The choice about a call; null where none can be had, and the call is plain.
  [[nodiscard]] stats::ChoiceRecord* of(const stats::FileRecord& file, const Transfer& transfer,
                                        choice::Ways usable) noexcept;

  /// Returns for how long the program has waited for writes that were held back, since this was
  /// asked last.
  [[nodiscard]] uint64_t take_waited_ns() noexcept;

  /// Returns true if the end of the segment, from `choice` on, has memory.
  [[nodiscard]] bool has_memory() noexcept;

 private:
  static void begin(stats::ChoiceRecord& record, const stats::FileRecord& file,
                    choice::Ways usable) noexcept;

  std::atomic<const stats::Segment*> segment_{nullptr};  // whose choices have memory
  std::atomic<uint64_t> told_waited_ns_{0};
};

extern Choices choices;

/// One call. If its thread may be cancelled at any moment, call make() and note_plain_call() with
/// cancellation off. The rest is inline, in wrappers that a cancellation may leave.
class ChosenCall {
 public:
  /// What may be done about calls of this kind on the descriptor.
  struct Allowed {
    bool engine;
    bool holding_back;
  };
  ChosenCall(stats::FileRecord& file, const Transfer& transfer) noexcept
      : file_(file), transfer_(transfer) {}

  /// Makes the call the chosen way. Returns true with the call's bytes or -errno in `result`; or
  /// false if the program's own call must be made, whose result note_plain_call() takes. By then
  /// the file's writes that were held back have ended.
  [[nodiscard]] bool make(Allowed allowed, int64_t& result);
  void note_plain_call(int64_t result) const noexcept;
  /// Whether there is anything to tell note_plain_call().
  [[nodiscard]] bool is_noted() const noexcept { return record_ != nullptr || is_large_; }

 private:
  void choose(Allowed allowed) noexcept;
  [[nodiscard]] choice::Way way() const noexcept;
  [[nodiscard]] bool make_otherwise(choice::Way way, int64_t& result);
  [[nodiscard]] bool hold_back(int64_t& result) noexcept;
  void end_held_writes() noexcept;
  void note_end(choice::Way way, bool is_made, int64_t result) noexcept;

  stats::FileRecord& file_;
  const Transfer& transfer_;
  choice::Ways usable_ = choice::Way::plain;
  stats::ChoiceRecord* record_ = nullptr;
  bool is_large_ = false;  // its buffer may lie in large pages
  uint64_t large_bytes_ = 0;
  uint64_t begin_ns_ = 0;
  choice::Way refused_ = choice::Way::plain;  // plain: none was
  uint64_t refused_ns_ = 0;
};

}  // namespace ioweave::calls
