#pragma once

// The queue of one thread. Only its owner submits; whoever *leads* reaps, one thread at a time:
// the owner as a rule, or another thread that waits for a request in it. Those who find it led
// follow: they sleep until the leader has reaped something and look again.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/futex.hpp"
#include "engine/backend.hpp"
#include "service/counters.hpp"
#include "service/request_list.hpp"

namespace ioweave::service {

class Lane {
 public:
  /// Without a back end (none could be opened, or the engine has only shared workers) a lane still
  /// counts and collects what its thread has under way in the pumps.
  explicit Lane(std::unique_ptr<engine::Backend> backend) : backend_(std::move(backend)) {}

  [[nodiscard]] engine::Backend* backend() noexcept { return backend_.get(); }

  // ---- Leading: any thread --------------------------------------------------------------------

  /// `as_owner`: the caller owns the lane, or acts for its owner.
  [[nodiscard]] bool try_lead(bool as_owner) noexcept {
    const bool leads = leader_.load(std::memory_order_relaxed) == 0 &&
                       leader_.exchange(1, std::memory_order_acquire) == 0;  // of stop_leading()
    if (leads) {
      is_led_by_owner_ = as_owner;
    }
    return leads;
  }
  /// Leader only.
  [[nodiscard]] bool is_led_by_owner() const noexcept { return is_led_by_owner_; }

  void stop_leading() noexcept {
    // seq_cst against follow(): either we see the follower, or it sees that nobody leads.
    leader_.store(0, std::memory_order_seq_cst);
    wake_followers();
  }

  /// Sleeps until the leader stops leading or the timeout (-1: none) is over.
  void follow(int64_t timeout_ns) noexcept {
    followers_.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t turn = turn_.load(std::memory_order_seq_cst);
    if (batching_.load(std::memory_order_seq_cst)) {
      backend_->wake();  // the leader sleeps for several completions: ours may be the first
    }
    if (leader_.load(std::memory_order_seq_cst) != 0) {
      futex_wait(turn_, turn, timeout_ns);
    }
    followers_.fetch_sub(1, std::memory_order_relaxed);
  }

  /// Leader only. As Backend::reap, but with fewer completions where others wait for theirs.
  [[nodiscard]] int reap(std::span<engine::Operation*> out, engine::Reap how) noexcept {
    if (how.min_completions <= 1) {
      return backend_->reap(out, how);
    }
    batching_.store(true, std::memory_order_seq_cst);
    if (followers_.load(std::memory_order_seq_cst) != 0) {
      how.min_completions = 1;
    }
    const int reaped = backend_->reap(out, how);
    batching_.store(false, std::memory_order_relaxed);
    return reaped;
  }

  /// Leader only: the request has completed. A callback is kept for the owner to run; else whoever
  /// waits is told, and the request may be gone.
  void end_here(iow_request& request) noexcept {
    if (request.callback != nullptr) {
      callbacks_.push(request);
      ++callbacks_kept_;
      return;
    }
    tell_owner(request);
    // Last: an owner that sees nothing outstanding finds all its requests completed.
    ended_here_.store(count_ended_here() + 1, std::memory_order_release);
  }
  /// Leader only. Requests without a callback that have ever completed here, modulo 2^32.
  [[nodiscard]] uint32_t count_ended_here() const noexcept {
    return ended_here_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] bool has_callbacks() const noexcept { return callbacks_kept_ != 0; }
  /// Owner, as leader: gives them away. They are not outstanding any more, or a callback among them
  /// that polls would wait for those behind it.
  void hand_over_callbacks(RequestList& list) noexcept {
    std::swap(list, callbacks_);
    submitted_ -= std::exchange(callbacks_kept_, 0);
  }

  // ---- What ends elsewhere: requests of this thread that go another way -------------------------

  /// Owner, or leader. One of the owner's requests does.
  void note_sent_elsewhere() noexcept { sent_elsewhere_.fetch_add(1, std::memory_order_relaxed); }

  /// Any thread: such a request has completed. As end_here().
  void end_elsewhere(iow_request& request) noexcept {
    if (request.callback != nullptr) {
      returned_.push(request);
    } else {
      tell_owner(request);
      plain_ends_.fetch_add(1, std::memory_order_relaxed);  // published by the next line
    }
    // Last, so that an owner that sees nothing outstanding finds everything handed back. Pairs with
    // count_outstanding() and OwnerSleep.
    ended_elsewhere_.fetch_add(1, std::memory_order_seq_cst);
    if (owner_sleeps_.load(std::memory_order_seq_cst)) {
      wake_owner();
    }
  }

  /// Owner: appends the requests with a callback, and answers the number of those without.
  [[nodiscard]] uint32_t collect_ended_elsewhere(RequestList& list) noexcept {
    const uint32_t ended = ended_elsewhere_.load(std::memory_order_seq_cst);
    if (ended == collected_elsewhere_) {
      return 0;
    }
    collected_elsewhere_ = ended;
    returned_.move_to(list);
    return plain_ends_.exchange(0, std::memory_order_relaxed);
  }
  /// Owner: whether there is something to collect.
  [[nodiscard]] bool has_ended_elsewhere() const noexcept {
    return ended_elsewhere_.load(std::memory_order_seq_cst) != collected_elsewhere_;
  }

  /// While it exists the owner may be asleep, and an end elsewhere wakes it; the owner looks at
  /// has_ended_elsewhere() after creating it and before sleeping. Costs nothing where nothing is
  /// elsewhere: as leader, the owner is sure that nothing goes there before it has slept.
  class OwnerSleep {
   public:
    OwnerSleep(Lane& lane, bool leads) noexcept
        : lane_(lane), announced_(!leads || lane.has_requests_elsewhere()) {
      if (announced_) {
        lane_.owner_sleeps_.store(true, std::memory_order_seq_cst);
      }
    }
    ~OwnerSleep() {
      if (announced_) {
        lane_.owner_sleeps_.store(false, std::memory_order_relaxed);
      }
    }
    OwnerSleep(const OwnerSleep&) = delete;
    OwnerSleep& operator=(const OwnerSleep&) = delete;

   private:
    Lane& lane_;
    const bool announced_;
  };

  /// Owner of a lane without a back end; timeout as in futex_wait(), 0: not at all.
  void sleep_until_end_elsewhere(int64_t timeout_ns) noexcept {
    if (timeout_ns != 0) {
      futex_wait(ended_elsewhere_, collected_elsewhere_, timeout_ns);
    }
  }

  // ---- Accounts --------------------------------------------------------------------------------

  /// Owner. Its requests that have not ended, or whose callback it has not got yet.
  [[nodiscard]] uint32_t count_outstanding() const noexcept {
    // Acquire: an owner that sees nothing outstanding finds everything that was handed back.
    return submitted_ - ended_here_.load(std::memory_order_acquire) -
           ended_elsewhere_.load(std::memory_order_acquire);
  }
  /// Owner, as leader. Its requests that only a reap of this lane can end.
  [[nodiscard]] uint32_t count_in_back_end() const noexcept {
    return submitted_ - callbacks_kept_ - count_ended_here() -
           sent_elsewhere_.load(std::memory_order_relaxed);
  }
  /// Owner: a request is on its way.
  void count_submission() noexcept {
    ++submitted_;
    total_submitted_.store(count_all_submissions() + 1, std::memory_order_relaxed);
  }
  /// Any thread; a statistic.
  [[nodiscard]] uint64_t count_all_submissions() const noexcept {
    return total_submitted_.load(std::memory_order_relaxed);
  }

  bool unflushed = false;  ///< owner: the back end holds operations not handed over
  Lane* next = nullptr;    ///< of the service's list of all lanes, set once
  Counters counters;       ///< leader writes

 private:
  /// Owner, as leader.
  [[nodiscard]] bool has_requests_elsewhere() const noexcept {
    return sent_elsewhere_.load(std::memory_order_relaxed) !=
           ended_elsewhere_.load(std::memory_order_relaxed);
  }

  void wake_owner() noexcept {
    futex_wake(ended_elsewhere_);
    if (backend_ != nullptr) {
      backend_->wake();
    }
    wake_followers();
  }

  void wake_followers() noexcept {
    if (followers_.load(std::memory_order_seq_cst) != 0) {
      turn_.fetch_add(1, std::memory_order_seq_cst);
      futex_wake(turn_);
    }
  }

  std::unique_ptr<engine::Backend> backend_;
  std::atomic<uint32_t> leader_{0};
  std::atomic<uint32_t> followers_{0};
  std::atomic<uint32_t> turn_{0};
  std::atomic<bool> batching_{false};
  std::atomic<bool> owner_sleeps_{false};
  bool is_led_by_owner_ = false;  // the leader's
  uint32_t callbacks_kept_ = 0;   // in callbacks_
  RequestList callbacks_;

  // Counts of the owner's requests, modulo 2^32.
  uint32_t submitted_ = 0;               // but for those of hand_over_callbacks()
  std::atomic<uint32_t> ended_here_{0};  // without a callback; written by the leader
  std::atomic<uint32_t> sent_elsewhere_{0};
  std::atomic<uint32_t> ended_elsewhere_{0};  // a futex word
  uint32_t collected_elsewhere_ = 0;          // the owner's
  std::atomic<uint32_t> plain_ends_{0};       // not collected yet and without a callback
  Inbox returned_;                            // the others
  std::atomic<uint64_t> total_submitted_{0};  // written by the owner
};

}  // namespace ioweave::service
