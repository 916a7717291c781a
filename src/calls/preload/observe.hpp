#pragma once

// What every wrapped transfer does around the real call. The path of a cached read under policy
// `off` is: bounds check, entry, two looks at the cycle counter, three additions.
//
// Neither noexcept nor destructors here: cancelling a thread inside the real call unwinds through
// these frames, and our copy of the unwinder must have no part in that (it is linked statically and
// may differ from the C library's).

#include <atomic>
#include <cerrno>
#include <cstdint>

#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include "calls/preload/choices.hpp"
#include "calls/preload/engine_calls.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/read_log.hpp"
#include "calls/preload/table.hpp"
#include "calls/preload/write_behind.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::calls {

/// A sign of life for the segment, at most every few milliseconds: its cache line is everybody's.
inline void note_alive(uint64_t ticks) noexcept {
  constexpr uint64_t kRarely = 1u << 24;
  stats::Segment* const segment = process.segment();
  if (segment != nullptr && ticks - segment->end_ticks.load(std::memory_order_relaxed) > kRarely) {
    segment->end_ticks.store(ticks, std::memory_order_relaxed);
  }
}

/// Notes a call in the series of its file.
[[gnu::always_inline]] inline void note_in_series(stats::FileRecord& record, stats::CallClass call,
                                                  int64_t offset, int64_t result, uint64_t begin,
                                                  uint64_t end, bool is_owner) noexcept {
  stats::FileSeries* const series = records.series_of(record, begin);
  if (series == nullptr) [[unlikely]] {
    return;
  }
  const auto bytes = static_cast<uint64_t>(result > 0 ? result : 0);
  if (call == stats::CallClass::read) {
    note_read(*series, bytes, begin, end, is_owner);
    if (offset >= 0) {
      note_offset(*series, static_cast<uint64_t>(offset), bytes);
    }
  } else if (call == stats::CallClass::write) {
    note_write(*series, bytes, begin, end, is_owner);
  } else if (call == stats::CallClass::sync) {
    note_sync(*series, begin, end, is_owner);
  }
}

/// Accounts for a call that took from `begin` until now, and notes where a read at an offset was.
[[gnu::always_inline]] inline void account_for_call(Entry& entry, stats::CallClass call,
                                                    int64_t offset, int64_t result,
                                                    uint64_t begin) noexcept {
  const uint64_t end = call_ticks();
  stats::FileRecord* const record = entry.record.load(std::memory_order_relaxed);
  if (record == nullptr || process.left_alone()) [[unlikely]] {
    return;  // closed meanwhile
  }
  const bool is_owner = count_call(*record, call, result, end - begin);
  note_in_series(*record, call, offset, result, begin, end, is_owner);
  note_alive(end);
  if (call == stats::CallClass::read && offset >= 0 && result > 0 && entry.has(Entry::places)) {
    note_place(*record, static_cast<uint64_t>(offset), static_cast<uint64_t>(result));
  }
}

/// Makes the real call and accounts for it.
template <class Call>
[[gnu::always_inline]] inline auto observe_call(Entry& entry, stats::CallClass call, int64_t offset,
                                                Call real_call) {
  const uint64_t begin = call_ticks();
  const auto result = real_call();
  account_for_call(entry, call, offset, result, begin);
  return result;
}

/// Before a call on this descriptor, tracked or not: what is held of its file. Slow.
[[gnu::noinline]] inline void drain_for(const Entry* entry, int fd) {
  const stats::FileRecord* const record =
      entry != nullptr ? entry->record.load(std::memory_order_relaxed) : nullptr;
  // The number may have been closed behind our back, and be another file's.
  if (record != nullptr && still_is(*record, fd)) {
    call_uncancelled([=] { write_behind.drain(*record); });
  } else {
    come_after_writes();
  }
}

inline void come_after_writes_of(const Entry* entry, int fd) {
  if (holds_writes()) [[unlikely]] {
    drain_for(entry, fd);
  }
}

/// Before a transfer on a descriptor that is not tracked. A read of a pipe tells nobody anything,
/// and who serves a file system by /dev/fuse must not wait for itself.
[[gnu::noinline]] inline void drain_for_untracked(int fd, stats::CallClass call) {
  struct stat status {};
  if (engine::raw_syscall(SYS_fstat, fd, &status) != 0) {
    return;
  }
  const bool tells = call == stats::CallClass::write && !S_ISCHR(status.st_mode);
  if (S_ISREG(status.st_mode) || tells) {
    come_after_writes();
  }
}

/// Returns what a call that was made another way gives the program.
inline ssize_t answer_of(int64_t result) noexcept {
  if (result < 0) {
    errno = static_cast<int>(-result);
    return -1;
  }
  return static_cast<ssize_t>(result);
}

/// A write that is held back where that is possible, else the real call.
template <class Call>
[[gnu::noinline]] ssize_t write_behind_program(Entry& entry, const Transfer& transfer,
                                               Call real_call) {
  return observe_call(entry, stats::CallClass::write, transfer.offset, [&]() -> ssize_t {
    stats::FileRecord* const file = entry.record.load(std::memory_order_relaxed);
    if (file == nullptr) {
      return real_call();
    }
    pthread_testcancel();  // the call it stands for is a cancellation point
    bool is_taken = false;
    int64_t result = 0;
    call_uncancelled([&] { is_taken = write_behind.take(transfer, *file, result); });
    return is_taken ? answer_of(result) : real_call();
  });
}

/// A transfer that goes the way that was found to be the fastest.
template <class Call>
[[gnu::noinline]] ssize_t transfer_by_choice(Entry& entry, stats::CallClass call,
                                             const Transfer& transfer, Call real_call) {
  return observe_call(entry, call, transfer.offset, [&]() -> ssize_t {
    stats::FileRecord* const file = entry.record.load(std::memory_order_relaxed);
    if (file == nullptr) {
      come_after_writes();
      return real_call();
    }
    const bool is_read = call == stats::CallClass::read;
    const ChosenCall::Allowed allowed{
        entry.has(is_read ? Entry::engine_reads : Entry::engine_writes),
        !is_read && entry.has(Entry::holds_back)};
    ChosenCall chosen(*file, transfer);
    pthread_testcancel();  // the call it stands for is a cancellation point
    bool is_made = false;
    int64_t result = 0;
    call_uncancelled([&] { is_made = chosen.make(allowed, result); });
    if (is_made) {
      return answer_of(result);
    }
    const ssize_t answer = real_call();
    if (chosen.is_noted()) {
      call_uncancelled([&] { chosen.note_plain_call(answer); });
    }
    return answer;
  });
}

/// A transfer that may go another way than the program's call, or a read that is logged.
template <stats::CallClass call, class Call, class Describe>
[[gnu::noinline]] ssize_t transfer_unusually(Entry& entry, int fd, int64_t offset, Call real_call,
                                             Describe describe) {
  constexpr bool is_read = call == stats::CallClass::read;
  if (!is_read && entry.has(Entry::always_holds_back)) {
    return write_behind_program(entry, describe(), real_call);
  }
  constexpr uint32_t kChoosing =
      is_read ? uint32_t{Entry::engine_reads} : uint32_t{Entry::engine_writes} | Entry::holds_back;
  const bool is_chosen = entry.has(kChoosing);
  if (!is_chosen) {
    come_after_writes_of(&entry, fd);
  }
  const ssize_t result = is_chosen ? transfer_by_choice(entry, call, describe(), real_call)
                                   : observe_call(entry, call, offset, real_call);
  if (is_read && result > 0 && entry.has(Entry::logs_reads)) {
    log_read(entry, fd, offset, result);
  }
  return result;
}

/// A read or write on a descriptor, tracked or not. `transfer` makes the description that only the
/// engine needs.
template <stats::CallClass call, class Call, class Describe>
[[gnu::always_inline]] inline ssize_t perform_transfer(int fd, int64_t offset, Call real_call,
                                                       Describe describe) {
  Entry* const entry = table.find(fd);
  constexpr uint32_t kUnusual =
      call == stats::CallClass::read
          ? uint32_t{Entry::engine_reads} | Entry::logs_reads
          : uint32_t{Entry::engine_writes} | Entry::holds_back | Entry::always_holds_back;
  if (entry != nullptr && entry->has(kUnusual)) [[unlikely]] {
    return transfer_unusually<call>(*entry, fd, offset, real_call, describe);
  }
  if (entry == nullptr) {
    if (holds_writes()) [[unlikely]] {
      drain_for_untracked(fd, call);
    }
    return real_call();
  }
  come_after_writes_of(entry, fd);
  return observe_call(*entry, call, offset, real_call);
}

/// A call that is counted and never replaced.
template <class Call>
auto make_counted_call(int fd, stats::CallClass call, Call real_call) {
  Entry* const entry = table.find(fd);
  come_after_writes_of(entry, fd);
  return entry == nullptr ? real_call() : observe_call(*entry, call, 0, real_call);
}

/// A call that makes a file durable. It returns an error of writes that were held back.
template <class Call>
int make_durable(int fd, Call real_call) {
  return make_counted_call(fd, stats::CallClass::sync, [=] {
    const int result = real_call();
    Entry* const entry = table.find(fd);
    const stats::FileRecord* const record =
        entry != nullptr ? entry->record.load(std::memory_order_relaxed) : nullptr;
    int error = 0;
    if (record != nullptr && entry->has(uint32_t{Entry::holds_back} | Entry::always_holds_back)) {
      call_uncancelled([&] { error = write_behind.take_error(*record); });
    }
    if (error == 0) {
      return result;
    }
    errno = error;
    return -1;
  });
}

/// A call that moves bytes between two descriptors, counted as a read of the one, or else on the
/// one that is written to. `at`: where it reads, which the call moves on; null: at the descriptor's
/// position.
template <class Call>
ssize_t move_between(int from, const off_t* at, int to, Call real_call) {
  come_after_writes();
  Entry* const entry = table.find(from);
  if (entry == nullptr) {
    return make_counted_call(to, stats::CallClass::other, real_call);
  }
  const uint64_t begin = call_ticks();
  const ssize_t result = real_call();
  const int64_t offset = at != nullptr && result > 0 ? *at - result : -1;
  account_for_call(*entry, stats::CallClass::read, offset, result, begin);
  if (entry->has(Entry::logs_reads) && result > 0) [[unlikely]] {
    log_read(*entry, from, offset, result);
  }
  return result;
}

}  // namespace ioweave::calls
