#include "calls/preload/release.hpp"

#include <atomic>
#include <ctime>

#include <sys/syscall.h>

#include "base/clock.hpp"
#include "calls/preload/process.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::calls {
namespace {

constexpr uint64_t kMostWaitNs = 100'000'000;
constexpr long kLookNs = 200'000;
/// So often in vain: the command does not look, for it is stopped or gone, or its file system
/// hangs.
constexpr uint32_t kMostUnanswered = 3;
constexpr uint64_t kMomentNs = 200'000'000;
constexpr uint64_t kKeptNs = 2'000'000'000;

bool is_recent(const std::atomic<uint64_t>& last, uint64_t within_ns) noexcept {
  const uint64_t last_ns = last.load(std::memory_order_relaxed);
  return last_ns != 0 && now_ns() - last_ns < within_ns;
}

}  // namespace

bool ask_for_release(Asks asks) noexcept {
  stats::RunState* const state = process.run_state();
  if (state == nullptr || process.left_alone()) {
    return false;
  }
  if (asks == Asks::forever) {
    state->listeners.fetch_add(1, std::memory_order_relaxed);
  }
  // Release: whoever sees the number sees that it is a listener's.
  const uint32_t number = state->asked.fetch_add(1, std::memory_order_release) + 1;
  // Pairs with that of RunState::announce_opening(): one of us sees what the other has written.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (state->is_open.load(std::memory_order_relaxed) == 0) {
    return is_recent(state->open_ns, kMomentNs);
  }
  if (state->unanswered.load(std::memory_order_relaxed) >= kMostUnanswered) {
    return false;
  }
  const uint64_t begin = now_ns();
  while (static_cast<int32_t>(state->answered.load(std::memory_order_acquire) - number) < 0) {
    if (now_ns() - begin > kMostWaitNs) {
      state->unanswered.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    const timespec wait{0, kLookNs};
    (void)engine::raw_syscall(SYS_nanosleep, &wait, nullptr);
  }
  state->unanswered.store(0, std::memory_order_relaxed);
  return true;
}

bool had_kept_files() noexcept {
  const stats::RunState* const state = process.run_state();
  if (state == nullptr || process.left_alone()) {
    return false;
  }
  return is_recent(state->kept_open_ns, kKeptNs);
}

}  // namespace ioweave::calls
