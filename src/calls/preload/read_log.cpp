#include "calls/preload/read_log.hpp"

#include <cerrno>

#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "calls/libc/real.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/shared_file.hpp"
#include "calls/preload/table.hpp"
#include "config/run_config.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::calls {

constinit ReadLogWriter read_log;

bool ReadLogWriter::create(const char* path) noexcept {
  for (auto& part : parts_) {
    part.store(kUnknown, std::memory_order_relaxed);
  }
  void* const mapped = map_new_file(path, sizeof(stats::ReadLog));
  if (mapped == nullptr) {
    return false;
  }
  if (!make_sure_of_memory(mapped, offsetof(stats::ReadLog, read))) {
    engine::raw_syscall(SYS_munmap, mapped, sizeof(stats::ReadLog));
    return false;
  }
  auto* const log = static_cast<stats::ReadLog*>(mapped);
  log->version = config::kLayoutVersion;
  log->magic = stats::kReadLogMagic;
  log_.store(log, std::memory_order_release);  // pairs with note()
  return true;
}

/// Makes sure that the slot's memory is there: touching a page of a full tmpfs is SIGBUS.
bool ReadLogWriter::is_usable(stats::ReadLog& log, uint64_t slot) noexcept {
  std::atomic<uint8_t>& part = parts_[slot / kPartReads];
  uint8_t state = part.load(std::memory_order_relaxed);
  if (state == kUnknown) [[unlikely]] {
    const int saved = errno;
    stats::LoggedRead* const first = &log.read[slot / kPartReads * kPartReads];
    state = make_sure_of_memory(first, kPartReads * sizeof *first) ? kUsable : kRefused;
    part.store(state, std::memory_order_relaxed);
    errno = saved;
  }
  return state == kUsable;
}

void ReadLogWriter::note(uint32_t file, uint64_t offset, uint64_t bytes) noexcept {
  stats::ReadLog* const log = log_.load(std::memory_order_acquire);  // pairs with create()
  if (log == nullptr) {
    return;
  }
  // Relaxed: `taken` only ever grows, and what is in a slot was read before it grew.
  const uint64_t begun = log->begun.load(std::memory_order_relaxed);
  const bool is_full = begun - log->taken.load(std::memory_order_relaxed) >=
                       stats::ReadLog::kReads - stats::ReadLog::kSlack;
  if (is_full || !is_usable(*log, begun % stats::ReadLog::kReads)) [[unlikely]] {
    log->lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const uint64_t number = log->begun.fetch_add(1, std::memory_order_relaxed);
  const uint64_t slot = number % stats::ReadLog::kReads;
  if (!is_usable(*log, slot)) [[unlikely]] {
    return;  // others took the rest of the part: the command passes over the slot
  }
  stats::LoggedRead& read = log->read[slot];
  read.offset.store(offset, std::memory_order_relaxed);
  read.ticks.store(now_ticks(), std::memory_order_relaxed);
  read.file.store(file, std::memory_order_relaxed);
  read.bytes.store(static_cast<uint32_t>(bytes), std::memory_order_relaxed);
  // Pairs with the command's second look at the slot: who sees the number sees the rest.
  read.number.store(number + 1, std::memory_order_release);
}

[[gnu::noinline]] void log_read(const Entry& entry, int fd, int64_t offset,
                                int64_t bytes) noexcept {
  const stats::FileRecord* const record = entry.record.load(std::memory_order_relaxed);
  const stats::Segment* const segment = process.segment();
  if (record == nullptr || segment == nullptr || process.left_alone()) {
    return;  // closed meanwhile, or not to be disturbed
  }
  const auto number = static_cast<uint64_t>(record - segment->file);
  if (number >= stats::Segment::kFiles) {
    return;  // of another segment: the process was forked meanwhile
  }
  if (offset < 0) {
    const int saved = errno;
    offset = real::lseek(fd, 0, SEEK_CUR) - bytes;
    errno = saved;
    if (offset < 0) {
      return;
    }
  }
  read_log.note(static_cast<uint32_t>(number), static_cast<uint64_t>(offset),
                static_cast<uint64_t>(bytes));
}

}  // namespace ioweave::calls
