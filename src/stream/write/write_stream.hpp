#pragma once

// A write stream: buffers that programs fill, and their writes to several files. The contract is
// include/ioweave/streams.h.
//
// The way of a buffer: lease() takes it from those that are free, or waits in line for the next one
// that becomes free. write() gives it a place in its file's list of outstanding writes, in the
// order of the calls, and starts it, at once or when fewer than `depth` are under way. A write has
// up to three parts (write_parts.hpp), which are requests of the service with a callback. When the
// last part has ended, end_write() takes the buffer out of the list, notes an error for the file,
// gives the buffer to who waits longest, starts the next write, and wakes those who wait for the
// file.
//
// Waiting for files: flush() and its like wait until the writes that were outstanding when they
// were called have left the list. Where they want durability, they then share an fdatasync(2) with
// all others whose turn it is.
//
// One lock guards all of it. It is held across no system call but a wake-up, and no callback runs
// under it: what is to be started, told or woken is collected in an `Aftermath` and done
// afterwards.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ioweave/streams.h"
#include "service/service.hpp"
#include "service/wait.hpp"
#include "stream/write/buffer_pool.hpp"
#include "stream/write/callback.hpp"
#include "stream/write/linked_list.hpp"
#include "stream/write/target_file.hpp"
#include "stream/write/write_parts.hpp"
#include "stream/write/write_placer.hpp"

namespace ioweave::stream {

/// Options that were checked.
struct WriteStreamOptions {
  iow_overflow overflow = IOW_OVERFLOW_BLOCK;
  uint64_t buffer_bytes = 4 << 20;  ///< a multiple of kPageBytes
  uint32_t buffers = 8;             ///< two or more for IOW_OVERFLOW_SYNCHRONOUS
  uint32_t depth = 8;
  uint32_t flow = 0;
  iow_write_path path = IOW_PATH_AUTO;
  bool huge_pages = true;
};

/// Thread-safe. Deletes itself: it lives until it is closed and the last lease has ended.
class WriteStream {
 public:
  struct Buffer;

  struct Closer {
    void operator()(WriteStream* stream) const noexcept { stream->drop_reference(); }
  };
  using Owner = std::unique_ptr<WriteStream, Closer>;

  /// Null without memory. The service outlives close().
  /// May throw std::bad_alloc.
  [[nodiscard]] static Owner open(service::Service& service, const WriteStreamOptions& options);
  WriteStream(const WriteStream&) = delete;
  WriteStream& operator=(const WriteStream&) = delete;

  /// What became of a file.
  struct FileEnd {
    int error = 0;              ///< 0 or -errno of its first failure
    bool was_reported = false;  ///< before it ended
    bool is_in_doubt = false;   ///< a sync failed: any of its bytes may be missing on the device
    std::string why;
  };

  // The contracts of the functions of streams.h that are called alike. Buffers are leases.

  [[nodiscard]] int create(const std::string& path, const iow_write_file_options& options,
                           std::string& why);
  [[nodiscard]] int lease(Buffer*& buffer, int64_t timeout_ns) noexcept;
  [[nodiscard]] int lease_async(iow_leased leased, void* user);
  [[nodiscard]] int write(Buffer& buffer, int file, uint64_t bytes, int64_t offset) noexcept;
  [[nodiscard]] int append(Buffer& buffer, int file, uint64_t bytes) noexcept {
    return write(buffer, file, bytes, kAppend);
  }
  void end_lease(Buffer& buffer) noexcept;

  // Of a placer, in stream_placed.cpp. A file that it places writes on has nobody else's.

  /// Gives a file that was created to the placer.
  void give_file(int file, WritePlacer& placer) noexcept;
  /// As append(), to the file that the placer chooses. It outlives its writes.
  /// `tag` is what the placer called it.
  [[nodiscard]] int write_placed(Buffer& buffer, WritePlacer& placer, uint64_t bytes,
                                 uint64_t& tag) noexcept;
  /// Waits until all writes of the placer have ended, wherever they went.
  void wait_placed(const WritePlacer& placer, const std::vector<int>& files) noexcept;
  /// The same, and ends its files. Their errors count as reported. -EBADF: the stream is closed, or
  /// one of them has ended before.
  [[nodiscard]] int end_placed(const WritePlacer& placer, const std::vector<int>& files,
                               bool durable, std::vector<FileEnd>& ends);
  /// Calls `look` under the lock, which guards what a placer knows.
  template <typename Look>
  void under_lock(const Look& look) const {
    const std::lock_guard guard(lock_);
    look();
  }
  /// One more owner.
  [[nodiscard]] Owner share() noexcept;
  [[nodiscard]] service::Service& service() const noexcept { return service_; }
  [[nodiscard]] uint64_t buffer_bytes() const noexcept { return options_.buffer_bytes; }

  [[nodiscard]] int copy(int file, const std::byte* data, uint64_t bytes, int64_t offset) noexcept;
  [[nodiscard]] int flush(int file) { return reach(file, false); }
  [[nodiscard]] int sync(int file) { return reach(file, true); }
  [[nodiscard]] int reach_async(int file, bool durable, iow_reached reached, void* user);
  [[nodiscard]] int end(int file, bool durable, std::string& why);
  /// Afterwards leases may still end, and nothing else.
  [[nodiscard]] int close(bool durable, std::string& why) noexcept;
  [[nodiscard]] int tell_error(int file, std::string& why) const;
  [[nodiscard]] iow_write_stream_stats statistics() const noexcept;

  /// What C programs see of a buffer that they may fill.
  [[nodiscard]] static iow_lease lease_of(Buffer& buffer) noexcept;
  [[nodiscard]] static WriteStream& stream_of(Buffer& buffer) noexcept;

  /// Whether this is a forked child, where the stream must be left alone.
  [[nodiscard]] bool is_inherited() const noexcept { return born_ != service::fork_generation(); }
  /// Counts time that a caller spent in a call, in nanoseconds.
  void count_call(uint64_t ns, bool durable) noexcept {
    (durable ? durable_ns_ : return_ns_).fetch_add(ns, std::memory_order_relaxed);
  }

  static constexpr int64_t kAppend = -1;
  static constexpr int64_t kNoOffset = -1;  ///< of an error that is none of a write
  static constexpr size_t kMostFiles = 65536;

 private:
  struct File;
  class FilesAsk;
  class FilesGoal;
  struct FileWaiter;
  class LeaseAsk;
  struct Part;
  struct Outstanding;
  class ListedWait;
  class LeaseWait;
  template <typename HandOver>
  class BufferWait;
  class FilesWait;
  struct Aftermath;
  using FileRef = std::shared_ptr<File>;

  WriteStream(service::Service& service, const WriteStreamOptions& options);
  ~WriteStream();
  void drop_reference() noexcept;

  // Buffers, all under the lock but wait_for_buffer().
  [[nodiscard]] Buffer* take_free(bool also_spare) noexcept;
  void give_back(Buffer& buffer, Aftermath& after) noexcept;
  [[nodiscard]] int wait_for_buffer(Buffer*& buffer, int64_t timeout_ns) noexcept;

  // Writes: hand_over() to fail() under the lock.
  [[nodiscard]] int hand_over(Buffer& buffer, const FileRef& file, uint64_t bytes, int64_t offset,
                              Aftermath& after) noexcept;
  [[nodiscard]] int check(const FileRef& file, uint64_t bytes, int64_t& offset) noexcept;
  static void accept(File& file, uint64_t bytes, int64_t offset, bool is_append) noexcept;
  void put_in_line(Buffer& buffer, Outstanding* copy, Aftermath& after) noexcept;
  void line_up(Buffer& buffer) noexcept;
  void start_writes(Aftermath& after) noexcept;
  [[nodiscard]] int choose_file(WritePlacer& placer, uint64_t bytes, FileRef& file) noexcept;
  [[nodiscard]] int hand_over_placed(Buffer& buffer, WritePlacer& placer, uint64_t bytes,
                                     uint64_t& tag, Aftermath& after) noexcept;
  [[nodiscard]] bool place_again(Buffer& buffer) noexcept;
  void leave_file(Buffer& buffer, int error, Aftermath& after) noexcept;
  void fail(File& file, int error, int64_t offset, uint64_t sequence, Aftermath& after) noexcept;
  void submit_write(Buffer& buffer) noexcept;
  void submit_part(Buffer& buffer, Part& part) noexcept;
  [[nodiscard]] bool submit(iow_request& request) noexcept;
  void end_part(Buffer& buffer, Part& part) noexcept;
  void end_write(Buffer& buffer) noexcept;
  void finish(Aftermath& after) noexcept;

  // Copies.
  [[nodiscard]] int reserve(const File& file, uint64_t bytes, int64_t offset,
                            LinkedList<Buffer>& reserved, Aftermath& after) noexcept;
  [[nodiscard]] int fill_buffers(const FileRef& file, Outstanding& copy, Buffer* buffer,
                                 const std::byte* data, uint64_t bytes, int64_t offset,
                                 LinkedList<Buffer>& reserved) noexcept;
  [[nodiscard]] Buffer* take_to_fill(LinkedList<Buffer>& reserved) noexcept;
  [[nodiscard]] int write_here(File& file, const std::byte* data, uint64_t bytes,
                               int64_t offset) noexcept;
  [[nodiscard]] uint64_t room_in(const Buffer& buffer) const noexcept;
  [[nodiscard]] Buffer* stop_gathering(File& file) noexcept;
  void send_gathered(File& file, Aftermath& after) noexcept;
  void send_oldest_gathered(Aftermath& after) noexcept;

  // Files.
  [[nodiscard]] FileRef reserve_number();
  [[nodiscard]] FileRef find(int file) const noexcept;
  [[nodiscard]] std::vector<FileRef> find_all(int file) const;
  [[nodiscard]] int reach(int file, bool durable);
  [[nodiscard]] int wait_for_files(const std::vector<FileRef>& files, bool durable, bool surely);
  void reach_surely(const FileRef& file, bool durable) noexcept;
  void tell_waiters(File& file, Aftermath& after) noexcept;
  void start_sync(File& file, Aftermath& after) noexcept;
  void submit_sync(File& file) noexcept;
  void end_sync(File& file) noexcept;
  [[nodiscard]] static int take_failure(File& file) noexcept;
  [[nodiscard]] static int take_failure_of(const std::vector<FileRef>& files, File** who) noexcept;
  void end_files(const std::vector<FileRef>& files, bool durable) noexcept;
  [[nodiscard]] static std::string describe_failure(const File& file);
  static void describe_failure_of(const File* failed, std::string& why) noexcept;

  service::Service& service_;
  const WriteStreamOptions options_;
  const uint32_t born_ = service::fork_generation();
  BufferPool pool_;
  std::unique_ptr<Buffer[]> buffers_;
  std::atomic<uint32_t> references_{1};  ///< of the owner, and of each lease

  mutable std::mutex lock_;
  std::vector<FileRef> files_;   ///< by number; null: not in use
  std::vector<FileRef> untold_;  ///< ended with others, with an error that close() must report
  LinkedList<Buffer> free_;
  uint32_t free_count_ = 0;
  LinkedList<Buffer> gathering_;  ///< that copies have begun to fill, the oldest first
  Buffer* spare_ = nullptr;       ///< of IOW_OVERFLOW_SYNCHRONOUS, while nobody has it
  LinkedList<Callback> asks_;     ///< each a LeaseAsk
  LinkedList<Buffer> waiting_writes_;
  uint32_t writes_under_way_ = 0;
  uint32_t in_use_ = 0;
  uint64_t next_sequence_ = 0;
  bool closed_ = false;
  iow_write_stream_stats stats_{};
  std::atomic<uint64_t> return_ns_{0};
  std::atomic<uint64_t> durable_ns_{0};
};

}  // namespace ioweave::stream
