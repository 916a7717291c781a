#include "stream/watch/run_state.hpp"

#include <atomic>
#include <cstddef>

#include <fcntl.h>
#include <unistd.h>

#include "stats/segment.hpp"

namespace ioweave::stream {
namespace {

template <class Value>
bool write_field(int file, size_t field, Value value) noexcept {
  const auto at = static_cast<off_t>(stats::kRunStateOffset + field);
  return pwrite(file, &value, sizeof value, at) == ssize_t{sizeof value};
}

}  // namespace

RunState::RunState(const std::string& run_directory) {
  if (run_directory.empty()) return;
  const std::string path = run_directory + "/" + config::kConfigName;
  file_ = Descriptor(open(path.c_str(), O_RDWR | O_CLOEXEC));
}

RunState::Request RunState::request() noexcept {
  uint32_t counts[2] = {};
  static_assert(offsetof(stats::RunState, listeners) ==
                offsetof(stats::RunState, asked) + sizeof(uint32_t));
  const auto at = static_cast<off_t>(stats::kRunStateOffset + offsetof(stats::RunState, asked));
  if (!file_.is_open() || pread(file_.get(), counts, sizeof counts, at) != sizeof counts) return {};
  seen_asked_ = counts[0];
  seen_listeners_ = counts[1];
  return {seen_asked_ != asked_, seen_listeners_ != listeners_};
}

void RunState::announce_none_open() noexcept {
  if (!is_open_) return;
  is_open_ = false;
  (void)write_field(file_.get(), offsetof(stats::RunState, is_open), uint32_t{0});
}

void RunState::answer() noexcept {
  if (!file_.is_open()) return;
  asked_ = seen_asked_;
  listeners_ = seen_listeners_;
  announce_none_open();
  (void)write_field(file_.get(), offsetof(stats::RunState, answered), asked_);
}

bool RunState::announce_opening() noexcept {
  if (!file_.is_open() || is_open_) return true;
  is_open_ = write_field(file_.get(), offsetof(stats::RunState, is_open), uint32_t{1});
  // Pairs with the fence of a process that asks: one of the two sees what the other has written.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return is_open_;
}

void RunState::announce_open(bool is_kept, uint64_t now_ns) noexcept {
  if (!file_.is_open()) return;
  (void)write_field(file_.get(), offsetof(stats::RunState, open_ns), now_ns);
  if (is_kept) (void)write_field(file_.get(), offsetof(stats::RunState, kept_open_ns), now_ns);
}

}  // namespace ioweave::stream
