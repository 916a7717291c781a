#include "calls/preload/choices.hpp"

#include <atomic>
#include <cstddef>
#include <new>

#include "base/clock.hpp"
#include "base/errno_kept.hpp"
#include "calls/preload/always_unusual.hpp"
#include "calls/preload/bounce.hpp"
#include "calls/preload/engine_calls.hpp"
#include "calls/preload/large_buffers.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/shared_file.hpp"
#include "calls/preload/write_behind.hpp"

namespace ioweave::calls {

constinit Choices choices;

namespace {

using choice::Expected;
using choice::Operation;
using choice::Pieces;
using choice::Way;
using choice::WayChoice;
using choice::Ways;
using config::RunPolicy;
using stats::ChoiceRecord;
using stats::Segment;

constexpr uint32_t kReady = 1;
constexpr uint32_t kMostProbes = 16;

/// What a way must promise by the profile of its device before `auto` opens an engine for it.
constexpr float kWorthOpening = 1.03F;

bool is_write(const Transfer& transfer) noexcept {
  return transfer.op == engine::Op::write || transfer.op == engine::Op::writev;
}

bool is_vectored(const Transfer& transfer) noexcept {
  return transfer.op == engine::Op::readv || transfer.op == engine::Op::writev;
}

Operation operation_of(const Transfer& transfer) noexcept {
  return is_write(transfer) ? Operation::write : Operation::read;
}

size_t class_of(const Transfer& transfer) noexcept {
  return is_vectored(transfer) ? choice::kVectored : choice::class_of(transfer.bytes);
}

/// What the profile of the file's device says.
const choice::Expectation& expectation_of(const stats::FileRecord& file) noexcept {
  static constexpr choice::Expectation kNone;
  for (const choice::Expectation& each : process.config().expectation) {
    if (each.device != 0 && each.device == file.device) return each;
  }
  return kNone;
}

bool is_of_mode(engine::UringMode mode) noexcept {
  return process.config().engine_mode == static_cast<uint32_t>(mode);
}

/// The ways that are open to the call.
Ways usable_ways(const stats::FileRecord& file, const Transfer& transfer, bool may_engine,
                 bool may_hold) noexcept {
  Ways usable = Way::plain;
  const bool is_automatic = file.policy == RunPolicy::automatic;
  const choice::Expectation& expectation = expectation_of(file);
  const auto operation = static_cast<size_t>(operation_of(transfer));
  const Expected& expected = expectation.of[operation][class_of(transfer)];
  const bool is_placed = may_engine && transfer.offset >= 0;  // else io_uring takes no lock
  if (is_placed && !is_automatic) return usable | Way::engine;
  if (is_placed && process.config().engine == static_cast<uint32_t>(engine::Kind::uring)) {
    const bool is_promising = expected[static_cast<size_t>(Way::engine)] >= kWorthOpening;
    if (is_promising || is_of_mode(engine::UringMode::iopoll)) usable = usable | Way::engine;
    if (!is_vectored(transfer) && transfer.bytes >= 2 * expectation.pieces[operation].bytes) {
      usable = usable | Way::pieces;
    }
  }
  const bool is_bounced =
      is_automatic && transfer.op == engine::Op::read && process.config().large_page_bytes != 0 &&
      transfer.bytes >= kLeastBouncedBytes && transfer.bytes <= kMostBouncedBytes;
  if (is_bounced) usable = usable | Way::bounce;
  const bool is_small = is_vectored(transfer) || transfer.bytes <= choice::kMostHeldBytes;
  if (may_hold && is_small && write_behind.may_hold_by_default()) usable = usable | Way::behind;
  return usable;
}

/// Tells the choice something, if nobody else does just now.
template <class Tell>
void tell(ChoiceRecord& record, Tell tell) noexcept {
  if (record.taken.exchange(1, std::memory_order_acquire) != 0) return;
  tell(record.choice);
  record.way.store(record.choice.way(), std::memory_order_relaxed);
  record.taken.store(0, std::memory_order_release);
}

/// Of the ways that are no plain call each in its turn; plain where there is none.
Way next_unusual(Ways usable) noexcept {
  static std::atomic<uint32_t> turn{0};
  uint32_t way = turn.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < choice::kWays; ++i, ++way) {
    const auto next = static_cast<Way>(way % choice::kWays);
    if (next != Way::plain && usable.has(next)) return next;
  }
  return Way::plain;
}

}  // namespace

// ---- The table ----------------------------------------------------------------------------------

bool Choices::has_memory() noexcept {
  Segment* const segment = process.segment();
  if (segment == nullptr || segment == segment_.load(std::memory_order_relaxed)) {
    return segment != nullptr;
  }
  const ErrnoKept kept;
  constexpr size_t kBytes = sizeof(Segment) - offsetof(Segment, choice);  // and large_pages
  if (!make_sure_of_memory(segment->choice, kBytes)) return false;
  segment_.store(segment, std::memory_order_relaxed);
  segment->choices.store(1, std::memory_order_relaxed);
  return true;
}

/// Of the last file with such calls, or by the profile of the device.
void Choices::begin(ChoiceRecord& record, const stats::FileRecord& file, Ways usable) noexcept {
  Segment& segment = *process.segment();
  const choice::Expectation& expectation = expectation_of(file);
  const auto operation = static_cast<size_t>(record.operation);
  Expected expected = expectation.of[operation][record.size_class];
  if (file.policy != RunPolicy::automatic) {
    expected[static_cast<size_t>(Way::engine)] = 2;  // it was asked for
  }
  for (const ChoiceRecord& other : segment.choice) {
    if (&other != &record && other.state.load(std::memory_order_acquire) == kReady &&
        other.operation == record.operation && other.size_class == record.size_class &&
        segment.file[other.file].device == file.device) {
      const Expected learned = other.choice.learned();
      for (size_t i = 0; i < learned.size(); ++i) {
        if (learned[i] > 0) expected[i] = learned[i];
      }
    }
  }
  record.pieces = expectation.pieces[operation];
  new (&record.choice) WayChoice(usable, expected);
  record.way.store(record.choice.way(), std::memory_order_relaxed);
  record.state.store(kReady, std::memory_order_release);  // pairs with of()
}

ChoiceRecord* Choices::of(const stats::FileRecord& file, const Transfer& transfer,
                          Ways usable) noexcept {
  if (!has_memory()) return nullptr;
  Segment& segment = *process.segment();
  const auto number = static_cast<uint32_t>(&file - segment.file);
  if (number >= Segment::kFiles) return nullptr;  // of the parent's segment
  const uint64_t key = (uint64_t{number} + 1) << 8 |
                       static_cast<uint64_t>(operation_of(transfer)) << 4 | class_of(transfer);
  constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  uint64_t at = key * kSpread >> 32;
  for (uint32_t i = 0; i < kMostProbes; ++i, ++at) {
    ChoiceRecord& record = segment.choice[at % Segment::kChoices];
    uint64_t found = record.key.load(std::memory_order_relaxed);
    if (found == 0 && record.key.compare_exchange_strong(found, key, std::memory_order_relaxed)) {
      record.operation = operation_of(transfer);
      record.size_class = static_cast<uint8_t>(class_of(transfer));
      record.file = number;
      begin(record, file, usable);
      return &record;
    }
    if (found == key) {
      // Acquire pairs with begin(), which another thread may be in.
      return record.state.load(std::memory_order_acquire) == kReady ? &record : nullptr;
    }
  }
  return nullptr;
}

uint64_t Choices::take_waited_ns() noexcept {
  const uint64_t now = write_behind.waited_ns();
  const uint64_t before = told_waited_ns_.exchange(now, std::memory_order_relaxed);
  return now > before ? now - before : 0;
}

// ---- One call -----------------------------------------------------------------------------------

void ChosenCall::choose(Allowed allowed) noexcept {
  if (transfer_.bytes == 0 || process.left_alone() || process.is_visitor()) return;
  usable_ = usable_ways(file_, transfer_, allowed.engine, allowed.holding_back);
  if (usable_ != Ways(Way::plain)) record_ = choices.of(file_, transfer_, usable_);
  is_large_ = file_.policy == RunPolicy::automatic && LargeBuffers::may_help(transfer_) &&
              choices.has_memory();
}

Way ChosenCall::way() const noexcept {
  if (record_ == nullptr) return Way::plain;
  const Way way =
      kIsAlwaysUnusual ? next_unusual(usable_) : record_->way.load(std::memory_order_relaxed);
  return usable_.has(way) ? way : Way::plain;
}

/// What the program waits for here is the price of the way by which the writes went.
void ChosenCall::end_held_writes() noexcept {
  if (holds_writes()) write_behind.drain(file_);
  const uint64_t waited_ns = choices.take_waited_ns();
  if (record_ == nullptr || waited_ns == 0) return;
  tell(*record_, [=](WayChoice& choice) { choice.note(Way::behind, 0, waited_ns); });
}

bool ChosenCall::make(Allowed allowed, int64_t& result) {
  choose(allowed);
  const Way way = this->way();
  if (way == Way::behind) return hold_back(result);
  end_held_writes();
  if (is_large_ && way != Way::bounce) large_bytes_ = large_buffers.prepare(transfer_);
  begin_ns_ = is_noted() ? now_ns() : 0;
  return way != Way::plain && make_otherwise(way, result);
}

bool ChosenCall::make_otherwise(Way way, int64_t& result) {
  const Pieces pieces = way == Way::pieces ? record_->pieces : choice::kWhole;
  const bool is_made = way == Way::bounce ? read_by_bounce(transfer_, file_, result)
                                          : carry_out(transfer_, file_, pieces, result);
  note_end(way, is_made, result);
  if (!is_made && way == Way::bounce) is_large_ = false;  // its buffer was not looked at
  return is_made;
}

bool ChosenCall::hold_back(int64_t& result) noexcept {
  const uint64_t waited_ns = choices.take_waited_ns();
  begin_ns_ = now_ns() - waited_ns;
  const bool is_taken = write_behind.take(transfer_, file_, result);
  (void)choices.take_waited_ns();  // it is in the time of the call
  note_end(Way::behind, is_taken, result);
  return is_taken;
}

/// A call that was made this way, or could not be.
void ChosenCall::note_end(Way way, bool is_made, int64_t result) noexcept {
  const uint64_t end_ns = now_ns();
  const uint64_t ns = end_ns - begin_ns_;
  begin_ns_ = end_ns;
  if (!is_made) {
    refused_ = way;
    refused_ns_ = ns;
    return;
  }
  tell(*record_, [=](WayChoice& choice) {
    choice.note(way, result > 0 ? static_cast<uint64_t>(result) : 0, ns);
  });
}

/// A call that fails says nothing of the way that it should have gone.
void ChosenCall::note_plain_call(int64_t result) const noexcept {
  if (!is_noted() || result <= 0 || process.left_alone()) return;
  const uint64_t ns = now_ns() - begin_ns_;
  if (is_large_ && static_cast<size_t>(result) == transfer_.bytes) {
    large_buffers.note(transfer_, large_bytes_, ns);
  }
  if (record_ == nullptr) return;
  tell(*record_, [=, this](WayChoice& choice) {
    if (refused_ != Way::plain) choice.note_refusal(refused_, refused_ns_);
    choice.note(Way::plain, static_cast<uint64_t>(result), ns);
  });
}

}  // namespace ioweave::calls
