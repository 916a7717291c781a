#include "calls/preload/stream.hpp"

#include <cerrno>

#include <unistd.h>

#include "base/futex.hpp"
#include "calls/preload/prefetcher.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/real.hpp"
#include "engine/prefetch.hpp"

namespace ioweave::calls {

constinit StreamPool streams;

namespace {

constexpr uint64_t kFirstNotifyBytes = 256u << 10;
constexpr uint32_t kMostUnheard = 16;
constexpr uint32_t kSlowReadsToStart = 3;
constexpr uint64_t kSlowBytesToStart = 128u << 10;
constexpr int64_t kMostCloseWaitNs = 1'000'000'000;

template <class T>
T peek(const std::atomic<T>& value) noexcept {
  return value.load(std::memory_order_relaxed);
}
template <class T>
void put(std::atomic<T>& value, T to) noexcept {
  value.store(to, std::memory_order_relaxed);
}

}  // namespace

/// Slower than memory: 15 us and 0.4 ns a byte. Fresh buffers are page-faulted in at about that
/// speed; the prefetcher then finds the file cached and loses nothing but the look.
bool Stream::is_slow(uint64_t bytes, uint64_t ticks) noexcept {
  const uint64_t ticks_per_us = process.ticks_per_us();
  return ticks > ticks_per_us * kFastUs + bytes * ticks_per_us / 2500;
}

void Stream::observe_closely(int64_t offset, uint64_t bytes, uint64_t ticks) noexcept {
  const bool slow = is_slow(bytes, ticks);
  if (const Gate gate = peek(gate_); gate != Gate::open && stays_asleep(gate, slow)) {
    return;
  }
  if (peek(run_bytes_) != 0 && peek(run_end_) != (offset < 0 ? -1 : offset)) {
    report(peek(unheard_) >= kMostUnheard);
  }
  extend_run(offset, bytes);
  if (slow) {
    put(run_slow_, 1u);
    put(slow_reads_, peek(slow_reads_) + 1);
  }
  if (slow || (peek(followed_) != 0 && peek(run_bytes_) >= peek(notify_bytes_))) {
    report(true);
  }
}

bool Stream::stays_asleep(Gate gate, bool slow) noexcept {
  const uint32_t left = peek(calls_to_sleep_);
  if (left != 0 && !(slow && gate == Gate::asleep_until_slow)) {
    put(calls_to_sleep_, left - 1);
    return true;
  }
  put(gate_, Gate::open);
  return false;
}

void Stream::before_seek() noexcept {
  if (peek(run_end_) >= 0 || peek(run_bytes_) == 0) {
    return;
  }
  if (peek(followed_) != 0 && peek(gate_) == Gate::open) {
    report(peek(unheard_) >= kMostUnheard);
  }
  put(run_bytes_, uint64_t{0});
}

/// Passes on the run that has added up.
void Stream::report(bool urgent) noexcept {
  const uint64_t bytes = run_bytes_.exchange(0, std::memory_order_relaxed);
  const bool slow = run_slow_.exchange(0, std::memory_order_relaxed) != 0;
  int64_t end = peek(run_end_);
  const bool worth_starting =
      slow && (bytes >= kSlowBytesToStart || peek(slow_reads_) >= kSlowReadsToStart);
  if (peek(followed_) == 0 && !worth_starting && !(slow && prefetcher.running())) {
    return;
  }
  if (end < 0) {
    const int saved = errno;
    end = real::lseek(fd, 0, SEEK_CUR);
    errno = saved;
  }
  if (bytes == 0 || end < static_cast<int64_t>(bytes)) {
    return;
  }
  tell(Observation::Kind::read, static_cast<uint64_t>(end) - bytes, bytes, slow, urgent);
}

void Stream::resized() noexcept {
  if (prefetcher.running()) {
    tell(Observation::Kind::resized, 0, 0, false, true);
  }
}

void Stream::tell(Observation::Kind kind, uint64_t offset, uint64_t bytes, bool slow,
                  bool urgent) noexcept {
  const auto number = static_cast<uint16_t>(this - streams.streams_.data());
  prefetcher.hear({kind, slow, number, generation(), offset, bytes});
  put(unheard_, urgent ? 0u : peek(unheard_) + 1);
  if (urgent) {
    prefetcher.wake();
  }
}

void Stream::sleep(Gate gate, uint32_t calls) noexcept {
  put(calls_to_sleep_, calls);
  put(gate_, gate);
}

void Stream::notify_every(uint64_t bytes) noexcept {
  put(notify_bytes_, bytes);
  put(followed_, 1u);
}

bool Stream::begin_slice() noexcept {
  // seq_cst against close(): either it sees the slice and waits, or we see that it is closing.
  slices_.fetch_add(1, std::memory_order_seq_cst);
  if (closing_.load(std::memory_order_seq_cst) == 0) {
    return true;
  }
  end_slice();
  return false;
}

void Stream::end_slice() noexcept {
  if (slices_.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
      closing_.load(std::memory_order_seq_cst) != 0) {
    futex_wake(slices_);
  }
}

bool Stream::wait_for_slices() noexcept {
  const Deadline deadline(kMostCloseWaitNs);
  while (const uint32_t left = slices_.load(std::memory_order_seq_cst)) {
    if (deadline.passed()) {
      return false;
    }
    futex_wait(slices_, left, deadline.left_ns());
  }
  return true;
}

// ---- Pool ---------------------------------------------------------------------------------------

Stream* StreamPool::open(int fd, const struct stat& status, stats::FileRecord& record,
                         Device* device) noexcept {
  const uint32_t start = peek(hint_);
  for (uint32_t step = 0; step < kStreams; ++step) {
    const uint32_t number = (start + step) % kStreams;
    Stream& stream = streams_[number];
    uint32_t nobody = 0;
    // Acquire pairs with close(): what its last user did is over.
    if (peek(stream.taken_) != 0 ||
        !stream.taken_.compare_exchange_strong(nobody, 1, std::memory_order_acquire)) {
      continue;
    }
    put(hint_, number + 1);
    stream.fd = fd;
    stream.device_id = status.st_dev;
    stream.inode = status.st_ino;
    stream.record = &record;
    stream.device = device;
    // Here and not when it is needed: a descriptor that the prefetch thread opened, for however
    // short, would take the lowest number from a program that counts on it.
    if (peek(device->read_ahead_bytes) == 0) {
      put(device->read_ahead_bytes, engine::read_ahead_bytes(status.st_dev));
    }
    put(stream.gate_, Stream::Gate::open);
    put(stream.notify_bytes_, kFirstNotifyBytes);
    put(stream.followed_, 0u);
    put(stream.run_end_, int64_t{-1});
    put(stream.run_bytes_, uint64_t{0});
    put(stream.run_slow_, 0u);
    put(stream.slow_reads_, 0u);
    put(stream.unheard_, 0u);
    put(stream.closing_, 0u);
    stream.generation_.fetch_add(1, std::memory_order_release);  // pairs with generation()
    return &stream;
  }
  return nullptr;
}

void StreamPool::close(Stream& stream) noexcept {
  const int saved = errno;
  if (peek(stream.followed_) != 0 && peek(stream.gate_) == Stream::Gate::open) {
    stream.report(false);
  }
  stream.closing_.store(1, std::memory_order_seq_cst);
  if (peek(stream.followed_) != 0 && prefetcher.running()) {
    // Slices that the policy still holds back are cancelled by the prefetcher.
    stream.tell(Observation::Kind::closed, 0, 0, false, true);
  }
  if (stream.wait_for_slices()) {
    stream.taken_.store(0, std::memory_order_release);  // pairs with open()
  }
  errno = saved;
}

void StreamPool::forget() noexcept {
  for (Stream& stream : streams_) {
    put(stream.slices_, 0u);
    put(stream.taken_, 0u);
  }
}

}  // namespace ioweave::calls
