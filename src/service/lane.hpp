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

  [[nodiscard]] bool try_lead() noexcept {
    return leader_.load(std::memory_order_relaxed) == 0 &&
           leader_.exchange(1, std::memory_order_acquire) == 0;  // pairs with stop_leading()
  }

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

  /// Leader only: a request has ended here whose callback waits for the owner.
  void keep_callback(iow_request& request) noexcept {
    callbacks_.push(request);
    ++callbacks_kept_;
  }
  [[nodiscard]] bool has_callbacks() const noexcept { return callbacks_kept_ != 0; }
  /// Owner, as leader: takes them over. They are not outstanding any more, or a callback among them
  /// that polls would wait for those behind it.
  void take_callbacks(RequestList& list) noexcept {
    std::swap(list, callbacks_);
    taken_ -= std::exchange(callbacks_kept_, 0);
  }

  // ---- What ends elsewhere: requests of this thread that go through a pump ----------------------

  /// Owner, or leader. One of the owner's requests goes to a pump.
  void sent_elsewhere() noexcept { sent_.fetch_add(1, std::memory_order_relaxed); }

  /// Any thread. The request has ended; its callback is the owner's to run.
  void hand_back(iow_request& request) noexcept {
    returned_.push(request);
    ended_elsewhere();
  }

  /// Any thread. One more of the owner's requests without a callback has ended.
  void note_end_elsewhere() noexcept {
    plain_ends_.fetch_add(1, std::memory_order_relaxed);  // published by the next line
    ended_elsewhere();
  }

  /// Owner: takes over what was handed back, and answers the number of ends without a callback.
  /// What ends after this is news.
  [[nodiscard]] uint32_t take_ended_elsewhere(RequestList& list) noexcept {
    const uint32_t news = news_.load(std::memory_order_seq_cst);
    if (news == seen_news_) {
      return 0;
    }
    seen_news_ = news;
    returned_.take(list);
    return plain_ends_.exchange(0, std::memory_order_relaxed);
  }
  [[nodiscard]] bool news_from_elsewhere() const noexcept {
    return news_.load(std::memory_order_seq_cst) != seen_news_;
  }

  /// While it exists the owner may be asleep, and an end elsewhere wakes it; the owner looks at
  /// news_from_elsewhere() after creating it and before sleeping. Costs nothing where nothing is
  /// elsewhere: as leader, the owner is sure that nothing goes there before it has slept.
  class OwnerSleep {
   public:
    OwnerSleep(Lane& lane, bool leads) noexcept
        : lane_(lane), announced_(!leads || lane.something_elsewhere()) {
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
      futex_wait(news_, seen_news_, timeout_ns);
    }
  }

  // ---- Accounts --------------------------------------------------------------------------------

  /// Owner. Its requests that have not ended, or whose callback it has not taken yet.
  [[nodiscard]] uint32_t outstanding() const noexcept {
    // Acquire: an owner that sees nothing outstanding finds everything that was handed back.
    return taken_ - ended_here_.load(std::memory_order_acquire) -
           news_.load(std::memory_order_acquire);
  }
  /// Owner: has submitted a request.
  void took_one() noexcept { ++taken_; }
  /// Leader: requests without a callback have ended in this lane.
  void ended_here(uint32_t count) noexcept {
    ended_here_.store(ended_here_.load(std::memory_order_relaxed) + count,
                      std::memory_order_release);
  }

  std::atomic<uint64_t> submitted{0};  ///< owner writes
  bool unflushed = false;              ///< owner: the back end holds operations not handed over
  Lane* next = nullptr;                ///< of the service's list of all lanes, set once
  Counters counters;                   ///< leader writes

 private:
  /// Owner, as leader.
  [[nodiscard]] bool something_elsewhere() const noexcept {
    return sent_.load(std::memory_order_relaxed) != news_.load(std::memory_order_relaxed);
  }

  /// Last of all, so that an owner that sees nothing outstanding finds everything handed back.
  void ended_elsewhere() noexcept {
    news_.fetch_add(1, std::memory_order_seq_cst);  // pairs with outstanding(), OwnerSleep
    if (owner_sleeps_.load(std::memory_order_seq_cst)) {
      futex_wake(news_);
      if (backend_ != nullptr) {
        backend_->wake();
      }
      wake_followers();
    }
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
  uint32_t callbacks_kept_ = 0;  // in callbacks_
  RequestList callbacks_;

  // Counts of the owner's requests, modulo 2^32.
  uint32_t taken_ = 0;                   // submitted, but for those in take_callbacks()
  std::atomic<uint32_t> ended_here_{0};  // without a callback; written by the leader
  std::atomic<uint32_t> sent_{0};        // to the pumps
  std::atomic<uint32_t> news_{0};        // ended there; a futex word
  uint32_t seen_news_ = 0;               // the owner's
  std::atomic<uint32_t> plain_ends_{0};  // of those, not taken yet and without a callback
  Inbox returned_;                       // the others
};

}  // namespace ioweave::service
