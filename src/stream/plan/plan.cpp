// The life of a plan, and how its entries are read ahead.

#include "stream/plan/plan.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <ctime>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/file_system_kind.hpp"
#include "engine/prefetch.hpp"
#include "stream/plan/aftermath.hpp"
#include "stream/write/buffer_pool.hpp"
#include "stream/write/transfer_flags.hpp"

namespace ioweave::stream {
namespace {

constexpr uint64_t kMappedBytes = 128 << 10;  ///< as much memory is mapped, less comes from malloc
/// Entries that are unrolled from strides and generators and wait; more than those by which
/// defer_passed() knows that the program has passed one by.
constexpr size_t kLeastUnrolled = 64;
constexpr size_t kMostUnrolled = 1 << 14;
constexpr size_t kMostPlanned = 1 << 20;
constexpr size_t kMostPassed = 1 << 14;
/// The least difference between times of a file that tell of different changes, before Linux 6.13.
constexpr int64_t kTimeGrainNs = 10'000'000;
/// The same where a file system keeps whole seconds, or every second one.
constexpr int64_t kSecondsGrainNs = 2'010'000'000;
constexpr int64_t kSecondNs = 1'000'000'000;
/// An entry that nobody reads makes room for others when so many reads have come in its stead.
constexpr uint64_t kPatience = 16;
/// So many reads that were not planned, one behind the other, stop reading ahead, unless as many
/// have come between planned ones before.
constexpr uint64_t kMostStrays = 2;
/// Most bytes of slices under way, for which a read of the program's may have to wait; and where
/// two slices at once do not slow each other down, once planned bytes have been read.
constexpr uint64_t kMostInTheWay = 2 << 20;
constexpr uint64_t kMostBesides = 64 << 20;
/// What is read faster was in the page cache.
constexpr uint64_t kMostCachedNs = 20'000;
constexpr uint64_t kCachedBytesPerNs = 4;
/// What is enough ahead of the program at first: so many bytes, or the entry that it works on and
/// two more.
constexpr uint64_t kEnoughBytes = 8 << 20;
constexpr uint64_t kEntriesAtOnce = 3;
/// Larger reads go to memory of the plan's: a copy costs little beside them.
constexpr uint64_t kMostAdvisedBytes = 64 << 10;
/// So many slices of the usual kind are among those that may be under way.
constexpr uint32_t kMarkers = 4;
/// `pp` is worth it if two slices at once are so much faster than one.
constexpr double kSharedWithoutLoss = 1.3;

/// Whether another change could leave the file with the same times. Times that are far from ours
/// are another clock's, or somebody has set them: they tell nothing.
bool is_just_changed(const FileStamp& stamp) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  const int64_t now_ns = int64_t{now.tv_sec} * kSecondNs + now.tv_nsec;
  const bool has_whole_seconds =
      stamp.modified_ns % kSecondNs == 0 && stamp.changed_ns % kSecondNs == 0;
  const int64_t grain = has_whole_seconds ? kSecondsGrainNs : kTimeGrainNs;
  const auto is_recent = [&](int64_t time_ns) { return std::abs(now_ns - time_ns) < grain; };
  return is_recent(stamp.modified_ns) || is_recent(stamp.changed_ns);
}

int find_file(int fd, FileState& state) noexcept {
  const int error = find_state(fd, state);
  return error != 0 || state.is_regular ? error : -EINVAL;
}

}  // namespace

// ---- Memory

PageMemory::PageMemory(uint64_t bytes, bool huge_pages) noexcept {
  void* data = nullptr;
  if (bytes < kMappedBytes) {
    data = std::aligned_alloc(kPageBytes, bytes);
  } else {
    data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data = data == MAP_FAILED ? nullptr : data;
    if (data != nullptr) {
      ::madvise(data, bytes, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);  // best effort
    }
  }
  if (data != nullptr) {
    data_ = static_cast<std::byte*>(data);
    bytes_ = bytes;
  }
}

PageMemory::~PageMemory() {
  if (bytes_ >= kMappedBytes) {
    ::munmap(data_, bytes_);
  } else {
    std::free(data_);
  }
}

// ---- Life

Plan::Owner Plan::open(service::Service& service, const PlanOptions& options, int& error,
                       std::string& why) {
  Owner plan(new Plan(service, options));
  error = plan->find_flows(why);
  return error == 0 ? std::move(plan) : nullptr;
}

Plan::Plan(service::Service& service, const PlanOptions& options) noexcept
    : service_(service),
      options_(options),
      trusted_bytes_(options.budget_bytes / 2),
      enough_bytes_(kEnoughBytes),
      trial_(options.depth),
      schedule_(options.schedule == IOW_PLAN_AUTO && !options.has_flows ? IOW_PLAN_PPIS
                                                                        : options.schedule) {}

/// The flows of the schedule, which all plans of a service share.
int Plan::find_flows(std::string& why) {
  if (options_.has_flows) {
    ahead_flow_ = options_.flow;
    own_flow_ = options_.own_flow;
    return 0;
  }
  gate::Gate& gate = service_.gate();
  const auto flow_on = [&](int64_t device, const char* name, policy::Class priority) -> int64_t {
    policy::FlowConfig flow;
    flow.name = name;
    flow.device = static_cast<policy::DeviceId>(device);
    flow.priority = priority;
    return device < 0 ? device : gate.flow_like(flow, why);
  };
  policy::DeviceConfig shared;
  int64_t ahead = 0;
  int64_t own = 0;
  int64_t free = 0;
  switch (options_.schedule) {
    case IOW_PLAN_NORMAL:
      return 0;
    case IOW_PLAN_WEIGHTED: {
      shared.name = "plans, weighted";
      shared.scheduling = policy::Scheduling::weighted;
      shared.max_in_flight = 8;
      const int64_t device = gate.device_like(shared, why);
      ahead = flow_on(device, "reads ahead, weighted", policy::Class::prefetch);
      own = flow_on(device, "own transfers, weighted", policy::Class::foreground);
      break;
    }
    default:
      shared.name = "plans, pp";
      free = flow_on(gate.device_like(shared, why), "reads ahead, pp", policy::Class::prefetch);
      ahead = options_.schedule == IOW_PLAN_PP
                  ? free
                  : flow_on(0, "reads ahead, ppis", policy::Class::prefetch);
  }
  if (const int64_t least = std::min({ahead, own, free}); least < 0) {
    return static_cast<int>(least);
  }
  ahead_flow_ = static_cast<uint32_t>(ahead);
  own_flow_ = static_cast<uint32_t>(own);
  free_flow_ = static_cast<uint32_t>(free);
  return 0;
}

void Plan::Closer::operator()(Plan* plan) const noexcept {
  if (plan->is_inherited()) {
    return;  // the parent's threads may have left it half-changed
  }
  plan->close();
  delete plan;
}

Plan::~Plan() = default;

void Plan::close() noexcept {
  {
    const std::lock_guard guard(lock_);
    is_closed_ = true;
  }
  drop_all();  // what the gate holds is taken back: it might hold it for ever
  IdleWait wait(*this, nullptr);
  static_cast<void>(service_.wait_for(wait, -1));
  drop_all();  // what was being prepared meanwhile
}

void Plan::drop_all() noexcept {
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    while (Entry* const entry = begun_.first()) {
      drop(*entry, after);
    }
    for (Waiting* const waiting : {&planned_, &passed_}) {
      while (Entry* const entry = waiting->entries.first()) {
        drop(*entry, after);
      }
    }
  }
  finish(after);
}

iow_plan_stats Plan::statistics() const noexcept {
  const std::lock_guard guard(lock_);
  iow_plan_stats stats = stats_;
  stats.depth = depth();
  stats.schedule = schedule_;
  stats.gain_of_two = trial_.gain_of_two();
  stats.is_settled = trial_.is_settled() ? 1 : 0;
  return stats;
}

/// The plan may be gone afterwards.
void Plan::finish(Aftermath& after) noexcept {
  after.memory.clear();
  if (Slice* const unwanted = std::exchange(after.unwanted, nullptr)) {
    take_back(unwanted);
  }
  while (SliceWait* const wait = after.ended.pop_front()) {
    wait->end();
  }
}

/// Cancels slices that nobody wants if the gate still holds them, and unpins their entries.
void Plan::take_back(Slice* unwanted) noexcept {
  for (Slice* slice = unwanted; slice != nullptr; slice = slice->next_unwanted) {
    static_cast<void>(service_.cancel_if_held(slice->request));
  }
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    while (unwanted != nullptr) {
      Slice* const slice = std::exchange(unwanted, unwanted->next_unwanted);
      unpin(*slice->entry, after);  // it may be gone
    }
  }
  finish(after);
}

// ---- Planning

int Plan::add_strided(int fd, int64_t offset, uint64_t bytes, int64_t stride, uint64_t count) {
  int64_t last = 0;
  if (bytes == 0 || count == 0 || offset < 0 || bytes > INT64_MAX || count > INT64_MAX ||
      __builtin_mul_overflow(stride, static_cast<int64_t>(count - 1), &last) ||
      __builtin_add_overflow(last, offset, &last) || last < 0 ||
      static_cast<uint64_t>(std::max(last, offset)) > INT64_MAX - bytes) {
    return -EINVAL;
  }
  FileState state;
  if (const int error = find_file(fd, state); error != 0) {
    return error;
  }
  Source source;
  source.fd = fd;
  source.file = state.id;
  source.offset = static_cast<uint64_t>(offset);
  source.bytes = bytes;
  source.stride = stride;
  source.count = count;
  {
    const std::lock_guard guard(lock_);
    if (planned_.count + sources_.size() + (bytes - 1) / most_of_entry() >= kMostPlanned) {
      return -ENOBUFS;
    }
    if (options_.schedule == IOW_PLAN_NORMAL) {
      stats_.planned_reads += count;
      stats_.planned_bytes += count * bytes;
      return 0;
    }
    if (count == 1 && sources_.empty() && !is_unrolling_) {
      add_read(source);  // at once, so that it is known in whatever order reads come
    } else {
      sources_.push_back(source);
    }
  }
  unroll();
  drive();
  return 0;
}

int Plan::generate(iow_plan_next next, void* user) {
  if (options_.schedule == IOW_PLAN_NORMAL) {
    return 0;
  }
  Source source;
  source.next = next;
  source.user = user;
  {
    const std::lock_guard guard(lock_);
    sources_.push_back(source);
  }
  unroll();
  drive();
  return 0;
}

/// Makes entries of what is in the sources, as many as may be needed soon. Never inside a callback:
/// generators run here.
void Plan::unroll() noexcept {
  std::unique_lock guard(lock_);
  if (is_unrolling_) {
    return;
  }
  is_unrolling_ = true;
  try {
    while (!sources_.empty() &&
           (planned_.count < kLeastUnrolled + 2 * begun_count_ ||
            (planned_.bytes < options_.budget_bytes && planned_.count < kMostUnrolled))) {
      unroll_one(guard);
    }
  } catch (const std::bad_alloc&) {
    // Later, or never: the program reads by itself what is not planned.
  }
  is_unrolling_ = false;
}

void Plan::unroll_one(std::unique_lock<std::mutex>& guard) {
  if (sources_.front().next == nullptr) {
    Source& source = sources_.front();
    add_read(source);
    source.offset += static_cast<uint64_t>(source.stride);
    if (--source.count == 0) {
      sources_.pop_front();
    }
    return;
  }
  const Source generator = sources_.front();
  guard.unlock();
  iow_planned_read read{};
  FileState state;
  const bool is_good = generator.next(&read, generator.user) == 1 && read.bytes != 0 &&
                       read.offset >= 0 && read.bytes <= INT64_MAX - uint64_t(read.offset) &&
                       (read.bytes - 1) / most_of_entry() < kMostPlanned &&
                       find_file(read.fd, state) == 0;
  guard.lock();
  if (!is_good) {
    sources_.pop_front();
    return;
  }
  Source source;
  source.fd = read.fd;
  source.file = state.id;
  source.offset = static_cast<uint64_t>(read.offset);
  source.bytes = read.bytes;
  add_read(source);
}

/// Half of the budget, in whole slices.
uint64_t Plan::most_of_entry() const noexcept {
  return std::max(options_.slice_bytes,
                  options_.budget_bytes / 2 / options_.slice_bytes * options_.slice_bytes);
}

/// An entry for the next read of the source, or some for a very large one.
void Plan::add_read(const Source& source) {
  const uint64_t most = most_of_entry();
  ++stats_.planned_reads;
  stats_.planned_bytes += source.bytes;
  for (uint64_t done = 0; done < source.bytes;) {
    const uint64_t bytes = std::min(most, source.bytes - done);
    enter_planned(new_entry(source.file, source.fd, source.offset + done, bytes, next_number_++),
                  false);
    done += bytes;
  }
}

Entry& Plan::new_entry(FileId id, int fd, uint64_t offset, uint64_t bytes, uint64_t number) {
  auto entry = std::make_unique<Entry>();
  File& file = files_.try_emplace(id, this, id).first->second;
  entry->file = &file;
  entry->fd = fd;
  entry->offset = offset;
  entry->bytes = bytes;
  entry->number = number;
  file.entries.emplace(offset, entry.get());  // a file without entries is harmless
  file.longest = std::max(file.longest, bytes);
  ++file.users;
  return *entry.release();
}

// ---- Reading ahead

/// Begins what can be begun. One thread does so at a time; others make it look again.
void Plan::drive() noexcept {
  {
    const std::lock_guard guard(lock_);
    if (is_driving_) {
      drive_again_ = true;
      return;
    }
    is_driving_ = true;
  }
  while (true) {
    Aftermath after;
    LinkedList<Slice> slices;
    Entry* fresh = nullptr;
    {
      const std::lock_guard guard(lock_);
      take_slices(slices);
      fresh = choose_entry(after);
      if (slices.empty() && fresh == nullptr && !std::exchange(drive_again_, false)) {
        is_driving_ = false;
        if (under_way_ < depth()) {
          trial_.interrupt();
        }
        return;
      }
    }
    finish(after);
    submit(slices);
    if (fresh != nullptr) {
      prepare(*fresh);
    }
  }
}

/// The slices that come next, of the entry that was begun last.
void Plan::take_slices(LinkedList<Slice>& slices) noexcept {
  while (current_ != nullptr && under_way_ < depth() && !is_closed_ && is_followed()) {
    Entry& entry = *current_;
    while (entry.next_slice < entry.slices.size() &&
           entry.slices[entry.next_slice].state != Slice::State::waiting) {
      ++entry.next_slice;
    }
    if (entry.next_slice == entry.slices.size()) {
      current_ = nullptr;
      return;
    }
    Slice& slice = entry.slices[entry.next_slice++];
    slice.state = Slice::State::under_way;
    slice.request.flow = ahead_flow_;
    slice.weight = 1 + std::exchange(unmarked_, 0);
    ++under_way_;
    ++busy_;
    ++entry.under_way;
    ++entry.file->under_way;
    ++entry.pins;  // until it is submitted
    slices.push_back(slice);
  }
}

void Plan::submit(LinkedList<Slice>& slices) noexcept {
  for (Slice* slice = slices.first(); slice != nullptr; slice = slice->next) {
    const Entry& entry = *slice->entry;
    iow_request& request = slice->request;
    request.op = options_.only_cache ? IOW_OP_PREFETCH : IOW_OP_READ;
    request.fd = entry.fd;
    request.buffer = options_.only_cache ? nullptr : entry.memory.data() + slice->begin;
    request.bytes = slice->bytes;
    request.offset = static_cast<int64_t>(entry.offset + slice->begin);
    request.flags = transfer_flags(entry.file->is_on_fuse, slice->bytes);
    request.user = slice;
    slice->submitted_ns = now_ns();
    request.callback = [](iow_request*, void* user) {
      Slice& ended = *static_cast<Slice*>(user);
      ended.entry->file->plan->end_slice(ended);
    };
    iow_request* const one = &request;
    const int taken = service_.submit({&one, 1});
    if (taken != 1) {
      request.result = taken < 0 ? taken : -EIO;
      end_slice(*slice);
    }
  }
  // Who wanted a slice meanwhile could not take it back yet.
  bool is_wanted = false;
  {
    const std::lock_guard guard(lock_);
    for (Slice* slice = slices.first(); slice != nullptr; slice = slice->next) {
      slice->is_submitted = true;
      is_wanted = is_wanted || slice->is_wanted;
    }
  }
  for (Slice* slice = slices.first(); is_wanted && slice != nullptr; slice = slice->next) {
    static_cast<void>(service_.cancel_if_held(slice->request));
  }
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    while (const Slice* const slice = slices.pop_front()) {
      unpin(*slice->entry, after);
    }
  }
  finish(after);
}

/// A slice has ended, whether it was read or not.
void Plan::end_slice(Slice& slice) noexcept {
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    const int64_t result = slice.request.result;
    Entry& entry = *slice.entry;
    slice.state = result < 0 ? Slice::State::missing : Slice::State::read;
    slice.got = result < 0 ? 0 : static_cast<uint64_t>(result);
    entry.ahead += slice.got;
    stats_.ahead_bytes += slice.got;
    stats_.failed_slices += result < 0 && result != -ECANCELED ? 1 : 0;
    under_way_ -= slice.weight;
    if (result > 0 && trial_.wants_end(slice.weight)) {
      note_end(slice);
    }
    while (SliceWait* const wait = slice.waits.pop_front()) {
      after.ended.push_back(*wait);
    }
    --entry.file->under_way;
    --entry.under_way;
    destroy_if_unused(entry, after);
    tell_idle(after);
  }
  finish(after);
  drive();
  Aftermath last;
  {
    const std::lock_guard guard(lock_);
    --busy_;
    tell_idle(last);
  }
  finish(last);  // the plan may be gone
}

void Plan::tell_idle(Aftermath& after) noexcept {
  for (SliceWait* wait = idle_waits_.first(); wait != nullptr;) {
    SliceWait* const next = wait->next;
    if (static_cast<IdleWait*>(wait)->is_over()) {
      idle_waits_.remove(*wait);
      after.ended.push_back(*wait);
    }
    wait = next;
  }
}

/// What the end of a slice tells of the device: nothing if it came from the page cache, or had to
/// wait for reads of the program's or to share the device with them.
void Plan::note_end(const Slice& slice) noexcept {
  const uint64_t end_ns = now_ns();
  const bool was_cached =
      end_ns - slice.submitted_ns < kMostCachedNs + slice.got / kCachedBytesPerNs;
  if (was_cached || own_under_way_ != 0 || slice.submitted_ns < own_ended_ns_) {
    trial_.interrupt();
    return;
  }
  trial_.note_end(slice.got, end_ns);
  settle_schedule();
  const bool is_free = trial_.gain_of_two() >= kSharedWithoutLoss && stats_.hit_bytes != 0;
  const uint64_t most = (is_free ? kMostBesides : kMostInTheWay) / slice.bytes;
  trial_.limit(static_cast<uint32_t>(std::clamp<uint64_t>(most, 2, DepthTrial::kMost)));
}

/// Reads at the same time that do not slow each other down need no order.
void Plan::settle_schedule() noexcept {
  if (options_.schedule == IOW_PLAN_AUTO && schedule_ == IOW_PLAN_PPIS &&
      trial_.gain_of_two() >= kSharedWithoutLoss) {
    schedule_ = IOW_PLAN_PP;
    ahead_flow_ = free_flow_;
  }
}

/// The next entry, if there is room for it and slices of it are wanted; then it is pinned, and
/// its room is taken.
Entry* Plan::choose_entry(Aftermath& after) noexcept {
  defer_passed(after);
  Waiting& waiting = planned_.count != 0 ? planned_ : passed_;
  Entry* const entry = waiting.entries.first();
  if (entry == nullptr || current_ != nullptr || under_way_ >= depth() || is_closed_ ||
      !is_followed() || (not_before_ns_ != 0 && now_ns() < not_before_ns_)) {
    return nullptr;
  }
  const uint64_t room = whole_pages(entry->bytes);
  if (entry->room == 0 && !has_room(room, after)) {
    return nullptr;
  }
  leave_planned(*entry);
  ++entry->pins;
  ++entry->file->under_way;
  if (entry->room != 0) {
    return entry;  // it has its memory
  }
  used_bytes_ += room;
  entry->room = room;
  if (may_advise(*entry)) {
    entry->wants_advice = true;
    ++unmarked_;
    ++under_way_;
    return entry;
  }
  entry->memory = take_spare(room);
  return entry;
}

/// Memory of this size that an entry had before; empty if there is none.
PageMemory Plan::take_spare(uint64_t bytes) noexcept {
  PageMemory found;
  const auto fits = std::find_if(spare_.rbegin(), spare_.rend(),
                                 [&](const PageMemory& memory) { return memory.bytes() == bytes; });
  if (fits != spare_.rend()) {
    spare_bytes_ -= bytes;
    found = std::move(*fits);
    *fits = std::move(spare_.back());
    spare_.pop_back();
  }
  return found;
}

/// Whether the program reads what is planned, as far as its last reads tell.
bool Plan::is_followed() const noexcept {
  return strays_ <= std::max(kMostStrays, 4 * most_strays_);
}

/// Slices at once. Spare ones would be in the way of reads that were not planned.
uint32_t Plan::depth() const noexcept {
  return has_strayed_ ? trial_.depth() : trial_.depth_with_spare();
}

/// Whether the kernel can read it ahead with less work than slices would be.
bool Plan::may_advise(const Entry& entry) const noexcept {
  return schedule_ == IOW_PLAN_PP && !trial_.is_measuring() && entry.bytes <= kMostAdvisedBytes &&
         unmarked_ + 1 < depth() / kMarkers;
}

/// Puts entries that the program seems to have passed by behind all others. Too many of them are
/// forgotten.
void Plan::defer_passed(Aftermath& after) noexcept {
  for (Entry* entry = planned_.entries.first();
       entry != nullptr && entry->number + kPatience + 2 * begun_count_ < furthest_taken_.back();
       entry = planned_.entries.first()) {
    leave_planned(*entry);
    entry->has_passed = true;
    enter_planned(*entry, false);
    if (passed_.count > kMostPassed) {
      drop(*passed_.entries.first(), after);
    }
  }
}

/// Bytes that are enough ahead of a program that has not had to wait with so many. More of them
/// would be memory that is filled for the first time, and gone from the processor's cache when it
/// is read.
uint64_t Plan::enough(uint64_t entry_bytes) const noexcept {
  // Who begins with computing may read much at once afterwards; what is farther ahead in the page
  // cache costs nothing.
  if (stats_.reads == 0 || options_.only_cache) {
    return UINT64_MAX;
  }
  const uint64_t of_depth = uint64_t{2} * depth() * std::min(options_.slice_bytes, entry_bytes);
  return std::max({enough_bytes_, of_depth, kEntriesAtOnce * entry_bytes});
}

bool Plan::has_room(uint64_t bytes, Aftermath& after) noexcept {
  has_enough_ = used_bytes_ + bytes > enough(bytes);
  if (has_enough_) {
    return false;
  }
  const uint64_t most = std::min(options_.budget_bytes, trusted_bytes_);
  while (used_bytes_ != 0 && used_bytes_ + bytes > most) {
    if (!evict_one(after)) {
      return false;
    }
  }
  while (!spare_.empty() && used_bytes_ + spare_bytes_ + bytes > options_.budget_bytes &&
         spare_.back().bytes() != bytes) {
    spare_bytes_ -= spare_.back().bytes();
    after.memory.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  return true;
}

/// Drops the first entry if the program seems to have passed it by. What is read for nothing stays
/// within what was of use.
bool Plan::evict_one(Aftermath& after) noexcept {
  Entry* const entry = begun_.first();
  if (entry == nullptr || entry->pins != 0 ||
      reads_ - entry->begun_at < kPatience + 4 * begun_count_ ||
      stats_.unread_bytes > options_.budget_bytes + stats_.hit_bytes) {
    return false;
  }
  drop_unread(*entry, false, after);
  return true;
}

/// Has the kernel read an entry into the page cache. False if it would not; the entry is then to be
/// read in slices.
bool Plan::advise(Entry& entry) noexcept {
  const bool is_taken = !is_direct(entry.fd) &&
                        ::posix_fadvise(entry.fd, static_cast<off_t>(entry.offset),
                                        static_cast<off_t>(entry.bytes), POSIX_FADV_WILLNEED) == 0;
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    entry.wants_advice = false;
    if (!is_taken) {
      --unmarked_;
      --under_way_;
      return false;
    }
    stats_.ahead_bytes += entry.bytes;
    leave_to_cache(entry, entry.bytes, after);
  }
  finish(after);
  return true;
}

/// Leaves a small entry to the page cache, if that has it. False if it is to be read.
bool Plan::find_cached(Entry& entry) noexcept {
  if (options_.reads_cached || entry.bytes > kMostAdvisedBytes ||
      !engine::is_known_resident(entry.fd, entry.offset, entry.bytes).value_or(false) ||
      is_direct(entry.fd)) {
    return false;
  }
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    if (entry.memory.data() != nullptr) {
      keep_memory(std::move(entry.memory), after);
    }
    stats_.cached_bytes += entry.bytes;
    leave_to_cache(entry, 0, after);
  }
  finish(after);
  return true;
}

/// Its reads find it there; so many bytes of it were read ahead.
void Plan::leave_to_cache(Entry& entry, uint64_t ahead, Aftermath& after) noexcept {
  --entry.file->under_way;
  if (!entry.is_dropped) {
    entry.is_advised = true;
    entry.ahead = ahead;
    enter_begun(entry);
  }
  unpin(entry, after);
  tell_idle(after);
}

/// What the system has to tell and to give before an entry begins.
void Plan::prepare(Entry& entry) noexcept {
  if ((entry.wants_advice && advise(entry)) || find_cached(entry)) {
    return;
  }
  FileState state;
  int error = find_file(entry.fd, state);
  std::vector<Slice> slices;
  if (error == 0 && entry.memory.data() == nullptr && !options_.only_cache) {
    entry.memory = PageMemory(entry.room, options_.huge_pages);
    error = entry.memory.data() == nullptr ? -ENOMEM : 0;
  }
  try {
    slices = std::vector<Slice>((entry.bytes + options_.slice_bytes - 1) / options_.slice_bytes);
  } catch (const std::bad_alloc&) {
    error = -ENOMEM;
  }
  const bool is_recent = !options_.only_cache && is_just_changed(state.stamp);
  const bool asks = error == 0 && entry.bytes >= kLeastHandedOver && !entry.file->was_asked;
  const bool is_on_fuse = asks && is_fuse(entry.fd);
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    File& file = *entry.file;
    --file.under_way;
    if (asks) {
      file.was_asked = true;
      file.is_on_fuse = is_on_fuse;
    }
    if (entry.is_dropped) {
      // It was read or forgotten meanwhile.
    } else if (error != 0 || state.id != file.id) {
      ++stats_.failed_slices;
      drop(entry, after);
    } else if (is_recent && !(file.is_own_stamp && file.own_stamp == state.stamp)) {
      not_before_ns_ = now_ns() + kTimeGrainNs;
      enter_planned(entry, true);
    } else {
      begin(entry, std::move(slices), state.stamp);
    }
    unpin(entry, after);
    tell_idle(after);
  }
  finish(after);
}

void Plan::begin(Entry& entry, std::vector<Slice> slices, const FileStamp& stamp) noexcept {
  entry.slices = std::move(slices);
  uint64_t begin = 0;
  for (Slice& slice : entry.slices) {
    slice.entry = &entry;
    slice.begin = begin;
    slice.bytes = std::min(options_.slice_bytes, entry.bytes - begin);
    begin += slice.bytes;
  }
  entry.stamp = stamp;
  enter_begun(entry);
  current_ = &entry;
}

void Plan::enter_begun(Entry& entry) noexcept {
  entry.begun_at = reads_;
  begun_.push_back(entry);
  ++begun_count_;
}

}  // namespace ioweave::stream
