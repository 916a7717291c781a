#pragma once

// A read stream: items read in their order, ahead of who wants them. The contract is
// include/ioweave/read_streams.h.
//
// plan() cuts items into pieces that fit a buffer, as many as there are buffers. Each free buffer
// takes the next piece and joins `order_`, and its read is submitted: from whatever target, so all
// of them work at the same time. A piece that can be told without a read (its item is lost, has no
// bytes, or its file could not be opened) has ended at once. When the first of `order_` has ended
// it goes to who waits longest; end_lease() starts the next read in it.
//
// One lock guards all of it but the source, which belongs to who has set `is_planning_`. No system
// call but a wake-up is made under it, and no callback runs: what is to be started, told or woken
// is collected in an `Aftermath` and done afterwards.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ioweave/read_streams.h"
#include "service/service.hpp"
#include "service/wait.hpp"
#include "stream/manifest/item_source.hpp"
#include "stream/read/source_file.hpp"
#include "stream/write/buffer_pool.hpp"
#include "stream/write/callback.hpp"
#include "stream/write/linked_list.hpp"

namespace ioweave::stream {

/// Options that were checked.
struct ReadStreamOptions {
  uint64_t buffer_bytes = 4 << 20;  ///< a multiple of kPageBytes
  uint32_t buffers = 8;
  uint32_t flow = 0;
  bool huge_pages = true;
};

/// A file, or why there is none.
struct SourceTarget {
  SourceFile file;
  int error = 0;
  std::string why;
};

/// Thread-safe. Deletes itself: it lives until it is closed and the last lease has ended.
class ReadStream {
 public:
  struct Buffer;
  struct Closer {
    void operator()(ReadStream* stream) const noexcept { stream->drop_reference(); }
  };
  using Owner = std::unique_ptr<ReadStream, Closer>;

  /// Null without memory. `targets` are those of the source. The service outlives close(). May
  /// throw std::bad_alloc.
  [[nodiscard]] static Owner open(service::Service& service, std::unique_ptr<ItemSource> source,
                                  std::vector<std::unique_ptr<SourceTarget>> targets,
                                  const ReadStreamOptions& options);
  ReadStream(const ReadStream&) = delete;
  ReadStream& operator=(const ReadStream&) = delete;

  // The contracts of the functions of read_streams.h that are called alike.

  [[nodiscard]] int next(iow_read_lease& lease, int64_t timeout_ns) noexcept;
  [[nodiscard]] int next_async(iow_read_done done, void* user);
  static void end_lease(Buffer& buffer) noexcept;
  [[nodiscard]] std::string explain(const iow_read_lease& lease, int error) const;
  /// Afterwards leases may still end, and nothing else.
  void close() noexcept;
  [[nodiscard]] iow_read_stream_stats statistics() const noexcept;

  [[nodiscard]] static ReadStream& stream_of(Buffer& buffer) noexcept;
  /// Whether this is a forked child, where the stream must be left alone.
  [[nodiscard]] bool is_inherited() const noexcept { return born_ != service::fork_generation(); }

 private:
  class Ask;
  class ListedWait;
  class NextWait;
  class CloseWait;
  struct Aftermath;
  struct Submission;

  /// What goes into one buffer.
  struct Piece {
    ManifestItem item;
    uint64_t begin = 0;  ///< within the item
    uint64_t bytes = 0;
    int error = 0;  ///< known without a read
  };

  ReadStream(service::Service& service, std::unique_ptr<ItemSource> source,
             std::vector<std::unique_ptr<SourceTarget>> targets, const ReadStreamOptions& options);
  ~ReadStream();
  void drop_reference() noexcept;

  void plan() noexcept;
  [[nodiscard]] bool plan_pieces(size_t room) noexcept;
  [[nodiscard]] bool plan_item() noexcept;
  [[nodiscard]] int error_of(const ManifestItem& item) const noexcept;

  // Under the lock: start_reads() to free_buffer().
  void start_reads(Aftermath& after) noexcept;
  void hand_out(Aftermath& after) noexcept;
  void tell(Ask& ask, int result, Aftermath& after) noexcept;
  void free_buffer(Buffer& buffer, Aftermath& after) noexcept;

  [[nodiscard]] bool ask_now(Ask& ask, ListedWait* wait) noexcept;
  void submit_read(Buffer& buffer) noexcept;
  void end_request(Buffer& buffer) noexcept;
  void end_read(Buffer& buffer, int error) noexcept;
  void finish(Aftermath& after) noexcept;
  /// Under the lock: nothing of the stream runs but what callers call.
  [[nodiscard]] bool is_idle() const noexcept { return reading_ == 0 && ending_ == 0; }

  service::Service& service_;
  const ReadStreamOptions options_;
  const uint32_t born_ = service::fork_generation();
  const std::unique_ptr<ItemSource> source_;
  const std::vector<std::unique_ptr<SourceTarget>> targets_;
  BufferPool pool_;
  std::unique_ptr<Buffer[]> buffers_;
  std::atomic<uint32_t> references_{1};  ///< of the owner, and of each lease

  // Of who plans.
  ManifestItem item_;
  int item_error_ = 0;
  bool has_source_failed_ = false;
  uint64_t item_left_ = 0;    ///< bytes of it that are not planned yet
  std::vector<Piece> fresh_;  ///< planned, not under the lock yet

  mutable std::mutex lock_;
  bool is_planning_ = false;
  bool is_planned_ = false;     ///< to the end
  std::string source_why_;      ///< why the source could not go on
  std::vector<Piece> planned_;  ///< a ring
  size_t planned_first_ = 0;
  size_t planned_count_ = 0;
  LinkedList<Buffer> free_;
  LinkedList<Buffer> order_;   ///< being read, or read and not leased yet
  LinkedList<Callback> asks_;  ///< each an Ask
  uint32_t reading_ = 0;
  uint32_t ending_ = 0;  ///< reads that have ended, whose callbacks have not returned
  bool closed_ = false;
  ListedWait* closing_ = nullptr;
  iow_read_stream_stats stats_{};
};

}  // namespace ioweave::stream
