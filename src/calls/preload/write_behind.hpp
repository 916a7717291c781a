#pragma once

// Policy `behind`: a write of the program is copied, and written by threads of ours later, together
// with others. The program goes on at once. The files are chosen by rules; under policy `auto`,
// where the user agrees, also small writes past the page cache, if that is faster (choices.hpp).
//
// What the kernel does for a plain write, and how one that is held back keeps it:
//
//   the position      is the kernel's own: it is moved by lseek(2) before the bytes are copied
//   bad addresses     the kernel copies the bytes (process_vm_readv): what cannot be read is the
//                     program's own call, and its error
//   what it sees      every call of the table that could tell the difference comes after the file's
//                     writes, or all of them: reads, stat, rename, locks, other descriptors, fork,
//                     exec, exit, and what tells another process anything (wrapped_calls.hpp)
//   errors            the first one of a file is kept, and returned once: by the next write, fsync
//                     or close of the file. The file's writes are plain from then on
//   durability        fsync and its like come after the file's writes
//   a killed process  has left its writes in the pool (stats/behind_pool.hpp): the command writes
//                     them
//   descriptors       there is none of ours: blocks are written by the program's
//   RLIMIT_FSIZE, O_APPEND, O_SYNC, O_DSYNC, RWF_ flags, unaligned O_DIRECT: plain calls
//
// Other processes see the bytes later, by kMostAgeNs and what the device takes. They must not learn
// of a write before that. A store to shared memory could tell them without any call, so nothing is
// held back once memory is shared with others. Where the file system is nearly full, nothing is
// held back without a rule, because the error would come late.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <pthread.h>

#include "calls/preload/call_lane.hpp"
#include "stats/behind_pool.hpp"
#include "stats/segment.hpp"

namespace ioweave::calls {

class SignalsHeld;
class WriteVectors;

extern "C" {
/// Defined where the calls are wrapped that could tell that writes were held back.
extern const bool ioweave_has_exposures __attribute__((weak));
/// Blocks that hold something. Looked at before most calls, from assembly, too.
extern std::atomic<uint32_t> ioweave_held_blocks;
}

/// Returns true if writes of this process are held back.
[[nodiscard]] inline bool holds_writes() noexcept {
  return ioweave_held_blocks.load(std::memory_order_relaxed) != 0;
}

/// A lock that waits on a word, so that a forked child can make it new.
class WordLock {
 public:
  void lock() noexcept;
  void unlock() noexcept;
  void reset() noexcept { word_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> word_{0};  // 1: taken; 2: and waited for
};

/// The writes of this process that are held back. Thread-safe and async-signal-safe; nothing here
/// is cancelled. Constant-initialised. errno stays as it is.
class WriteBehind {
 public:
  /// From the constructor: whether the run asks for it, and this library can.
  void begin(const config::RunConfig& config) noexcept;
  /// Whether writes may ever be held back in this process.
  [[nodiscard]] bool is_possible() const noexcept { return is_possible_; }
  /// Whether they may now.
  [[nodiscard]] bool is_wanted() const noexcept {
    return is_wanted_.load(std::memory_order_relaxed);
  }

  /// A file was opened whose writes might be held back without a rule. Returns whether they may.
  /// The first time this looks at what the process shares with others.
  [[nodiscard]] bool arm(int fd) noexcept;
  [[nodiscard]] bool may_hold_by_default() const noexcept {
    return default_.load(std::memory_order_relaxed) == Default::allowed;
  }
  /// The process is about to share memory with others: they may see what it does without a call.
  void note_shared_memory() noexcept;
  /// For how long the program has waited for writes that were held back, so far.
  [[nodiscard]] uint64_t waited_ns() const noexcept {
    return waited_ns_.load(std::memory_order_relaxed);
  }

  /// Holds a write back. True with what the call returns in `result`, the bytes or -errno of an
  /// earlier one; false where it must be made as it is. Then nothing is held of its file.
  [[nodiscard]] bool take(const Transfer& transfer, stats::FileRecord& file,
                          int64_t& result) noexcept;

  /// Returns when nothing of this file, or of any, is held.
  void drain(const stats::FileRecord& file) noexcept;
  void drain_all() noexcept;
  /// Returns the file's error that was not returned yet, as errno, or 0.
  [[nodiscard]] int take_error(const stats::FileRecord& file) noexcept;
  /// Drains all, and waits until no thread of ours is left.
  void end_threads() noexcept;
  /// The same for good: writes are plain from now on.
  void stop() noexcept;
  /// Before the program closes this descriptor of the file, or many: nothing is written by it any
  /// more.
  void let_go(const stats::FileRecord& file, int fd) noexcept;
  void let_go_all() noexcept;
  /// Somebody else reads or writes the file behind our back from now on: the C library's streams,
  /// a memory map. Its writes are plain for good.
  void keep_plain(int fd) noexcept;

  /// Drains all, and takes nothing until allow(): around fork(2) and exec, for neither children nor
  /// the next image know what is held.
  void forbid() noexcept;
  void allow() noexcept;
  void after_fork_in_child() noexcept;

 private:
  using Block = stats::BehindBlock;
  using State = Block::State;
  static constexpr uint32_t kNone = UINT32_MAX;

  /// What is private to the process of a file in the pool.
  struct File {
    uint64_t device = 0;
    uint64_t inode = 0;
    int fd = -1;  // the program's, to write by
    bool is_used = false;
    bool is_direct = false;
    bool is_plain = false;   // nothing more is held back
    bool is_remote = false;  // its times are asked of a server
    int error = 0;           // that was not returned yet
    uint32_t blocks = 0;     // that hold something of it
    uint32_t users = 0;      // threads that go on with it later
    uint32_t closing = 0;    // threads that close a descriptor of it: nothing is taken
    int64_t room_bytes = 0;  // that may be taken until the room on its file system is asked for
  };
  struct Thread {
    pthread_t thread;
    enum : uint32_t { none, starting, runs, ended } state;
    int kernel_id;
  };
  struct Taken {
    const WriteVectors& vectors;
    bool is_direct;
  };
  enum class Phase : uint32_t { closed, opening, open, failed };
  /// What becomes of files without a rule.
  enum class Default : uint32_t { unknown, asking, allowed, forbidden };

  [[nodiscard]] int tell_error(File& file) noexcept;
  void begin_to_hold() noexcept;
  [[nodiscard]] bool shares_nothing() noexcept;
  [[nodiscard]] bool keep_known_files_plain(int fd) noexcept;
  [[nodiscard]] bool add_plain(uint64_t device, uint64_t inode) noexcept;
  [[nodiscard]] bool has_room(File& file, const Transfer& transfer, int64_t bytes) noexcept;
  void add_waited(uint64_t begin_ns) noexcept;
  [[nodiscard]] bool ready() noexcept;
  [[nodiscard]] bool open_pool() noexcept;
  [[nodiscard]] bool is_of_this_process() const noexcept;
  [[nodiscard]] bool is_ours() const noexcept;
  [[nodiscard]] bool try_take(const Transfer& transfer, stats::FileRecord& record,
                              int64_t& result) noexcept;
  static void* thread_main(void* place) noexcept;
  void write_in_thread(Thread& place) noexcept;
  [[nodiscard]] char* data_of(const Block& block) const noexcept;

  // Under the lock: files,
  [[nodiscard]] uint32_t find(uint64_t device, uint64_t inode) const noexcept;
  [[nodiscard]] uint32_t find_or_claim(const Transfer& transfer, const stats::FileRecord& record,
                                       bool is_direct) noexcept;
  void name(uint32_t number) noexcept;
  void note_change(uint32_t number, int64_t changed_ns) noexcept;
  [[nodiscard]] bool is_plain_for_good(uint64_t device, uint64_t inode) const noexcept;

  // blocks,
  [[nodiscard]] bool has_memory(uint32_t block, uint64_t begin, uint64_t end) noexcept;
  [[nodiscard]] Block* find_block(uint32_t file, uint64_t offset) noexcept;
  [[nodiscard]] Block* block_for(uint32_t file, uint64_t offset, uint64_t begin,
                                 uint64_t end) noexcept;
  void queue(Block& block) noexcept;
  void queue_oldest() noexcept;
  void queue_old(uint64_t begun_ns) noexcept;
  [[nodiscard]] Block* next_to_write(uint32_t file) noexcept;
  [[nodiscard]] uint32_t count_waiting() const noexcept;
  void write_block(Block& block) noexcept;
  void drain_locked(uint32_t file) noexcept;
  [[nodiscard]] bool make_room(const SignalsHeld& held) noexcept;
  void await_change() noexcept;
  void tell_change() noexcept;

  // taking a write, and threads.
  [[nodiscard]] bool take_locked(const Transfer& transfer, const stats::FileRecord& record,
                                 const Taken& taken, const SignalsHeld& held,
                                 int64_t& result) noexcept;
  [[nodiscard]] int64_t copy_all(const WriteVectors& vectors, uint32_t file, uint64_t offset,
                                 const SignalsHeld& held) noexcept;
  [[nodiscard]] size_t copy_part(const char* from, size_t bytes, uint32_t file, uint64_t offset,
                                 const SignalsHeld& held) noexcept;
  [[nodiscard]] bool start_thread() noexcept;

  WordLock lock_;
  std::atomic<Phase> phase_{Phase::closed};
  stats::BehindPool* pool_ = nullptr;
  std::atomic<uint32_t> changes_{0};  // blocks were written, threads have ended
  std::atomic<uint32_t> calls_{0};    // for threads: there is work
  uint32_t threads_ = 0;
  uint32_t idle_threads_ = 0;
  uint32_t filling_ = 0;
  bool must_end_ = false;  // the threads, as soon as there is nothing to do
  bool is_possible_ = false;
  std::atomic<bool> is_wanted_{false};
  std::atomic<Default> default_{Default::unknown};
  std::atomic<bool> shares_memory_{false};
  std::atomic<uint64_t> waited_ns_{0};
  std::atomic<bool> refuses_{false};       // to take anything more
  std::atomic<uint32_t> untold_files_{0};  // with an error that was not returned yet
  std::atomic<bool> has_threads_{false};
  std::atomic<uint32_t> forbidden_{0};  // threads that fork or exec
  uint64_t next_order_ = 1;
  int pid_ = 0;
  File files_[stats::BehindPool::kFiles];
  static constexpr uint64_t kPartBytes = 64 << 10;  // whose memory is asked for at once
  static_assert(stats::BehindPool::kBlockBytes / kPartBytes == 16);
  uint16_t memory_[stats::BehindPool::kBlocks] = {};  // a bit for each part that is there
  static constexpr uint32_t kMostThreads = 4;
  Thread thread_[kMostThreads] = {};
  static constexpr uint32_t kMostPlain = 256;
  struct {
    uint64_t device;
    uint64_t inode;
  } plain_[kMostPlain] = {};  // files of keep_plain()
  uint32_t plain_files_ = 0;
};

extern WriteBehind write_behind;

/// Calls something that must not be left: cancelled there, the thread would unwind through code of
/// ours. No destructor, for the same reason (observe.hpp).
///
/// The type first: the C library's handler of a signal that was sent just before looks at nothing
/// else. And last: cancelled by pthread_setcancelstate(3), the thread's result would be null.
template <class Call>
inline void call_uncancelled(Call call) {
  int state = 0;
  int type = 0;
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  call();
  pthread_setcancelstate(state, nullptr);
  pthread_setcanceltype(type, nullptr);
}

/// Before the program shares memory with others.
inline void share_memory() {
  if (write_behind.is_wanted()) {
    call_uncancelled([] { write_behind.note_shared_memory(); });
  }
}

/// Set once the program has used locks of files, which end with any descriptor of the file.
extern std::atomic<bool> uses_file_locks;

/// Before a call that could tell a difference in any file.
inline void come_after_writes() {
  if (holds_writes()) [[unlikely]] {
    call_uncancelled([] { write_behind.drain_all(); });
  }
}

/// Before the thread gets descriptors of its own, which threads of ours would not know, and before
/// the program listens to what becomes of files.
inline void stop_holding_writes() {
  if (write_behind.is_wanted()) {
    call_uncancelled([] { write_behind.stop(); });
  }
}

}  // namespace ioweave::calls
