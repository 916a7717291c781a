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
};

/// A wait that whoever ends it puts into an Aftermath first.
class WriteStream::ListedWait : public service::Wait {
 public:
  ListedWait* previous = nullptr;
  ListedWait* next = nullptr;
};

/// Somebody's place in the line for buffers: a caller that waits, or a callback.
struct WriteStream::LeaseAsk {
  LeaseAsk* previous = nullptr;
  LeaseAsk* next = nullptr;
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
  bool durable = false;
  FilesWait* whole = nullptr;
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
  LinkedList<LeaseAsk> leased;
};

/// Waits for one or more files.
class WriteStream::FilesWait final : public ListedWait {
 public:
  /// `surely`: it cannot be withdrawn, so a caller who must not wait waits all the same.
  FilesWait(WriteStream& stream, const FileRef* files, FileWaiter* waiters, size_t count,
            bool durable, bool surely) noexcept
      : stream_(stream),
        files_(files),
        waiters_(waiters),
        count_(count),
        durable_(durable),
        surely_(surely) {}

  bool begin() noexcept override;
  bool withdraw() noexcept override;

  /// Under the lock: a file has reached what was wanted of it.
  void count_down(Aftermath& after) noexcept {
    if (--left_ == 0) {
      after.ended.push_back(*this);
    }
  }

 private:
  WriteStream& stream_;
  const FileRef* const files_;
  FileWaiter* const waiters_;
  const size_t count_;
  const bool durable_;
  const bool surely_;
  size_t left_ = 0;
};

}  // namespace ioweave::stream
