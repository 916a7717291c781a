#pragma once

// A plan of reads to come, carried out ahead of the program. The contract is
// include/ioweave/plans.h.
//
// A *source* (one read, a stride, a generator) is unrolled into *entries*, a few more than are
// needed next. drive() begins them in their order, while there is room in the budget: an entry gets
// memory and the file's stamp, and is cut into *slices*. As many slices are under way as the depth
// allows; whoever makes room (the end of a slice, a read of the program's) drives on. So a plan has
// no thread of its own.
//
// read() looks up what it wants piece by piece. It copies slices that have been read, waits for
// those that are under way, and reads everything else itself; nobody else reads that then. It takes
// a slice back that the gate holds back, and reads it itself: the program waits for these bytes, so
// no read ahead may go first.
//
// Small reads through the page cache are cheaper for the kernel to make by itself: where reads at
// once do not slow each other down (`pp`), it is advised of them (posix_fadvise(2)), and read()
// reads them from the page cache. The kernel does not tell when these reads end. So every few of
// them a slice of the usual kind follows, and its end counts as theirs.
//
// Such reads are also left to the page cache where it has them already.
//
// A plan with `only_cache` has no memory: its slices end in the page cache, and the program reads
// by other means (MPI-IO). It tells the plan before it does, by await() or pass(), and what it
// reads from the device by itself is an Activity.
//
// The schedules are those of the service's gate: `ppis` puts slices on a flow of the class
// prefetch on the default device, which schedules strictly; `pp` on the flow that never waits.
//
// One lock guards all of it. No system call is made, and nobody told, under it. Entries are pinned
// by whoever copies from them, submits their slices or prepares them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ioweave/plans.h"
#include "service/service.hpp"
#include "stream/plan/depth_trial.hpp"
#include "stream/plan/entry.hpp"

namespace ioweave::stream {

/// Options that were checked.
struct PlanOptions {
  static constexpr uint64_t kMostBudgetBytes = uint64_t{1} << 40;

  iow_plan_schedule schedule = IOW_PLAN_AUTO;
  uint64_t budget_bytes = 256 << 20;
  uint64_t slice_bytes = 1 << 20;  ///< a multiple of kPageBytes
  uint32_t depth = 0;              ///< 0: to be found
  uint32_t flow = 0;
  uint32_t own_flow = 0;
  bool has_flows = false;
  bool huge_pages = true;
  bool is_sole_writer = false;  ///< nobody but the plan writes to its files
  bool reads_cached = false;    ///< ahead what is in the page cache, too
  bool only_cache = false;  ///< read ahead into the page cache alone, for who reads by other means
};

/// Thread-safe, but for close().
class Plan {
 public:
  struct Closer {
    void operator()(Plan* plan) const noexcept;
  };
  using Owner = std::unique_ptr<Plan, Closer>;

  /// Null with -errno in `error` and a sentence in `why`. May throw std::bad_alloc.
  [[nodiscard]] static Owner open(service::Service& service, const PlanOptions& options, int& error,
                                  std::string& why);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // The contracts of the functions of plans.h that are called alike. add_strided() and generate()
  // may throw std::bad_alloc.

  [[nodiscard]] int add_strided(int fd, int64_t offset, uint64_t bytes, int64_t stride,
                                uint64_t count);
  [[nodiscard]] int generate(iow_plan_next next, void* user);
  [[nodiscard]] int64_t read(int fd, void* buffer, uint64_t bytes, int64_t offset) noexcept;
  /// `memory` is null if nothing was read.
  [[nodiscard]] int64_t lease(int fd, uint64_t bytes, int64_t offset,
                              LeasedMemory*& memory) noexcept;
  void end_lease(LeasedMemory* memory) noexcept;
  [[nodiscard]] int64_t write(int fd, const void* buffer, uint64_t bytes, int64_t offset) noexcept;
  [[nodiscard]] int invalidate(int fd, int64_t offset, uint64_t bytes) noexcept;
  [[nodiscard]] int forget(int fd) noexcept;
  [[nodiscard]] iow_plan_stats statistics() const noexcept;

  // Of plans with `only_cache`.

  /// A transfer of the program's own by other means than the plan's: `ppis` lets it go first.
  class Activity {
   public:
    explicit Activity(Plan& plan) noexcept;
    ~Activity();
    Activity(const Activity&) = delete;
    Activity& operator=(const Activity&) = delete;

   private:
    Plan& plan_;
    const gate::Activity activity_;
  };

  /// The program is about to read these bytes. Waits for slices of them that are under way. Returns
  /// whether all bytes were planned and have been read ahead.
  bool await(int fd, int64_t offset, uint64_t bytes) noexcept {
    return hand_over(fd, offset, bytes, true);
  }
  /// The same without a wait.
  void pass(int fd, int64_t offset, uint64_t bytes) noexcept {
    static_cast<void>(hand_over(fd, offset, bytes, false));
  }
  /// forget() without a wait.
  int drop_file(int fd) noexcept {
    FileState state;
    const int error = find_state(fd, state);
    if (error == 0) {
      drop_file(state.id);
    }
    return error;
  }

  /// Whether this is a forked child, where the plan's lock must be left alone.
  [[nodiscard]] bool is_inherited() const noexcept { return born_ != service::fork_generation(); }

 private:
  class IdleWait;
  class OneSlice;
  class OwnTransfer;
  struct Aftermath;

  /// Reads that are to become entries.
  struct Source {
    int fd = -1;
    FileId file;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    int64_t stride = 0;
    uint64_t count = 0;
    iow_plan_next next = nullptr;  ///< of a generator
    void* user = nullptr;
  };

  /// Entries that have not begun, in their order.
  struct Waiting {
    LinkedList<Entry> entries;
    size_t count = 0;
    uint64_t bytes = 0;
  };

  /// What a part of a read is, and where it comes from.
  struct Part {
    uint64_t begin = 0;  ///< within what is read
    uint64_t bytes = 0;
    Slice* slice = nullptr;   ///< null: the caller reads it
    bool is_advised = false;  ///< and the kernel has been advised of it
    uint64_t at = 0;          ///< within the slice
  };
  /// Some parts of a read, one behind the other.
  struct Parts {
    static constexpr size_t kMost = 32;
    std::array<Part, kMost> part;
    size_t count = 0;
    uint64_t bytes = 0;
  };
  /// What a read was made of.
  struct ReadCounts {
    bool is_planned = false;  ///< some of it was
    bool is_late = false;     ///< some of it was planned, and not there
    uint64_t hit_bytes = 0;
    uint64_t own_bytes = 0;
    uint64_t wait_ns = 0;
    uint64_t read_ns = 0;
  };
  /// The file before and after a write of the plan's own.
  struct Restamp {
    FileStamp before;
    FileStamp after;
  };
  /// What is read: where to, and from where.
  struct Reading {
    int fd;
    std::byte* to;
    uint64_t offset;
    uint64_t bytes;
    FileId file;
    FileStamp stamp;
    bool waits = true;  ///< for what is under way
  };

  Plan(service::Service& service, const PlanOptions& options) noexcept;
  ~Plan();
  void close() noexcept;
  [[nodiscard]] int find_flows(std::string& why);
  void finish(Aftermath& after) noexcept;
  void take_back(Slice* unwanted) noexcept;

  // Planning. Under the lock: unroll_one() to new_entry().
  void unroll() noexcept;
  void unroll_one(std::unique_lock<std::mutex>& guard);
  void add_read(const Source& source);
  [[nodiscard]] Entry& new_entry(FileId id, int fd, uint64_t offset, uint64_t bytes,
                                 uint64_t number);
  [[nodiscard]] uint64_t most_of_entry() const noexcept;

  // Reading ahead. Under the lock: take_slices() to begin().
  void drive() noexcept;
  void submit(LinkedList<Slice>& slices) noexcept;
  void end_slice(Slice& slice) noexcept;
  void prepare(Entry& entry) noexcept;
  void take_slices(LinkedList<Slice>& slices) noexcept;
  [[nodiscard]] Entry* choose_entry(Aftermath& after) noexcept;
  void defer_passed(Aftermath& after) noexcept;
  [[nodiscard]] bool is_followed() const noexcept;
  [[nodiscard]] uint32_t depth() const noexcept;
  [[nodiscard]] bool may_advise(const Entry& entry) const noexcept;
  [[nodiscard]] bool advise(Entry& entry) noexcept;
  [[nodiscard]] bool find_cached(Entry& entry) noexcept;
  void leave_to_cache(Entry& entry, uint64_t ahead, Aftermath& after) noexcept;
  [[nodiscard]] PageMemory take_spare(uint64_t bytes) noexcept;
  [[nodiscard]] uint64_t enough(uint64_t entry_bytes) const noexcept;
  [[nodiscard]] bool has_room(uint64_t bytes, Aftermath& after) noexcept;
  [[nodiscard]] bool evict_one(Aftermath& after) noexcept;
  void note_end(const Slice& slice) noexcept;
  void settle_schedule() noexcept;
  void tell_idle(Aftermath& after) noexcept;
  void begin(Entry& entry, std::vector<Slice> slices, const FileStamp& stamp) noexcept;
  void enter_begun(Entry& entry) noexcept;

  // Entries. Under the lock, but for drop_file() and drop_all().
  void enter_planned(Entry& entry, bool at_front) noexcept;
  void leave_planned(Entry& entry) noexcept;
  [[nodiscard]] Waiting& waiting_with(const Entry& entry) noexcept {
    return entry.has_passed ? passed_ : planned_;
  }
  [[nodiscard]] static Entry* find_entry(File& file, uint64_t at) noexcept;
  void note_taken(const Entry& entry) noexcept;
  void take(Entry& entry, uint64_t bytes, Aftermath& after) noexcept;
  void take_planned(Entry& entry, uint64_t begin, uint64_t bytes, Aftermath& after) noexcept;
  void rekey(Entry& entry, uint64_t offset, uint64_t bytes) noexcept;
  void drop(Entry& entry, Aftermath& after) noexcept;
  void drop_unread(Entry& entry, bool is_stale, Aftermath& after) noexcept;
  void drop_file(FileId id) noexcept;
  void drop_all() noexcept;
  void drop_range(File& file, uint64_t begin, uint64_t end, Aftermath& after) noexcept;
  void unpin(Entry& entry, Aftermath& after) noexcept;
  void destroy_if_unused(Entry& entry, Aftermath& after) noexcept;
  void release(File& file) noexcept;
  void keep_memory(PageMemory memory, Aftermath& after) noexcept;

  // The program's own transfers. Under the lock: find_parts() and find_part().
  [[nodiscard]] bool find_reading(int fd, std::byte* to, uint64_t bytes, int64_t offset,
                                  Reading& reading) const noexcept;
  void find_parts(const Reading& reading, uint64_t done, Parts& parts, ReadCounts& counts,
                  Aftermath& after) noexcept;
  void find_part(File& file, uint64_t at, bool waits, Part& part, ReadCounts& counts,
                 Aftermath& after) noexcept;
  [[nodiscard]] int64_t fill(const Reading& reading, const Parts& parts,
                             ReadCounts& counts) noexcept;
  [[nodiscard]] int64_t fill_from_slice(const Reading& reading, const Part& part,
                                        ReadCounts& counts) noexcept;
  [[nodiscard]] int64_t read_own(const Reading& reading, uint64_t begin, uint64_t bytes,
                                 ReadCounts& counts) noexcept;
  [[nodiscard]] int64_t read_advised(const Reading& reading, const Part& part,
                                     ReadCounts& counts) noexcept;
  [[nodiscard]] bool lease_planned(int fd, uint64_t bytes, int64_t offset, LeasedMemory& lease,
                                   int64_t& got) noexcept;
  [[nodiscard]] Entry* claim(const Reading& reading, ReadCounts& counts) noexcept;
  [[nodiscard]] int64_t complete(Entry& entry, const Reading& reading, ReadCounts& counts) noexcept;
  void read_missing(Entry& entry, const Reading& reading, ReadCounts& counts) noexcept;
  void give_away(Entry& entry, LeasedMemory* memory) noexcept;
  [[nodiscard]] bool wait_for(Slice& slice, ReadCounts& counts) noexcept;
  bool hand_over(int fd, int64_t offset, uint64_t bytes, bool waits) noexcept;
  [[nodiscard]] bool is_cached(Slice& slice, const Part& part, bool waits,
                               ReadCounts& counts) noexcept;
  void end_parts(const Parts& parts) noexcept;
  void count_read(uint64_t done, const ReadCounts& counts) noexcept;
  [[nodiscard]] int64_t move_own(engine::Op op, int fd, std::byte* buffer, uint64_t bytes,
                                 int64_t offset, uint8_t flags = 0) noexcept;
  void drop_written(FileId id, uint64_t begin, uint64_t end, const Restamp* restamp) noexcept;

  service::Service& service_;
  const PlanOptions options_;
  const uint32_t born_ = service::fork_generation();
  uint32_t ahead_flow_ = 0;  ///< of slices; under the lock once slices are submitted
  uint32_t own_flow_ = 0;
  uint32_t free_flow_ = 0;  ///< of `pp`

  mutable std::mutex lock_;
  std::deque<Source> sources_;
  bool is_unrolling_ = false;
  std::map<FileId, File> files_;
  Waiting planned_;
  Waiting passed_;  ///< by the program, it seems; they come when no others wait
  LinkedList<Entry> begun_;
  size_t begun_count_ = 0;
  Entry* current_ = nullptr;  ///< the one begun whose slices come next
  uint64_t next_number_ = 0;
  /// The highest numbers of entries that the program has read of, the highest first. The last of
  /// them says how far it is: a few reads may be far ahead.
  std::array<uint64_t, 4> furthest_taken_{};
  std::vector<PageMemory> spare_;
  uint64_t spare_bytes_ = 0;
  uint64_t used_bytes_ = 0;  ///< of entries
  /// Most bytes of entries: half of the budget until the program has read some of them.
  uint64_t trusted_bytes_;
  uint64_t enough_bytes_;       ///< ahead, so far
  bool has_enough_ = false;     ///< that holds up the next entry
  uint64_t not_before_ns_ = 0;  ///< begin no entry: its file was just changed
  DepthTrial trial_;
  iow_plan_schedule schedule_;
  uint32_t under_way_ = 0;      ///< slices and advised reads
  uint32_t unmarked_ = 0;       ///< advised reads of it that no slice follows yet
  uint32_t busy_ = 0;           ///< slices whose callbacks have not returned
  uint64_t reads_ = 0;          ///< of the program, ended
  uint64_t strays_ = 0;         ///< the last of them, that were not planned
  uint64_t most_strays_ = 0;    ///< between two that were planned
  bool was_followed_ = false;   ///< one was planned
  bool has_strayed_ = false;    ///< and one behind it was not
  uint32_t own_under_way_ = 0;  ///< reads that the program makes by itself
  uint64_t own_ended_ns_ = 0;   ///< the end of the last one
  bool is_driving_ = false;
  bool drive_again_ = false;
  bool is_closed_ = false;
  LinkedList<SliceWait> idle_waits_;  ///< for the end of all slices, or of a file's
  iow_plan_stats stats_{};
};

}  // namespace ioweave::stream
