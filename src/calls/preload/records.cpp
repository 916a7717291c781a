#include "calls/preload/records.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/append_number.hpp"
#include "calls/preload/shared_file.hpp"
#include "config/glob.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::calls {

constinit Records records;

namespace {

constexpr uint32_t kUsed = 2;  // FileRecord::state
constexpr uint32_t kPopulateStep = 64;

const char* last_part(const char* path) {
  const char* const slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

uint64_t mix(uint64_t value) {
  value *= 0x9E3779B97F4A7C15u;
  return value ^ (value >> 29);
}

uint64_t hash(uint64_t device, uint64_t inode, const char* name) {
  uint64_t value = mix(device ^ mix(inode));
  for (; *name != '\0'; ++name) {
    value = (value ^ static_cast<unsigned char>(*name)) * 0x100000001B3u;
  }
  return mix(value);
}

/// Copies the end of a path that is too long, marked by "...".
void copy_path(char* to, size_t size, const char* path) {
  const size_t length = strlen(path);
  if (length < size) {
    memcpy(to, path, length + 1);
    return;
  }
  stpcpy(to, "...");
  memcpy(to + 3, path + length - (size - 4), size - 3);
}

constexpr size_t kPathBytes = 4096;

/// What the kernel calls the open file; `said` where it does not tell.
const char* path_of(int fd, const char* said, char* buffer, size_t size) {
  char link[40];
  append_number(stpcpy(link, "/proc/self/fd/"), static_cast<uint64_t>(fd));
  // Past what others have hooked: ThreadSanitizer would see its buffer shared without a lock.
  const long length = engine::raw_syscall(SYS_readlinkat, AT_FDCWD, link, buffer, size - 1);
  if (length <= 0) {
    return said;
  }
  buffer[length] = '\0';
  return buffer;
}

}  // namespace

bool Records::attach(stats::Segment& segment, const config::RunConfig& config) noexcept {
  segment_ = &segment;
  config_ = &config;
  forget();
  if (!populate(0)) {
    return false;
  }
  stats::FileRecord& common = segment.file[0];
  stpcpy(common.path, "(other files)");
  common.policy = config.policy;
  common.state.store(kUsed, std::memory_order_release);
  segment.files.store(1, std::memory_order_release);
  return true;
}

/// A forked child starts with its parent's.
void Records::forget() noexcept {
  for (auto& slot : index_) {
    slot.store(0, std::memory_order_relaxed);
  }
  populated_.store(0, std::memory_order_relaxed);
  common_.store(kCommonUnused, std::memory_order_relaxed);
}

/// Makes sure that the record's memory is there.
bool Records::populate(uint32_t record) noexcept {
  if (record < populated_.load(std::memory_order_relaxed)) {
    return true;
  }
  const uint32_t until = record + kPopulateStep < stats::Segment::kFiles ? record + kPopulateStep
                                                                         : stats::Segment::kFiles;
  auto* const begin = record == 0 ? reinterpret_cast<char*>(segment_)
                                  : reinterpret_cast<char*>(&segment_->file[record]);
  auto* const end = reinterpret_cast<char*>(&segment_->file[0] + until);
  if (!make_sure_of_memory(begin, static_cast<size_t>(end - begin))) {
    return false;
  }
  populated_.store(until, std::memory_order_relaxed);
  return true;
}

/// Makes sure that the memory of a series is there, and begins it.
uint32_t Records::claim_series(uint64_t ticks) noexcept {
  uint32_t number = segment_->series_in_use.load(std::memory_order_relaxed);
  do {
    if (number >= stats::Segment::kSeries) {
      return 0;
    }
  } while (!segment_->series_in_use.compare_exchange_weak(number, number + 1,
                                                          std::memory_order_relaxed));
  return begin_series(number, ticks) ? number : 0;
}

bool Records::begin_series(uint32_t number, uint64_t ticks) noexcept {
  if (!make_sure_of_memory(&segment_->series[number], sizeof segment_->series[number])) {
    return false;
  }
  stats::begin_series(segment_->series[number], ticks);
  return true;
}

/// The series of the files without one, which the first transfer begins. Null while another thread
/// begins it, and where its memory cannot be had.
stats::FileSeries* Records::common_series(uint64_t ticks) noexcept {
  uint32_t state = common_.load(std::memory_order_acquire);  // pairs with the store below
  if (state == kCommonUnused &&
      common_.compare_exchange_strong(state, kCommonRefused, std::memory_order_relaxed)) {
    segment_->series_in_use.store(1, std::memory_order_relaxed);
    state = begin_series(0, ticks) ? kCommonBegun : kCommonRefused;
    common_.store(state, std::memory_order_release);
  }
  return state == kCommonBegun ? &segment_->series[0] : nullptr;
}

stats::FileSeries* Records::find_series(stats::FileRecord& record, uint64_t ticks) noexcept {
  const int saved = errno;
  stats::FileSeries* const common = common_series(ticks);
  const uint64_t moved = record.call[static_cast<size_t>(stats::CallClass::read)].bytes.value() +
                         record.call[static_cast<size_t>(stats::CallClass::write)].bytes.value();
  // Record 0 gathers files beyond the capacity.
  const bool is_due =
      common != nullptr && &record != &segment_->file[0] && moved >= stats::Segment::kSeriesBytes;
  const uint32_t number = is_due ? claim_series(ticks) : 0;
  errno = saved;
  if (number == 0) {
    return common;
  }
  uint32_t none = 0;
  // Release pairs with series_of(). A series lost to a race stays empty.
  record.series.compare_exchange_strong(none, number, std::memory_order_acq_rel);
  return &segment_->series[none == 0 ? number : none];
}

stats::FileRecord* Records::of_file(int fd, const char* path, const struct stat& status) noexcept {
  stats::FileRecord* const record =
      find_or_add(fd, {status.st_dev, status.st_ino, path != nullptr ? path : ""});
  __atomic_fetch_add(&record->opens, 1, __ATOMIC_RELAXED);
  return record;
}

stats::FileRecord* Records::inherit(const stats::FileRecord& theirs) noexcept {
  return find_or_add(-1, {theirs.device, theirs.inode, theirs.path});
}

stats::FileRecord* Records::find_or_add(int fd, const Key& key) noexcept {
  const char* const name = last_part(key.path);
  uint32_t fresh = 0;
  uint64_t at = hash(key.device, key.inode, name);
  for (size_t probes = 0; probes < kIndex; ++probes, ++at) {
    std::atomic<uint32_t>& slot = index_[at % kIndex];
    // Acquire pairs with the exchange below: who sees the number sees the record filled in.
    uint32_t number = slot.load(std::memory_order_acquire);
    if (number == 0) {
      fresh = fresh != 0 ? fresh : add(fd, key);
      if (fresh == 0) {
        return &segment_->file[0];
      }
      if (slot.compare_exchange_strong(number, fresh + 1, std::memory_order_acq_rel)) {
        segment_->file[fresh].state.store(kUsed, std::memory_order_release);
        return &segment_->file[fresh];
      }
    }
    stats::FileRecord& known = segment_->file[number - 1];
    if (known.device == key.device && known.inode == key.inode &&
        strcmp(last_part(known.path), name) == 0) {
      return &known;  // a record lost to a race stays unused
    }
  }
  return &segment_->file[0];
}

/// Fills in a new record; 0 where none is left.
uint32_t Records::add(int fd, const Key& key) noexcept {
  uint32_t number = segment_->files.load(std::memory_order_relaxed);
  do {
    if (number >= stats::Segment::kFiles) {
      return 0;
    }
  } while (!segment_->files.compare_exchange_weak(number, number + 1, std::memory_order_relaxed));
  if (!populate(number)) {
    return 0;
  }
  stats::FileRecord& record = segment_->file[number];
  record.device = key.device;
  record.inode = key.inode;
  if (fd < 0) {
    name(record, key.path, key.path);
    return number;
  }
  // A handler on a small stack of its own may be opening a file. Whoever holds the common memory
  // gives it back in microseconds, unless this is a handler that interrupts it.
  static constinit std::atomic_flag taken;
  static constinit char common[kPathBytes];
  constexpr int kPatience = 1000;
  for (int i = 0; i < kPatience; ++i) {
    if (!taken.test_and_set(std::memory_order_acquire)) {
      name(record, path_of(fd, key.path, common, sizeof common), key.path);
      taken.clear(std::memory_order_release);
      return number;
    }
  }
  name_with_stack(record, fd, key.path);
  return number;
}

void Records::name(stats::FileRecord& record, const char* path, const char* said) const noexcept {
  // The last part must stay what the program calls it, or it would not be found again.
  const bool renamed = strcmp(last_part(path), last_part(said)) != 0;
  copy_path(record.path, sizeof record.path, renamed ? said : path);
  record.policy = config::policy_of(*config_, path);
}

[[gnu::noinline]] void Records::name_with_stack(stats::FileRecord& record, int fd,
                                                const char* said) const noexcept {
  char buffer[kPathBytes];
  name(record, path_of(fd, said, buffer, sizeof buffer), said);
}

}  // namespace ioweave::calls
