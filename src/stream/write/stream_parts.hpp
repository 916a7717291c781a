#pragma once

// The things that a write stream is made of; for its own sources.

#include <array>

#include "service/driving_here.hpp"
#include "stream/write/write_stream.hpp"

namespace ioweave::stream {

/// One request of a write, and what it was before the page cache took it.
struct WriteStream::Part {
  iow_request request{};
  Buffer* buffer = nullptr;
  bool direct = false;
};

/// The place of a write, or of a copy that is under way, among those of its file.
struct WriteStream::Outstanding {
  Outstanding* previous = nullptr;
  Outstanding* next = nullptr;
  uint64_t sequence = 0;
};

/// A buffer. It is in one list of buffers at a time.
struct WriteStream::Buffer {
  Buffer* previous = nullptr;
  Buffer* next = nullptr;
  WriteStream* stream = nullptr;
  std::byte* memory = nullptr;
  bool is_spare = false;

  // While it is gathered or written.
  FileRef file;
  WritePlacer* placer = nullptr;  ///< who is told of its end, by `tag`; null: nobody
  uint64_t tag = 0;
  std::byte* data = nullptr;  ///< within `memory`
  uint64_t bytes = 0;
  int64_t offset = 0;
  uint64_t begun_ns = 0;
  Outstanding outstanding;
  ListedWait* waiter = nullptr;  ///< of a synchronous write
  std::array<Part, 3> parts{};
  std::atomic<uint32_t> parts_left{0};
  std::atomic<uint64_t> direct_bytes{0};
  std::atomic<int> error{0};
  std::atomic<int64_t> error_offset{0};
};

struct WriteStream::File : std::enable_shared_from_this<File> {
  explicit File(WriteStream& in) : stream(in) {}

  File* previous = nullptr;  ///< of those whose sync is to be submitted
  File* next = nullptr;
  WriteStream& stream;
  TargetFile target;
  std::atomic<bool> may_go_direct{false};
  size_t number = 0;
  const WritePlacer* placer = nullptr;  ///< whose file it is
  int64_t append_at = 0;
  int64_t end = 0;  ///< behind everything that was handed over
  bool is_ending = false;
  Buffer* gathered = nullptr;
  LinkedList<Outstanding> outstanding;  ///< in the order of the calls

  LinkedList<FileWaiter> flushing;  ///< for outstanding writes to end
  LinkedList<FileWaiter> to_sync;   ///< for the next sync to begin
  LinkedList<FileWaiter> in_sync;   ///< for the sync that is under way
  FileRef kept_by_sync;             ///< set while one is
  iow_request sync_request{};

  /// Under the lock: nothing uses the descriptors.
  [[nodiscard]] bool is_idle() const noexcept {
    return outstanding.empty() && flushing.empty() && to_sync.empty() && kept_by_sync == nullptr;
  }

  int error = 0;  ///< 0 or the negated errno of the earliest failure
  int64_t error_offset = 0;
  uint64_t error_sequence = 0;
  bool is_reported = false;
  bool is_in_doubt = false;  ///< a sync failed
  bool is_left = false;      ///< its placer writes elsewhere what it did not take

  /// Whether nobody need be told of its failure.
  [[nodiscard]] bool is_excused() const noexcept { return is_left && !is_in_doubt; }
};

/// A wait that whoever ends it puts into an Aftermath first.
class WriteStream::ListedWait : public service::Wait {
 public:
  ListedWait* previous = nullptr;
  ListedWait* next = nullptr;
};

/// Somebody's place in the line for buffers: a caller that waits, or a callback.
class WriteStream::LeaseAsk final : public Callback {
 public:
  void run() noexcept override {
    leased(buffer != nullptr ? lease_of(*buffer) : iow_lease{}, user);
  }

  Buffer* buffer = nullptr;  ///< once it has one; then it is in line no more
  ListedWait* wait = nullptr;
  uint64_t begun_ns = 0;  ///< of a callback that is in line
  iow_leased leased = nullptr;
  void* user = nullptr;
};

/// Somebody's wait for one file.
struct WriteStream::FileWaiter {
  FileWaiter* previous = nullptr;
  FileWaiter* next = nullptr;
  uint64_t until = 0;  ///< waits for writes with a lower sequence
  FilesGoal* whole = nullptr;
  LinkedList<FileWaiter>* in = nullptr;  ///< the list of its file that it is in

  /// Null: into none.
  void move_to(LinkedList<FileWaiter>* list) noexcept {
    if (in != nullptr) {
      in->remove(*this);
    }
    in = list;
    if (in != nullptr) {
      in->push_back(*this);
    }
  }
};

/// What is to be done once the lock is free.
struct WriteStream::Aftermath {
  LinkedList<Buffer> writes;
  LinkedList<File> syncs;
  LinkedList<ListedWait> ended;
  LinkedList<Callback> callbacks;
};

/// What somebody waits for of one or more files: that they are flushed, or durable.
class WriteStream::FilesGoal {
 public:
  FilesGoal(const FileRef* files, FileWaiter* waiters, size_t count, bool durable) noexcept
      : files_(files), waiters_(waiters), count_(count), durable_(durable) {}
  virtual ~FilesGoal() = default;
  FilesGoal(const FilesGoal&) = delete;
  FilesGoal& operator=(const FilesGoal&) = delete;

  [[nodiscard]] bool is_durable() const noexcept { return durable_; }

  // Under the lock.
  /// Returns true if it is reached already; then nobody is told.
  [[nodiscard]] bool begin(WriteStream& stream, Aftermath& after) noexcept;
  /// False if it is reached already.
  [[nodiscard]] bool give_up() noexcept;
  /// One of the files has reached it.
  void count_down(Aftermath& after) noexcept {
    if (--left_ == 0) {
      reach(after);
    }
  }

 protected:
  /// Whoever waits is to be told.
  virtual void reach(Aftermath& after) noexcept = 0;

 private:
  const FileRef* const files_;
  FileWaiter* const waiters_;
  const size_t count_;
  const bool durable_;
  size_t left_ = 0;
};

/// A caller that waits for files.
class WriteStream::FilesWait final : public ListedWait, public FilesGoal {
 public:
  /// `surely`: it cannot be withdrawn, so a caller who must not wait waits all the same.
  FilesWait(WriteStream& stream, const FileRef* files, FileWaiter* waiters, size_t count,
            bool durable, bool surely) noexcept
      : FilesGoal(files, waiters, count, durable), stream_(stream), surely_(surely) {}

  bool begin() noexcept override;
  bool withdraw() noexcept override;

 private:
  void reach(Aftermath& after) noexcept override { after.ended.push_back(*this); }

  WriteStream& stream_;
  const bool surely_;
};

/// A callback that waits for files.
class WriteStream::FilesAsk final : public Callback, public FilesGoal {
 public:
  FilesAsk(WriteStream& stream, std::vector<FileRef> files, std::vector<FileWaiter> waiters,
           bool durable, iow_reached reached, void* user) noexcept;
  ~FilesAsk() override { stream_.drop_reference(); }

  void run() noexcept override {
    files_.clear();
    reached_(error_, user_);
  }
  void reach(Aftermath& after) noexcept override {
    error_ = take_failure_of(files_, nullptr);
    after.callbacks.push_back(*this);
  }

 private:
  WriteStream& stream_;
  std::vector<FileRef> files_;
  std::vector<FileWaiter> waiters_;
  const iow_reached reached_;
  void* const user_;
  int error_ = 0;
};

/// A caller that waits for the write of one buffer, of IOW_OVERFLOW_SYNCHRONOUS. `hand_over` begins
/// the write, under the lock, and returns 0 or -errno.
template <typename HandOver>
class WriteStream::BufferWait final : public ListedWait {
 public:
  BufferWait(WriteStream& stream, Buffer& buffer, uint64_t bytes, HandOver hand_over) noexcept
      : stream_(stream), buffer_(buffer), bytes_(bytes), hand_over_(std::move(hand_over)) {}

  bool begin() noexcept override {
    Aftermath after;
    WriteStream& stream = stream_;
    bool is_over = true;
    {
      const std::lock_guard guard(stream.lock_);
      error_ = hand_over_(after);
      if (error_ == 0 && bytes_ != 0) {
        is_over = false;
        buffer_.waiter = this;  // before it can end, which needs the lock
      }
    }
    stream.finish(after);  // this wait may be gone
    return is_over;
  }
  bool withdraw() noexcept override { return false; }
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  WriteStream& stream_;
  Buffer& buffer_;
  const uint64_t bytes_;
  const HandOver hand_over_;
  int error_ = 0;
};

}  // namespace ioweave::stream
