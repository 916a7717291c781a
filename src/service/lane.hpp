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

  /// Leader only: completed requests whose callback waits for the owner.
  RequestList& callbacks() noexcept { return callbacks_; }

  // ---- What ends elsewhere: requests of this thread that go through a pump ----------------------

  /// Any thread. The request has ended; its callback is the owner's to run.
  void hand_back(iow_request& request) noexcept {
    returned_.push(request);
    one_less_outstanding();
  }

  /// Any thread. One more of the owner's requests without a callback has ended.
  void note_end_elsewhere() noexcept {
    plain_ends_.fetch_add(1, std::memory_order_relaxed);  // published by the next line
    one_less_outstanding();
  }

  /// Owner: before taking what has ended elsewhere; news after this will keep it awake.
  void look_elsewhere() noexcept { seen_news_ = news_.load(std::memory_order_seq_cst); }
  [[nodiscard]] bool news_from_elsewhere() const noexcept {
    return news_.load(std::memory_order_seq_cst) != seen_news_;
  }

  /// Owner: takes over what was handed back, and the number of ends without a callback.
  void take_returned(RequestList& list) noexcept { returned_.take(list); }
  [[nodiscard]] uint32_t take_plain_ends() noexcept {
    return plain_ends_.exchange(0, std::memory_order_relaxed);
  }

  /// While it exists the owner may be asleep, and an end elsewhere wakes it; the owner looks at
  /// news_from_elsewhere() after creating it and before sleeping.
  class OwnerSleep {
   public:
    OwnerSleep(Lane& lane, bool sleeps) noexcept : lane_(lane), sleeps_(sleeps) {
      if (sleeps_) {
        lane_.owner_sleeps_.store(true, std::memory_order_seq_cst);
      }
    }
    ~OwnerSleep() {
      if (sleeps_) {
        lane_.owner_sleeps_.store(false, std::memory_order_relaxed);
      }
    }
    OwnerSleep(const OwnerSleep&) = delete;
    OwnerSleep& operator=(const OwnerSleep&) = delete;

   private:
    Lane& lane_;
    const bool sleeps_;
  };

  /// Owner of a lane without a back end; timeout as in futex_wait(), 0: not at all.
  void sleep_until_end_elsewhere(int64_t timeout_ns) noexcept {
    if (timeout_ns != 0) {
      futex_wait(news_, seen_news_, timeout_ns);
    }
  }

  // ---- Accounts --------------------------------------------------------------------------------

  /// Requests of this thread that have not ended, or whose callback waits in callbacks().
  /// The owner adds, whoever reaps subtracts, and only the owner looks.
  std::atomic<uint32_t> outstanding{0};
  std::atomic<uint64_t> submitted{0};  ///< owner writes
  std::atomic<uint64_t> fallbacks{0};  ///< owner writes
  Counters counters;                   ///< leader writes
  bool unflushed = false;              ///< owner: the back end holds operations not handed over
  Lane* next = nullptr;                ///< of the service's list of all lanes, set once

 private:
  /// Last of all, so that an owner that sees nothing outstanding finds everything handed back.
  void one_less_outstanding() noexcept {
    outstanding.fetch_sub(1, std::memory_order_release);  // pairs with the owner's acquire
    news_.fetch_add(1, std::memory_order_seq_cst);
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
  RequestList callbacks_;

  Inbox returned_;
  std::atomic<uint32_t> plain_ends_{0};
  std::atomic<uint32_t> news_{0};  // counts ends elsewhere; a futex word
  uint32_t seen_news_ = 0;         // the owner's
  std::atomic<bool> owner_sleeps_{false};
};

}  // namespace ioweave::service
