#pragma once

// What every wrapped transfer does around the real call. The path of a cached read under policy
// `off` is: bounds check, entry, two looks at the cycle counter, three additions.
//
// Neither noexcept nor destructors here: cancelling a thread inside the real call unwinds through
// these frames, and our copy of the unwinder must have no part in that (it is linked statically and
// may differ from the C library's). What must be undone then is a pthread cleanup handler.

#include <atomic>
#include <cerrno>
#include <cstdint>

#include <pthread.h>

#include "base/clock.hpp"
#include "calls/preload/engine_calls.hpp"
#include "calls/preload/prefetcher.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/table.hpp"

namespace ioweave::calls {

/// A sign of life for the segment, at most every few milliseconds: its cache line is everybody's.
inline void note_alive(uint64_t ticks) noexcept {
  constexpr uint64_t kRarely = 1u << 24;
  stats::Segment* const segment = process.segment();
  if (segment != nullptr && ticks - segment->end_ticks.load(std::memory_order_relaxed) > kRarely) {
    segment->end_ticks.store(ticks, std::memory_order_relaxed);
  }
}

/// Accounts for a call that took from `begin` until now, and tells the stream of a read.
[[gnu::always_inline]] inline void account(Entry& entry, stats::CallClass call, int64_t offset,
                                           int64_t result, uint64_t begin) noexcept {
  const uint64_t end = now_ticks();
  stats::FileRecord* const record = entry.record.load(std::memory_order_relaxed);
  if (record == nullptr) [[unlikely]] {
    return;  // closed meanwhile
  }
  count_call(*record, call, result, end - begin);
  note_alive(end);
  if (call == stats::CallClass::read) {
    Stream* const stream = entry.stream.load(std::memory_order_relaxed);
    if (stream != nullptr && result > 0) [[unlikely]] {
      stream->observe(offset, static_cast<uint64_t>(result), end - begin);
    }
  }
}

inline void end_foreground(void* device) {
  prefetcher.foreground_end(*static_cast<Device*>(device));
}

template <class Call>
[[gnu::noinline]] ssize_t observed_beside_prefetch(Entry& entry, stats::CallClass call,
                                                   int64_t offset, Device& device, Call real_call) {
  ssize_t result = -1;
  prefetcher.foreground_begin(device);
  pthread_cleanup_push(&end_foreground, &device);
  const uint64_t begin = now_ticks();
  result = real_call();
  account(entry, call, offset, result, begin);
  pthread_cleanup_pop(1);
  return result;
}

/// Makes the real call and accounts for it.
template <class Call>
[[gnu::always_inline]] inline ssize_t observed(Entry& entry, stats::CallClass call, int64_t offset,
                                               Call real_call) {
  Device* const device = entry.device.load(std::memory_order_relaxed);
  if (device != nullptr && device->prefetching.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    return observed_beside_prefetch(entry, call, offset, *device, real_call);
  }
  const uint64_t begin = now_ticks();
  const ssize_t result = real_call();
  account(entry, call, offset, result, begin);
  return result;
}

/// By the engine where that is possible, else the real call. To the prefetcher it is a call of the
/// program like any other.
template <class Call>
[[gnu::noinline]] ssize_t by_engine(Entry& entry, stats::CallClass call, const Transfer& transfer,
                                    Call real_call) {
  return observed(entry, call, transfer.offset, [&]() -> ssize_t {
    int64_t result = 0;
    if (transfer.bytes == 0 || transfer.offset < -1 || !carry_out(transfer, result)) {
      return real_call();
    }
    if (result < 0) {
      errno = static_cast<int>(-result);
      return -1;
    }
    return result;
  });
}

/// A read or write on a descriptor, tracked or not. `transfer` makes the description that only the
/// engine needs.
template <stats::CallClass call, class Call, class Describe>
[[gnu::always_inline]] inline ssize_t transferred(int fd, int64_t offset, Call real_call,
                                                  Describe describe) {
  Entry* const entry = table.find(fd);
  if (entry == nullptr) {
    return real_call();
  }
  constexpr uint32_t kByEngine =
      call == stats::CallClass::read ? Entry::engine_reads : Entry::engine_writes;
  if ((entry->flags.load(std::memory_order_relaxed) & kByEngine) != 0) [[unlikely]] {
    return by_engine(*entry, call, describe(), real_call);
  }
  return observed(*entry, call, offset, real_call);
}

/// A call that is counted but neither followed nor replaced.
template <class Call>
ssize_t counted(int fd, stats::CallClass call, Call real_call) {
  Entry* const entry = table.find(fd);
  return entry == nullptr ? real_call() : observed(*entry, call, 0, real_call);
}

}  // namespace ioweave::calls
