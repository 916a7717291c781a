#include "calls/preload/write_behind.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/append_number.hpp"
#include "base/clock.hpp"
#include "base/errno_kept.hpp"
#include "base/file_system_kind.hpp"
#include "base/file_time.hpp"
#include "base/process_start.hpp"
#include "calls/libc/file_size_limit.hpp"
#include "calls/libc/signal_context.hpp"
#include "calls/preload/always_unusual.hpp"
#include "calls/preload/engine_calls.hpp"
#include "calls/preload/maps_text.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/records.hpp"
#include "calls/preload/shared_file.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::calls {

extern "C" {
constinit std::atomic<uint32_t> ioweave_held_blocks{0};
}
constinit WriteBehind write_behind;
constinit std::atomic<bool> uses_file_locks{false};

namespace {

using engine::Op;
using engine::raw_syscall;
using stats::BehindPool;
using stats::BehindRanges;

constexpr uint32_t kMostFilling = 16;  // blocks that are not full and wait for more
constexpr uint64_t kMostAgeNs = 50'000'000;
constexpr int64_t kLookNs = 10'000'000;   // of threads at the ages
constexpr int64_t kIdleNs = 100'000'000;  // then a thread ends
constexpr int64_t kPatienceNs = 50'000'000;
constexpr size_t kMostVectors = 64;
constexpr uint64_t kDirectBytes = 4096;            // no device asks for more
constexpr int64_t kMostOffset = int64_t{1} << 42;  // behind which a file system may know better
constexpr size_t kMostBytes = 0x7ffff000;          // of one call

constexpr uint64_t kBlockBytes = BehindPool::kBlockBytes;

// base/futex.hpp would come back here: it makes its calls by syscall(2), which is wrapped.

void wait_while(const std::atomic<uint32_t>& word, uint32_t value, int64_t timeout_ns) noexcept {
  const timespec limit{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  raw_syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, timeout_ns >= 0 ? &limit : nullptr);
}

void wake(const std::atomic<uint32_t>& word, int threads) noexcept {
  raw_syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, threads);
}

constexpr uint64_t begin_of_block(uint64_t offset) noexcept {
  return offset / kBlockBytes * kBlockBytes;
}

struct FileIdentity {
  uint64_t device;
  uint64_t inode;
  bool is_direct;

  [[nodiscard]] bool is_of(int fd) const noexcept {
    struct stat status {};
    return fd >= 0 && raw_syscall(SYS_fstat, fd, &status) == 0 && status.st_dev == device &&
           status.st_ino == inode;
  }
  /// Whether a block can be written by it.
  [[nodiscard]] bool is_written_by(int fd) const noexcept {
    const long flags = fd >= 0 ? raw_syscall(SYS_fcntl, fd, F_GETFL) : -1;
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && (flags & (O_APPEND | O_PATH)) == 0 &&
           ((flags & O_DIRECT) != 0) == is_direct && is_of(fd);
  }
};

/// Returns when the kernel has forgotten a thread that was joined, which is a little later: only
/// then may the process be one of a single thread, as unshare(2) asks.
void await_kernel_thread(int pid, int thread) noexcept {
  constexpr int kMostLooks = 10'000;
  const timespec moment{0, 20'000};
  for (int i = 0; i < kMostLooks && raw_syscall(SYS_tgkill, pid, thread, 0) == 0; ++i) {
    raw_syscall(SYS_nanosleep, &moment, nullptr);
  }
}

/// Copies bytes of this process that may not be readable. Returns how many could be read.
size_t copy_if_readable(int pid, void* to, const void* from, size_t bytes) noexcept {
  const iovec local{to, bytes};
  const iovec remote{const_cast<void*>(from), bytes};
  const long copied = raw_syscall(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0);
  return copied > 0 ? static_cast<size_t>(copied) : 0;
}

/// Returns 0 or an errno.
int write_all(int fd, const char* data, size_t bytes, uint64_t offset) noexcept {
  while (bytes > 0) {
    const long written = raw_syscall(SYS_pwrite64, fd, data, bytes, static_cast<off_t>(offset));
    if (written == -EINTR) continue;
    if (written <= 0) return written == 0 ? EIO : static_cast<int>(-written);
    data += written;
    bytes -= static_cast<size_t>(written);
    offset += static_cast<uint64_t>(written);
  }
  return 0;
}

/// Programs that compare what they do (tests/differential) note it in memory that they share.
constexpr bool kHeedsSharedMemory = !kIsAlwaysUnusual;

}  // namespace

/// What a write consists of, copied from the program's memory.
class WriteVectors {
 public:
  /// False if it cannot be read, or is more than we take.
  [[nodiscard]] bool read(const Transfer& transfer, int pid) noexcept {
    if (transfer.op != Op::writev) {
      vectors_[0] = {transfer.buffer, transfer.bytes};
      count_ = 1;
    } else {
      count_ = transfer.bytes;
      const size_t bytes = count_ * sizeof(iovec);
      if (count_ > kMostVectors || copy_if_readable(pid, vectors_, transfer.buffer, bytes) != bytes)
        return false;
    }
    for (size_t i = 0; i < count_; ++i) {
      if (vectors_[i].iov_len > kMostBytes - bytes_) return false;
      bytes_ += vectors_[i].iov_len;
    }
    return bytes_ > 0;
  }
  /// Whether O_DIRECT takes it anywhere.
  [[nodiscard]] bool is_aligned() const noexcept {
    return std::all_of(begin(), end(), [](const iovec& each) {
      return (reinterpret_cast<uintptr_t>(each.iov_base) | each.iov_len) % kDirectBytes == 0;
    });
  }
  [[nodiscard]] size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] const iovec* begin() const noexcept { return vectors_; }
  [[nodiscard]] const iovec* end() const noexcept { return vectors_ + count_; }

 private:
  iovec vectors_[kMostVectors];
  size_t count_ = 0;
  size_t bytes_ = 0;
};

// ---- The lock -----------------------------------------------------------------------------------

void WordLock::lock() noexcept {
  uint32_t word = 0;
  if (word_.compare_exchange_strong(word, 1, std::memory_order_acquire)) return;
  while (word_.exchange(2, std::memory_order_acquire) != 0) wait_while(word_, 2, -1);
}

void WordLock::unlock() noexcept {
  if (word_.exchange(0, std::memory_order_release) == 2) wake(word_, 1);
}

// ---- Opening ------------------------------------------------------------------------------------

void WriteBehind::begin(const config::RunConfig& config) noexcept {
  const bool is_by_rule = config::uses(config, config::RunPolicy::behind);
  struct stat pids {};
  is_possible_ = &ioweave_has_exposures != nullptr && config::may_hold_writes(config) &&
                 // The command tells by its number whether a process is gone.
                 ::stat("/proc/self/ns/pid", &pids) == 0 && pids.st_ino == config.pid_namespace;
  if (config.holds_direct_writes == 0) {
    default_.store(Default::forbidden, std::memory_order_relaxed);
  }
  if (is_possible_ && is_by_rule) begin_to_hold();
}

void WriteBehind::begin_to_hold() noexcept {
  is_wanted_.store(true, std::memory_order_relaxed);
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) keep_plain(fd);  // they are streams as well
}

// ---- Files without a rule -----------------------------------------------------------------------

bool WriteBehind::arm(int fd) noexcept {
  Default now = default_.load(std::memory_order_acquire);
  if (now == Default::unknown && is_possible_ && !may_be_in_signal_handler() &&
      default_.compare_exchange_strong(now, Default::asking, std::memory_order_acq_rel)) {
    const ErrnoKept kept;
    // Wanted first: what is shared or opened meanwhile is noted then.
    begin_to_hold();
    const bool may_hold = shares_nothing() && keep_known_files_plain(fd);
    now = Default::asking;
    default_.compare_exchange_strong(now, may_hold ? Default::allowed : Default::forbidden,
                                     std::memory_order_acq_rel);
  }
  return may_hold_by_default();
}

void WriteBehind::note_shared_memory() noexcept {
  if constexpr (kHeedsSharedMemory) {
    default_.store(Default::forbidden, std::memory_order_seq_cst);
    shares_memory_.store(true, std::memory_order_seq_cst);
  }
  drain_all();
}

/// Whether no other process can look into the memory of this one. What is mapped of a file is read
/// past us from now on, and stays plain.
bool WriteBehind::shares_nothing() noexcept {
  MapsText maps;
  for (MapsText::Line line; maps.next(line);) {
    const bool is_ours = process.is_of_run_directory(line.path);
    if (kHeedsSharedMemory && line.is_shared && line.is_writable && !is_ours) return false;
    if (line.inode != 0 && !add_plain(line.device, line.inode)) return false;
  }
  return maps.is_whole();
}

/// The files that are open now, but for this one, may have streams of the C library.
bool WriteBehind::keep_known_files_plain(int fd) noexcept {
  struct stat file {};
  if (raw_syscall(SYS_fstat, fd, &file) != 0) return false;
  constexpr int kMostNumbers = 1024;
  for (int other = 0; other < kMostNumbers; ++other) {
    struct stat status {};
    if (other == fd || raw_syscall(SYS_fstat, other, &status) != 0 || !S_ISREG(status.st_mode)) {
      continue;
    }
    if (!add_plain(status.st_dev, status.st_ino)) return false;
  }
  return true;
}

/// Whether so much may be held back without a rule: where little room is left, the program must be
/// told at once that there is none.
bool WriteBehind::has_room(File& file, const Transfer& transfer, int64_t bytes) noexcept {
  if (file.room_bytes >= bytes) {
    file.room_bytes -= bytes;
    return true;
  }
  struct statfs status {};
  if (raw_syscall(SYS_fstatfs, transfer.fd, &status) != 0) return false;
  constexpr uint64_t kLeastRoom = 1u << 30;
  constexpr int64_t kUntilNextLook = 64 << 20;
  const uint64_t room = status.f_bavail * static_cast<uint64_t>(status.f_bsize);
  file.room_bytes = room >= kLeastRoom ? kUntilNextLook - bytes : 0;
  return room >= kLeastRoom;
}

bool WriteBehind::is_of_this_process() const noexcept {
  return pid_ == static_cast<int>(raw_syscall(SYS_getpid));
}

bool WriteBehind::ready() noexcept {
  const Phase now = phase_.load(std::memory_order_acquire);
  if (now == Phase::open) return is_of_this_process();
  Phase closed = Phase::closed;
  if (now != Phase::closed || process.is_visitor() || may_be_in_signal_handler() ||
      !phase_.compare_exchange_strong(closed, Phase::opening, std::memory_order_acq_rel)) {
    return false;
  }
  const bool is_open = open_pool();
  phase_.store(is_open ? Phase::open : Phase::failed, std::memory_order_release);
  return is_open;
}

bool WriteBehind::open_pool() noexcept {
  char path[Process::kPathBytes];
  process.path_beside_segment(path, stats::kBehindSuffix.data());
  void* const mapped = map_new_file(path, BehindPool::kBytes);
  if (mapped == nullptr) {
    process.explain("no room for writes in the run's directory: they stay plain");
    return false;
  }
  if (!make_sure_of_memory(mapped, BehindPool::kDataOffset)) {
    raw_syscall(SYS_munmap, mapped, BehindPool::kBytes);
    process.explain("no memory for writes in the run's directory: they stay plain");
    return false;
  }
  pool_ = static_cast<BehindPool*>(mapped);
  pid_ = static_cast<int>(raw_syscall(SYS_getpid));
  pool_->version = config::kLayoutVersion;
  pool_->pid = pid_;
  pool_->start_time = start_time_of_process(pid_);
  pool_->magic = stats::kBehindMagic;
  return true;
}

char* WriteBehind::data_of(const Block& block) const noexcept {
  return reinterpret_cast<char*>(pool_) + BehindPool::kDataOffset +
         static_cast<size_t>(&block - pool_->block) * kBlockBytes;
}

// ---- Files --------------------------------------------------------------------------------------

uint32_t WriteBehind::find(uint64_t device, uint64_t inode) const noexcept {
  for (uint32_t i = 0; i < BehindPool::kFiles; ++i) {
    const File& file = files_[i];
    if (file.is_used && file.device == device && file.inode == inode) return i;
  }
  return kNone;
}

/// Returns the file's number, with a descriptor to write by; kNone where there is none to be had.
uint32_t WriteBehind::find_or_claim(const Transfer& transfer, const stats::FileRecord& record,
                                    bool is_direct) noexcept {
  uint32_t number = find(record.device, record.inode);
  if (number == kNone) {
    number = 0;
    while (number < BehindPool::kFiles && files_[number].is_used &&
           (files_[number].blocks > 0 || files_[number].users > 0 || files_[number].error != 0)) {
      ++number;
    }
    if (number == BehindPool::kFiles) return kNone;
    files_[number] = {};
    File& file = files_[number];
    file.device = record.device;
    file.inode = record.inode;
    file.is_used = true;
    file.is_remote = is_fuse(transfer.fd);
  }
  File& file = files_[number];
  if (file.blocks > 0 && file.is_direct != is_direct) {
    ++file.users;
    drain_locked(number);
    --file.users;
    if (file.blocks > 0) return kNone;  // others go on with it
  }
  if (file.blocks == 0) {
    file.fd = transfer.fd;
    file.is_direct = is_direct;
    name(number);
  }
  return number;
}

/// Tells the command which file this is. One without a name is written plainly: the command would
/// not find it.
void WriteBehind::name(uint32_t number) noexcept {
  File& file = files_[number];
  stats::BehindFile& shown = pool_->file[number];
  shown.device = file.device;
  shown.inode = file.inode;
  char link[40];
  *append_number(stpcpy(link, "/proc/self/fd/"), static_cast<uint64_t>(file.fd)) = '\0';
  const long length = raw_syscall(SYS_readlinkat, AT_FDCWD, link, shown.path, sizeof shown.path);
  const bool is_whole = length > 0 && static_cast<size_t>(length) < sizeof shown.path;
  shown.path[is_whole ? length : 0] = '\0';
  struct statx status {};
  const bool is_known = raw_syscall(SYS_statx, file.fd, "", AT_EMPTY_PATH,
                                    STATX_BTIME | STATX_MTIME | STATX_NLINK, &status) == 0;
  shown.birth_ns = is_known && (status.stx_mask & STATX_BTIME) != 0 ? in_ns(status.stx_btime) : 0;
  shown.changed_ns.store(is_known && !file.is_remote ? in_ns(status.stx_mtime) : 0,
                         std::memory_order_relaxed);
  constexpr std::string_view kRemoved = " (deleted)";
  const bool has_name = is_whole && is_known && status.stx_nlink > 0 &&
                        !std::string_view(shown.path).ends_with(kRemoved);
  file.is_plain = file.is_plain || !has_name;
}

/// Tells the command when the file was last changed by us: who changes it later has the last word.
void WriteBehind::note_change(uint32_t number, int64_t changed_ns) noexcept {
  std::atomic<int64_t>& shown = pool_->file[number].changed_ns;
  if (shown.load(std::memory_order_relaxed) < changed_ns) {
    shown.store(changed_ns, std::memory_order_relaxed);
  }
}

/// Returns false if there are too many.
bool WriteBehind::add_plain(uint64_t device, uint64_t inode) noexcept {
  const SignalsHeld held;
  const std::lock_guard guard(lock_);
  if (is_plain_for_good(device, inode)) return true;
  if (plain_files_ == kMostPlain) return false;
  plain_[plain_files_++] = {device, inode};
  return true;
}

bool WriteBehind::is_plain_for_good(uint64_t device, uint64_t inode) const noexcept {
  return std::any_of(plain_, plain_ + plain_files_, [=](const auto& each) {
    return each.device == device && each.inode == inode;
  });
}

// ---- Blocks -------------------------------------------------------------------------------------

/// Makes sure of memory for some bytes of a block: touching a page of a full tmpfs is SIGBUS. Part
/// by part, since a few bytes may be all that a block ever holds.
bool WriteBehind::has_memory(uint32_t block, uint64_t begin, uint64_t end) noexcept {
  for (uint64_t part = begin / kPartBytes; part * kPartBytes < end; ++part) {
    const auto bit = static_cast<uint16_t>(1u << part);
    if ((memory_[block] & bit) != 0) continue;
    if (!make_sure_of_memory(data_of(pool_->block[block]) + part * kPartBytes, kPartBytes)) {
      return false;
    }
    memory_[block] = static_cast<uint16_t>(memory_[block] | bit);
  }
  return true;
}

/// Returns the block that holds more of this place, or null.
WriteBehind::Block* WriteBehind::find_block(uint32_t file, uint64_t offset) noexcept {
  for (Block& block : pool_->block) {
    const State state = block.state.load(std::memory_order_relaxed);
    const bool takes_more =
        (state == State::filling || state == State::waiting) && block.is_closed == 0;
    if (takes_more && block.file == file && block.offset == offset) return &block;
  }
  return nullptr;
}

/// Returns a block for this place, perhaps a new one that holds nothing yet, with memory for these
/// of its bytes; null if there is none.
WriteBehind::Block* WriteBehind::block_for(uint32_t file, uint64_t offset, uint64_t begin,
                                           uint64_t end) noexcept {
  if (Block* const known = find_block(file, offset)) {
    return has_memory(static_cast<uint32_t>(known - pool_->block), begin, end) ? known : nullptr;
  }
  if (filling_ >= kMostFilling) queue_oldest();
  for (uint32_t i = 0; i < BehindPool::kBlocks; ++i) {
    Block& block = pool_->block[i];
    if (block.state.load(std::memory_order_relaxed) != State::free || !has_memory(i, begin, end)) {
      continue;
    }
    block.file = file;
    block.offset = offset;
    block.order = next_order_++;
    block.begun_ns = now_ns();
    block.is_closed = 0;
    block.ranges[0].count = 0;
    block.current.store(0, std::memory_order_relaxed);
    block.state.store(State::filling, std::memory_order_release);  // pairs with the command's look
    ++filling_;
    ++files_[file].blocks;
    ioweave_held_blocks.fetch_add(1, std::memory_order_relaxed);
    return &block;
  }
  return nullptr;
}

void WriteBehind::queue(Block& block) noexcept {
  if (block.state.load(std::memory_order_relaxed) != State::filling) return;
  block.state.store(State::waiting, std::memory_order_relaxed);
  --filling_;
  calls_.fetch_add(1, std::memory_order_relaxed);
  if (idle_threads_ > 0) wake(calls_, 1);
}

void WriteBehind::queue_oldest() noexcept {
  Block* oldest = nullptr;
  for (Block& block : pool_->block) {
    const bool is_older = oldest == nullptr || block.order < oldest->order;
    if (block.state.load(std::memory_order_relaxed) == State::filling && is_older) oldest = &block;
  }
  if (oldest != nullptr) queue(*oldest);
}

/// Queues what was begun before this moment.
void WriteBehind::queue_old(uint64_t begun_ns) noexcept {
  for (Block& block : pool_->block) {
    if (block.state.load(std::memory_order_relaxed) == State::filling &&
        block.begun_ns <= begun_ns) {
      queue(block);
    }
  }
}

/// Returns what is to be written next, of this file or, with kNone, of any. Two blocks of one place
/// are written one after the other.
WriteBehind::Block* WriteBehind::next_to_write(uint32_t file) noexcept {
  Block* next = nullptr;
  for (Block& block : pool_->block) {
    if (block.state.load(std::memory_order_relaxed) != State::waiting ||
        (file != kNone && block.file != file) || (next != nullptr && block.order > next->order)) {
      continue;
    }
    const bool must_wait =
        std::any_of(std::begin(pool_->block), std::end(pool_->block), [&block](const Block& other) {
          return other.state.load(std::memory_order_relaxed) == State::writing &&
                 other.file == block.file && other.offset == block.offset;
        });
    if (!must_wait) next = &block;
  }
  return next;
}

uint32_t WriteBehind::count_waiting() const noexcept {
  return static_cast<uint32_t>(
      std::count_if(std::begin(pool_->block), std::end(pool_->block), [](const Block& block) {
        return block.state.load(std::memory_order_relaxed) == State::waiting;
      }));
}

/// Writes a block. The lock is open meanwhile.
void WriteBehind::write_block(Block& block) noexcept {
  File& file = files_[block.file];
  const uint32_t number = block.file;
  const FileIdentity identity{file.device, file.inode, file.is_direct};
  const int fd = file.fd;
  const bool is_remote = file.is_remote;
  const BehindRanges& ranges = block.ranges[block.current.load(std::memory_order_relaxed)];
  block.state.store(State::writing, std::memory_order_relaxed);
  ++file.users;
  lock_.unlock();
  int own = -1;
  int error = 0;
  if (!identity.is_written_by(fd)) {  // closed by a system call that we cannot see
    own = static_cast<int>(raw_syscall(SYS_openat, AT_FDCWD, pool_->file[number].path,
                                       O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0));
    error = identity.is_of(own) ? 0 : EBADF;
  }
  const int to = own >= 0 ? own : fd;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < ranges.count; ++i) {
    const BehindRanges::Range range = ranges.range[i];
    const size_t length = range.end - range.begin;
    const int failed = error == EBADF ? EBADF
                                      : write_all(to, data_of(block) + range.begin, length,
                                                  block.offset + range.begin);
    if (error == 0) error = failed;
    bytes += failed == 0 ? length : 0;
  }
  struct stat status {};
  const bool is_timed = !is_remote && raw_syscall(SYS_fstat, to, &status) == 0;
  if (own >= 0) raw_syscall(SYS_close, own);
  pool_->writes.fetch_add(ranges.count, std::memory_order_relaxed);
  pool_->written_bytes.fetch_add(bytes, std::memory_order_relaxed);
  lock_.lock();
  if (error != 0) {
    pool_->errors.fetch_add(1, std::memory_order_relaxed);
    if (!file.is_plain) {  // those that were under way as well are told by it
      file.error = error;
      ++untold_files_;
    }
    file.is_plain = true;
  }
  --file.users;
  --file.blocks;
  block.state.store(State::free, std::memory_order_release);  // the command looks for others
  ioweave_held_blocks.fetch_sub(1, std::memory_order_relaxed);
  if (is_timed) {
    note_change(number, in_ns(status.st_mtim));
  }
  tell_change();
}

void WriteBehind::tell_change() noexcept {
  changes_.fetch_add(1, std::memory_order_relaxed);
  wake(changes_, INT_MAX);
}

/// Waits until another thread has written something, at most for a moment. The lock is open
/// meanwhile.
void WriteBehind::await_change() noexcept {
  const uint32_t changes = changes_.load(std::memory_order_relaxed);
  lock_.unlock();
  wait_while(changes_, changes, kPatienceNs);
  lock_.lock();
}

void WriteBehind::add_waited(uint64_t begin_ns) noexcept {
  const uint64_t ns = now_ns() - begin_ns;
  pool_->waited_ns.fetch_add(ns, std::memory_order_relaxed);
  waited_ns_.fetch_add(ns, std::memory_order_relaxed);
}

/// Writes, or waits for, what is held of this file, or with kNone of any, and was begun before.
void WriteBehind::drain_locked(uint32_t file) noexcept {
  const uint64_t end = next_order_;
  const auto counts = [=](const Block& block) {
    return block.state.load(std::memory_order_relaxed) != State::free && block.order < end &&
           (file == kNone || block.file == file);
  };
  const uint64_t begin_ns = now_ns();
  for (Block& block : pool_->block) {
    if (counts(block)) queue(block);
  }
  while (std::any_of(std::begin(pool_->block), std::end(pool_->block), counts)) {
    Block* const next = next_to_write(file);
    if (next != nullptr) {
      write_block(*next);
    } else {
      await_change();
    }
  }
  add_waited(begin_ns);
}

// ---- Taking a write -----------------------------------------------------------------------------

/// Writes something, or waits until another thread has, so that a block becomes free. Returns false
/// if none can: no block has memory.
bool WriteBehind::make_room(const SignalsHeld& held) noexcept {
  if (ioweave_held_blocks.load(std::memory_order_relaxed) == 0) {
    refuses_.store(true, std::memory_order_relaxed);
    return false;
  }
  const uint64_t begin_ns = now_ns();
  held.let_fatal_ones_in();
  queue_oldest();
  if (Block* const next = next_to_write(kNone)) {
    write_block(*next);
  } else {
    await_change();
  }
  add_waited(begin_ns);
  return true;
}

/// Copies what lies in one block. Returns how much of it could be read.
size_t WriteBehind::copy_part(const char* from, size_t bytes, uint32_t file, uint64_t offset,
                              const SignalsHeld& held) noexcept {
  const uint64_t place = begin_of_block(offset);
  const auto begin = static_cast<uint32_t>(offset - place);
  while (true) {
    Block* const block = block_for(file, place, begin, begin + bytes);
    if (block == nullptr) {  // all are taken
      if (!make_room(held)) return 0;
      continue;
    }
    const uint32_t current = block->current.load(std::memory_order_relaxed);
    BehindRanges& next = block->ranges[1 - current];
    const auto grow_to = [&](size_t length) {
      std::memcpy(&next, &block->ranges[current], sizeof next);
      return next.add({begin, begin + static_cast<uint32_t>(length)});
    };
    if (!grow_to(bytes)) {
      block->is_closed = 1;
      queue(*block);
      continue;
    }
    const size_t copied = copy_if_readable(pid_, data_of(*block) + begin, from, bytes);
    const bool is_grown = copied == bytes || (copied > 0 && grow_to(copied));
    if (is_grown) block->current.store(1 - current, std::memory_order_release);
    const BehindRanges& ranges = block->ranges[block->current.load(std::memory_order_relaxed)];
    const bool is_full =
        ranges.count == 1 && ranges.range[0].begin == 0 && ranges.range[0].end == kBlockBytes;
    if (is_full || ranges.count == 0) queue(*block);
    return is_grown ? copied : 0;
  }
}

/// Returns how many bytes could be read.
int64_t WriteBehind::copy_all(const WriteVectors& vectors, uint32_t file, uint64_t offset,
                              const SignalsHeld& held) noexcept {
  int64_t sum = 0;
  for (const iovec& each : vectors) {
    const auto* from = static_cast<const char*>(each.iov_base);
    size_t left = each.iov_len;
    while (left > 0) {
      const size_t part = std::min<uint64_t>(left, begin_of_block(offset) + kBlockBytes - offset);
      const size_t copied = copy_part(from, part, file, offset, held);
      sum += static_cast<int64_t>(copied);
      if (copied < part) return sum;
      from += part;
      offset += part;
      left -= part;
    }
  }
  return sum;
}

/// Takes a write, or returns false. errno may change.
bool WriteBehind::try_take(const Transfer& transfer, stats::FileRecord& record,
                           int64_t& result) noexcept {
  const bool is_kind = transfer.op == Op::write || transfer.op == Op::writev;
  if (!is_wanted() || !is_kind || transfer.bytes == 0 ||
      transfer.offset < engine::kCurrentPosition || process.left_alone() ||
      refuses_.load(std::memory_order_relaxed) || file_size_is_limited()) {
    return false;
  }
  const long flags = raw_syscall(SYS_fcntl, transfer.fd, F_GETFL);
  constexpr long kWaits = O_APPEND | O_SYNC | O_DSYNC | O_PATH;
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || (flags & kWaits) != 0 ||
      !still_is(record, transfer.fd)) {
    return false;
  }
  if (shares_memory_.load(std::memory_order_relaxed)) {
    if (record.policy == config::RunPolicy::behind) degrade(record, stats::Degrade::shared_memory);
    return false;
  }
  if (!ready()) return false;
  WriteVectors vectors;
  const bool is_direct = (flags & O_DIRECT) != 0;
  if (!vectors.read(transfer, pid_) || (is_direct && !vectors.is_aligned())) return false;
  // Starting one takes memory, which a handler must not.
  if (!has_threads_.load(std::memory_order_relaxed) && may_be_in_signal_handler()) return false;
  const SignalsHeld held;
  const std::lock_guard guard(lock_);
  if (must_end_ || refuses_.load(std::memory_order_relaxed) ||
      shares_memory_.load(std::memory_order_relaxed) ||
      forbidden_.load(std::memory_order_relaxed) > 0 || (threads_ == 0 && !start_thread())) {
    return false;
  }
  return take_locked(transfer, record, {vectors, is_direct}, held, result);
}

bool WriteBehind::take_locked(const Transfer& transfer, const stats::FileRecord& record,
                              const Taken& taken, const SignalsHeld& held,
                              int64_t& result) noexcept {
  if (is_plain_for_good(record.device, record.inode)) return false;
  const uint32_t number = find_or_claim(transfer, record, taken.is_direct);
  if (number == kNone) return false;
  File& file = files_[number];
  if (file.error != 0) {
    result = -tell_error(file);
    return true;
  }
  if (file.is_plain || file.closing > 0) return false;
  const auto bytes = static_cast<int64_t>(taken.vectors.bytes());
  const bool is_by_rule = record.policy == config::RunPolicy::behind;
  if (!is_by_rule && (!may_hold_by_default() || !has_room(file, transfer, bytes))) return false;
  const bool is_at_position = transfer.offset == engine::kCurrentPosition;
  int64_t offset = transfer.offset;
  if (is_at_position) {
    const int64_t end = raw_syscall(SYS_lseek, transfer.fd, bytes, SEEK_CUR);
    if (end < 0) return false;
    offset = end - bytes;
  }
  const bool is_misplaced =
      offset > kMostOffset - bytes || (taken.is_direct && offset % int64_t{kDirectBytes} != 0);
  ++file.users;
  const int64_t copied =
      is_misplaced ? 0 : copy_all(taken.vectors, number, static_cast<uint64_t>(offset), held);
  --file.users;
  if (is_at_position && copied < bytes) {
    raw_syscall(SYS_lseek, transfer.fd, copied - bytes, SEEK_CUR);
  }
  if (copied == 0) return false;
  pool_->calls.fetch_add(1, std::memory_order_relaxed);
  pool_->bytes.fetch_add(static_cast<uint64_t>(copied), std::memory_order_relaxed);
  result = copied;
  return true;
}

bool WriteBehind::take(const Transfer& transfer, stats::FileRecord& record,
                       int64_t& result) noexcept {
  const ErrnoKept kept;
  if (try_take(transfer, record, result)) return true;
  if (holds_writes()) drain(record);
  if (untold_files_ == 0) return false;
  result = -take_error(record);
  return result < 0;
}

// ---- Draining -----------------------------------------------------------------------------------

/// Returns true if there is a pool, and it is this process's: a child that shares the parent's
/// memory, or was made by a system call, has left its writes to the parent.
bool WriteBehind::is_ours() const noexcept {
  return phase_.load(std::memory_order_acquire) == Phase::open && is_of_this_process();
}

void WriteBehind::drain(const stats::FileRecord& record) noexcept {
  const ErrnoKept kept;
  if (!is_ours()) return;
  const SignalsHeld held;
  const std::lock_guard guard(lock_);
  const uint32_t number = find(record.device, record.inode);
  if (number == kNone || files_[number].blocks == 0) return;
  held.let_fatal_ones_in();
  drain_locked(number);
}

void WriteBehind::drain_all() noexcept {
  const ErrnoKept kept;
  if (!is_ours()) return;
  const SignalsHeld held;
  const std::lock_guard guard(lock_);
  held.let_fatal_ones_in();
  drain_locked(kNone);
}

int WriteBehind::take_error(const stats::FileRecord& record) noexcept {
  const ErrnoKept kept;
  if (pid_ == 0 || !is_of_this_process()) return 0;
  const SignalsHeld held;
  const std::lock_guard guard(lock_);
  const uint32_t number = find(record.device, record.inode);
  return number == kNone ? 0 : tell_error(files_[number]);
}

int WriteBehind::tell_error(File& file) noexcept {
  const int error = std::exchange(file.error, 0);
  if (error != 0) --untold_files_;
  return error;
}

void WriteBehind::let_go(const stats::FileRecord& record, int fd) noexcept {
  const ErrnoKept kept;
  if (!is_ours()) return;
  const SignalsHeld held;
  const std::lock_guard guard(lock_);
  const uint32_t number = find(record.device, record.inode);
  if (number == kNone) return;
  File& file = files_[number];
  ++file.users;
  ++file.closing;
  if (file.blocks > 0) held.let_fatal_ones_in();
  do {
    drain_locked(number);
  } while (file.blocks > 0 && file.fd == fd);
  --file.closing;
  --file.users;
}

void WriteBehind::let_go_all() noexcept {
  forbid();
  allow();
}

void WriteBehind::keep_plain(int fd) noexcept {
  const ErrnoKept kept;
  struct stat status {};
  if (!is_wanted() || process.is_visitor() || raw_syscall(SYS_fstat, fd, &status) != 0 ||
      !S_ISREG(status.st_mode)) {
    return;
  }
  const bool is_known = add_plain(status.st_dev, status.st_ino);
  {
    const SignalsHeld held;
    const std::lock_guard guard(lock_);
    const uint32_t number = is_ours() ? find(status.st_dev, status.st_ino) : kNone;
    if (number != kNone && files_[number].blocks > 0) {
      held.let_fatal_ones_in();
      drain_locked(number);
    }
  }
  if (!is_known) stop();
}

// ---- Threads ------------------------------------------------------------------------------------

/// Starts one more. Returns false if there is none at all. The lock is open meanwhile: memory that
/// the program hands out may make calls of its own.
bool WriteBehind::start_thread() noexcept {
  Thread* const place = std::find_if(
      std::begin(thread_), std::end(thread_),
      [](const Thread& each) { return each.state == Thread::none || each.state == Thread::ended; });
  if (place == std::end(thread_)) return threads_ > 0;
  const bool is_to_join = place->state == Thread::ended;
  place->state = Thread::starting;
  ++threads_;
  has_threads_.store(true, std::memory_order_relaxed);
  lock_.unlock();
  if (is_to_join) pthread_join(place->thread, nullptr);
  // With a stack as large as others: if it is the last one, the program's exit runs on it.
  const bool is_started = pthread_create(&place->thread, nullptr, &thread_main, place) == 0;
  lock_.lock();
  if (!is_started) {
    place->state = Thread::none;
    --threads_;
    has_threads_.store(threads_ > 0, std::memory_order_relaxed);
  } else if (place->state == Thread::starting) {
    place->state = Thread::runs;
  }
  return threads_ > 0;
}

void* WriteBehind::thread_main(void* place) noexcept {
  pthread_setname_np(pthread_self(), "ioweave-behind");
  write_behind.write_in_thread(*static_cast<Thread*>(place));
  return nullptr;
}

void WriteBehind::write_in_thread(Thread& place) noexcept {
  const std::lock_guard guard(lock_);
  place.kernel_id = static_cast<int>(raw_syscall(SYS_gettid));
  uint64_t busy_ns = now_ns();
  bool may_start = true;
  while (true) {
    const uint64_t now = now_ns();
    queue_old(now - std::min(now, kMostAgeNs));
    if (Block* const next = next_to_write(kNone)) {
      if (may_start && idle_threads_ == 0 && threads_ < kMostThreads && count_waiting() > 1) {
        const uint32_t before = threads_;
        may_start = start_thread() && threads_ > before;
        continue;
      }
      write_block(*next);
      busy_ns = now_ns();
      continue;
    }
    const bool is_needed = filling_ > 0 && idle_threads_ == 0;
    const bool is_idle = now - busy_ns > uint64_t{kIdleNs};
    if (!is_needed && (must_end_ || is_idle)) break;
    const uint32_t calls = calls_.load(std::memory_order_relaxed);
    ++idle_threads_;
    lock_.unlock();
    wait_while(calls_, calls, kLookNs);
    lock_.lock();
    --idle_threads_;
  }
  place.state = Thread::ended;
  --threads_;
  has_threads_.store(threads_ > 0, std::memory_order_relaxed);
  tell_change();
}

void WriteBehind::end_threads() noexcept {
  const ErrnoKept kept;
  if (!is_ours()) return;
  const SignalsHeld held;
  const std::lock_guard guard(lock_);
  held.let_fatal_ones_in();
  const bool was_ending = std::exchange(must_end_, true);
  drain_locked(kNone);
  while (threads_ > 0) {
    calls_.fetch_add(1, std::memory_order_relaxed);
    wake(calls_, INT_MAX);
    await_change();
  }
  for (Thread& each : thread_) {
    if (each.state != Thread::ended) continue;
    each.state = Thread::starting;  // nobody else's
    lock_.unlock();
    pthread_join(each.thread, nullptr);
    await_kernel_thread(pid_, each.kernel_id);
    lock_.lock();
    each.state = Thread::none;
  }
  must_end_ = was_ending;
}

void WriteBehind::stop() noexcept {
  const ErrnoKept kept;
  refuses_.store(true, std::memory_order_relaxed);
  end_threads();
  let_go_all();
  const SignalsHeld held;
  const std::lock_guard guard(lock_);
  if (!is_ours()) return;
  // Who has other rights from now on must not tell the command what to write.
  phase_.store(Phase::failed, std::memory_order_release);
  raw_syscall(SYS_mmap, pool_, BehindPool::kBytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0L);
}

// ---- fork and exec ------------------------------------------------------------------------------

void WriteBehind::forbid() noexcept {
  const ErrnoKept kept;
  forbidden_.fetch_add(1, std::memory_order_relaxed);
  if (!is_ours()) return;
  const SignalsHeld held;
  const std::lock_guard guard(lock_);
  if (ioweave_held_blocks.load(std::memory_order_relaxed) == 0) return;
  held.let_fatal_ones_in();
  while (ioweave_held_blocks.load(std::memory_order_relaxed) > 0) drain_locked(kNone);
}

void WriteBehind::allow() noexcept {
  forbidden_.fetch_sub(1, std::memory_order_relaxed);
}

/// The pool is the parent's, and none of the threads is here.
void WriteBehind::after_fork_in_child() noexcept {
  forbidden_.store(0, std::memory_order_relaxed);
  lock_.reset();
  if (pool_ == nullptr) return;  // most children write to no more pages than they must
  raw_syscall(SYS_munmap, pool_, BehindPool::kBytes);
  pool_ = nullptr;
  phase_.store(Phase::closed, std::memory_order_relaxed);
  ioweave_held_blocks.store(0, std::memory_order_relaxed);
  std::fill(std::begin(files_), std::end(files_), File{});
  untold_files_ = 0;
  std::fill(std::begin(memory_), std::end(memory_), uint16_t{0});
  std::fill(std::begin(thread_), std::end(thread_), Thread{});
  threads_ = idle_threads_ = filling_ = 0;
  has_threads_.store(false, std::memory_order_relaxed);
  must_end_ = false;
}

}  // namespace ioweave::calls
