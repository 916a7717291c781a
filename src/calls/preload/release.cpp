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
/// So many in vain: the command does not look, for it is stopped, or its file system hangs.
constexpr uint32_t kMostUnanswered = 16;
constexpr uint64_t kKeptNs = 2'000'000'000;

}  // namespace

bool ask_for_release(Asks asks) noexcept {
  stats::RunState* const state = process.run_state();
  if (state == nullptr || process.left_alone()) {
    return false;
  }
  if (asks == Asks::forever) {
    state->listeners.fetch_add(1, std::memory_order_relaxed);
  }
  const uint32_t number = state->asked.fetch_add(1, std::memory_order_relaxed) + 1;
  // Pairs with that of RunState::will_open(): one of us sees what the other has written.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint32_t unanswered = number - state->answered.load(std::memory_order_relaxed);
  if (state->is_open.load(std::memory_order_relaxed) == 0 || unanswered > kMostUnanswered) {
    return false;
  }
  const uint64_t begin = now_ns();
  while (static_cast<int32_t>(state->answered.load(std::memory_order_acquire) - number) < 0) {
    if (now_ns() - begin > kMostWaitNs) return false;
    const timespec wait{0, kLookNs};
    (void)engine::raw_syscall(SYS_nanosleep, &wait, nullptr);
  }
  return true;
}

bool had_kept_files() noexcept {
  const stats::RunState* const state = process.run_state();
  if (state == nullptr || process.left_alone()) {
    return false;
  }
  const uint64_t last_ns = state->kept_open_ns.load(std::memory_order_relaxed);
  return last_ns != 0 && now_ns() - last_ns < kKeptNs;
}

}  // namespace ioweave::calls
