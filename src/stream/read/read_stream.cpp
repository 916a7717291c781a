#include "stream/read/read_stream.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/clock.hpp"
#include "stream/write/transfer_flags.hpp"

namespace ioweave::stream {
namespace {

// What a lease with an error tells explain(): its target, that there is none, or nothing.
constexpr uint64_t kNoTarget = 1;
constexpr uint64_t kFirstTarget = 2;

void* as_pointer(uint64_t number) noexcept {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(number));
}

uint64_t as_number(const void* pointer) noexcept {
  return reinterpret_cast<uintptr_t>(pointer);
}

}  // namespace

/// A buffer's place in the list of reads to be submitted.
struct ReadStream::Submission {
  Submission* previous = nullptr;
  Submission* next = nullptr;
  Buffer* buffer = nullptr;
};

/// A buffer. It is in one list of buffers at a time, in none while it is leased.
struct ReadStream::Buffer {
  Buffer* previous = nullptr;
  Buffer* next = nullptr;
  ReadStream* stream = nullptr;
  std::byte* memory = nullptr;
  Submission submission;

  Piece piece;
  bool has_ended = false;
  int error = 0;
  uint64_t done = 0;  ///< bytes of the piece that were read
  bool is_direct = false;
  uint64_t direct_bytes = 0;
  uint64_t begun_ns = 0;
  iow_request request{};
};

/// A wait that whoever ends it puts into an Aftermath first.
class ReadStream::ListedWait : public service::Wait {
 public:
  ListedWait* previous = nullptr;
  ListedWait* next = nullptr;
};

/// Somebody's place in the line for what comes next: a caller that waits, or a callback.
class ReadStream::Ask final : public Callback {
 public:
  void run() noexcept override { done(lease, result, user); }

  ListedWait* wait = nullptr;
  iow_read_done done = nullptr;
  void* user = nullptr;
  uint64_t begun_ns = 0;
  bool was_told = false;
  int result = 0;
  iow_read_lease lease{};
};

/// What is to be done once the lock is free.
struct ReadStream::Aftermath {
  LinkedList<Submission> reads;
  LinkedList<ListedWait> ended;
  LinkedList<Callback> told;
  bool is_plan_due = false;
};

// ---- Life

ReadStream::Owner ReadStream::open(service::Service& service, std::unique_ptr<ItemSource> source,
                                   std::vector<std::unique_ptr<SourceTarget>> targets,
                                   const ReadStreamOptions& options) {
  Owner stream(new ReadStream(service, std::move(source), std::move(targets), options));
  if (stream->buffers_ == nullptr) {
    return nullptr;
  }
  stream->plan();
  return stream;
}

ReadStream::ReadStream(service::Service& service, std::unique_ptr<ItemSource> source,
                       std::vector<std::unique_ptr<SourceTarget>> targets,
                       const ReadStreamOptions& options)
    : service_(service),
      options_(options),
      source_(std::move(source)),
      targets_(std::move(targets)) {
  if (pool_.map(options.buffer_bytes, options.buffers, options.huge_pages) != 0) {
    return;
  }
  fresh_.reserve(options.buffers);
  planned_.resize(options.buffers);
  buffers_ = std::make_unique<Buffer[]>(options.buffers);
  for (uint32_t i = 0; i < options.buffers; ++i) {
    buffers_[i].stream = this;
    buffers_[i].memory = pool_.at(i);
    buffers_[i].submission.buffer = &buffers_[i];
    free_.push_back(buffers_[i]);
  }
  const ItemTotals& totals = source_->totals();
  stats_.buffers = options.buffers;
  stats_.buffer_bytes = options.buffer_bytes;
  stats_.items = totals.items;
  stats_.lost_items = totals.lost;
  stats_.bytes = totals.bytes;
  stats_.largest_item = totals.largest;
  stats_.huge_pages = pool_.has_huge_pages() ? 1 : 0;
}

ReadStream::~ReadStream() = default;

void ReadStream::drop_reference() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete this;
  }
}

ReadStream& ReadStream::stream_of(Buffer& buffer) noexcept {
  return *buffer.stream;
}

iow_read_stream_stats ReadStream::statistics() const noexcept {
  const std::lock_guard guard(lock_);
  return stats_;
}

// ---- What is to be read

/// Sees to it that the next pieces are planned, one for each buffer, unless somebody does already.
void ReadStream::plan() noexcept {
  {
    const std::lock_guard guard(lock_);
    if (is_planning_) {
      return;
    }
    is_planning_ = true;
  }
  for (bool is_end = false;;) {
    Aftermath after;
    size_t room = 0;
    {
      const std::lock_guard guard(lock_);
      for (const Piece& piece : fresh_) {
        planned_[(planned_first_ + planned_count_++) % planned_.size()] = piece;
      }
      fresh_.clear();
      is_planned_ = is_planned_ || is_end;
      start_reads(after);
      hand_out(after);
      room = is_planned_ || closed_ ? 0 : planned_.size() - planned_count_;
      is_planning_ = room != 0;
    }
    finish(after);
    if (room == 0) {
      return;  // somebody else may plan now
    }
    is_end = !plan_pieces(room);
  }
}

/// False: there are no more, and were not as many.
bool ReadStream::plan_pieces(size_t room) noexcept {
  while (fresh_.size() < room) {
    if (item_left_ == 0 && !plan_item()) {
      return false;
    }
    const uint64_t bytes =
        item_error_ != 0 ? item_left_ : std::min(item_left_, options_.buffer_bytes);
    fresh_.push_back({item_, item_.bytes - item_left_, bytes, item_error_});
    item_left_ -= bytes;
  }
  return true;
}

/// The next item, if there is one. A source that cannot go on is the error of a last one.
bool ReadStream::plan_item() noexcept {
  if (has_source_failed_) {
    return false;
  }
  int status = -ENOMEM;
  std::string why;
  try {
    status = source_->next(item_, why);
  } catch (const std::bad_alloc&) {
    why.clear();
  }
  if (status == 0) {
    return false;
  }
  item_error_ = status < 0 ? status : error_of(item_);
  if (status < 0) {
    item_ = {item_.number + 1, ManifestItem::kLost, 0, 0};
    has_source_failed_ = true;
    const std::lock_guard guard(lock_);
    source_why_ = std::move(why);
  }
  item_left_ = item_.bytes;
  return true;
}

/// 0, or why nothing of the item can be read.
int ReadStream::error_of(const ManifestItem& item) const noexcept {
  if (item.target == ManifestItem::kLost) {
    return -ENODATA;
  }
  const SourceTarget& target = *targets_[item.target];
  if (item.bytes == 0 || target.error != 0) {
    return item.bytes != 0 ? target.error : 0;
  }
  const uint64_t end = static_cast<uint64_t>(item.offset) + item.bytes;
  return end > target.file.bytes() ? -ENODATA : 0;
}

// ---- Reads

/// The pieces that are planned go into buffers that are free.
void ReadStream::start_reads(Aftermath& after) noexcept {
  while (planned_count_ != 0 && !free_.empty() && !closed_) {
    Buffer& buffer = *free_.pop_front();
    buffer.piece = planned_[planned_first_];
    planned_first_ = (planned_first_ + 1) % planned_.size();
    --planned_count_;
    buffer.error = buffer.piece.error;
    buffer.done = 0;
    buffer.direct_bytes = 0;
    buffer.has_ended = buffer.error != 0 || buffer.piece.bytes == 0;
    order_.push_back(buffer);
    if (!buffer.has_ended) {
      ++reading_;
      ++stats_.reads;
      stats_.most_reading = std::max(stats_.most_reading, reading_);
      buffer.begun_ns = now_ns();
      after.reads.push_back(buffer.submission);
    }
  }
  after.is_plan_due = planned_count_ == 0 && !is_planned_ && !is_planning_ && !closed_;
}

void ReadStream::submit_read(Buffer& buffer) noexcept {
  const Piece& piece = buffer.piece;
  SourceFile& file = targets_[piece.item.target]->file;
  const uint64_t at = static_cast<uint64_t>(piece.item.offset) + piece.begin + buffer.done;
  const uint64_t bytes = piece.bytes - buffer.done;
  // What is cut off behind whole pages only the page cache can read.
  buffer.is_direct = file.direct_fd() >= 0 && buffer.done == 0 && at % kPageBytes == 0;
  buffer.request = {};
  buffer.request.op = IOW_OP_READ;
  buffer.request.fd = buffer.is_direct ? file.direct_fd() : file.cached_fd();
  buffer.request.flags = transfer_flags(file.is_on_fuse(), bytes);
  buffer.request.flow = options_.flow;
  buffer.request.buffer = buffer.memory + buffer.done;
  buffer.request.bytes = buffer.is_direct ? round_up(bytes, kPageBytes) : bytes;
  buffer.request.offset = static_cast<int64_t>(at);
  buffer.request.user = &buffer;
  buffer.request.callback = [](iow_request*, void* user) {
    Buffer& ended = *static_cast<Buffer*>(user);
    ended.stream->end_request(ended);
  };
  iow_request* const one = &buffer.request;
  const int taken = service_.submit({&one, 1});
  if (taken != 1) {
    buffer.request.result = taken < 0 ? taken : -EIO;
    end_request(buffer);
  }
}

/// Some of a piece was read: what is left goes on.
void ReadStream::end_request(Buffer& buffer) noexcept {
  const int64_t result = buffer.request.result;
  const uint64_t left = buffer.piece.bytes - buffer.done;
  if (result == -EINVAL && buffer.is_direct) {
    // The device wants more than pages, or the file system only seemed to allow it.
    targets_[buffer.piece.item.target]->file.refuse_direct();
    return submit_read(buffer);
  }
  if (result <= 0) {
    return end_read(buffer, result == 0 ? -ENODATA : static_cast<int>(result));
  }
  const uint64_t read = std::min(static_cast<uint64_t>(result), left);
  buffer.done += read;
  buffer.direct_bytes += buffer.is_direct ? read : 0;
  if (read == left) {
    return end_read(buffer, 0);
  }
  submit_read(buffer);  // the file ends there, or an error stopped it: the rest will tell
}

void ReadStream::end_read(Buffer& buffer, int error) noexcept {
  Aftermath after;
  references_.fetch_add(1, std::memory_order_relaxed);  // once no read is under way it may close
  {
    const std::lock_guard guard(lock_);
    buffer.has_ended = true;
    buffer.error = error;
    stats_.read_ns += now_ns() - buffer.begun_ns;
    stats_.read_bytes += error == 0 ? buffer.piece.bytes : 0;
    stats_.direct_bytes += error == 0 ? buffer.direct_bytes : 0;
    hand_out(after);
    --reading_;
    ++ending_;
  }
  finish(after);
  // Only now: close() returns behind the last callback.
  Aftermath last;
  {
    const std::lock_guard guard(lock_);
    --ending_;
    if (is_idle() && closing_ != nullptr) {
      last.ended.push_back(*std::exchange(closing_, nullptr));
    }
  }
  finish(last);
  drop_reference();
}

// ---- Whoever wants what comes next

/// What has ended goes to those who wait, in its order.
void ReadStream::hand_out(Aftermath& after) noexcept {
  while (!asks_.empty()) {
    Buffer* const buffer = order_.first();
    const bool is_end = buffer == nullptr && is_planned_ && planned_count_ == 0;
    if (!is_end && (buffer == nullptr || !buffer->has_ended)) {
      return;
    }
    Ask& ask = static_cast<Ask&>(*asks_.pop_front());
    if (is_end) {
      tell(ask, 0, after);
      continue;
    }
    order_.remove(*buffer);
    const Piece& piece = buffer->piece;
    ask.lease.bytes = piece.bytes;
    ask.lease.item = piece.item.number;
    ask.lease.offset = piece.begin;
    ask.lease.item_bytes = piece.item.bytes;
    if (buffer->error == 0) {
      ask.lease.data = buffer->memory;
      ask.lease.internal[0] = buffer;
      references_.fetch_add(1, std::memory_order_relaxed);
    } else {
      const bool has_target = piece.item.target != ManifestItem::kLost;
      ask.lease.internal[1] = as_pointer(has_target ? kFirstTarget + piece.item.target : kNoTarget);
      ask.lease.internal[2] = as_pointer(static_cast<uint64_t>(piece.item.offset) + piece.begin);
    }
    tell(ask, buffer->error == 0 ? 1 : buffer->error, after);
    if (buffer->error != 0) {
      free_buffer(*buffer, after);
    }
  }
}

void ReadStream::tell(Ask& ask, int result, Aftermath& after) noexcept {
  ask.result = result;
  ask.was_told = true;
  if (ask.wait != nullptr) {
    after.ended.push_back(*ask.wait);
  } else if (ask.done != nullptr) {
    if (ask.begun_ns != 0) {
      ++stats_.waits;
      stats_.wait_ns += now_ns() - ask.begun_ns;
    }
    after.told.push_back(ask);
  }
}

/// Its memory is warm, so it is the next one to be read into.
void ReadStream::free_buffer(Buffer& buffer, Aftermath& after) noexcept {
  free_.push_front(buffer);
  start_reads(after);
}

/// A caller that waits for what comes next.
class ReadStream::NextWait final : public ListedWait {
 public:
  NextWait(ReadStream& stream, Ask& ask) noexcept : stream_(stream), ask_(ask) {}

  bool begin() noexcept override { return stream_.ask_now(ask_, this); }  // it may be gone then
  bool withdraw() noexcept override {
    const std::lock_guard guard(stream_.lock_);
    if (ask_.was_told) {
      return false;
    }
    stream_.asks_.remove(ask_);
    return true;
  }

 private:
  ReadStream& stream_;
  Ask& ask_;
};

/// Returns true if the answer is there. Otherwise `wait` is ended when it is; null: nobody waits.
bool ReadStream::ask_now(Ask& ask, ListedWait* wait) noexcept {
  Aftermath after;
  bool is_told = false;
  references_.fetch_add(1, std::memory_order_relaxed);  // who is told at once may close it
  {
    const std::lock_guard guard(lock_);
    ask.wait = nullptr;
    asks_.push_back(ask);
    hand_out(after);
    is_told = ask.was_told;
    if (!is_told) {
      if (wait == nullptr) {
        asks_.remove(ask);
      } else {
        ask.wait = wait;
      }
    }
  }
  finish(after);
  drop_reference();
  return is_told;
}

int ReadStream::next(iow_read_lease& lease, int64_t timeout_ns) noexcept {
  plan();
  Ask ask;
  if (!ask_now(ask, nullptr)) {
    if (timeout_ns == 0) {
      return -ETIME;
    }
    const uint64_t begin = now_ns();
    NextWait wait(*this, ask);
    const int error = service_.wait_for(wait, timeout_ns);
    const std::lock_guard guard(lock_);
    ++stats_.waits;
    stats_.wait_ns += now_ns() - begin;
    if (error != 0) {
      return error;
    }
  }
  lease = ask.lease;
  return ask.result;
}

int ReadStream::next_async(iow_read_done done, void* user) {
  auto ask = std::make_unique<Ask>();
  ask->done = done;
  ask->user = user;
  plan();
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    if (closed_) {
      return -ECANCELED;
    }
    Ask& asked = *ask.release();
    asks_.push_back(asked);
    hand_out(after);
    if (!asked.was_told) {
      asked.begun_ns = now_ns();
    }
  }
  finish(after);
  return 0;
}

void ReadStream::end_lease(Buffer& buffer) noexcept {
  ReadStream& stream = *buffer.stream;
  if (stream.is_inherited()) {
    return;
  }
  Aftermath after;
  {
    const std::lock_guard guard(stream.lock_);
    stream.free_buffer(buffer, after);
    stream.hand_out(after);
  }
  stream.finish(after);
  stream.drop_reference();
}

/// Without the lock. A plan is due where nobody may call next() before those who wait are served.
void ReadStream::finish(Aftermath& after) noexcept {
  while (const Submission* const read = after.reads.pop_front()) {
    submit_read(*read->buffer);
  }
  while (ListedWait* const wait = after.ended.pop_front()) {
    wait->end();
  }
  call_back(after.told);
  if (after.is_plan_due) {
    plan();
  }
}

// ---- End

/// Waits until no read is under way.
class ReadStream::CloseWait final : public ListedWait {
 public:
  explicit CloseWait(ReadStream& stream) noexcept : stream_(stream) {}

  bool begin() noexcept override {
    const std::lock_guard guard(stream_.lock_);
    if (stream_.is_idle()) {
      return true;
    }
    stream_.closing_ = this;
    return false;
  }
  bool withdraw() noexcept override { return false; }

 private:
  ReadStream& stream_;
};

void ReadStream::close() noexcept {
  {
    const std::lock_guard guard(lock_);
    closed_ = true;
  }
  CloseWait wait(*this);
  static_cast<void>(service_.wait_for(wait, -1));
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    while (auto* const ask = static_cast<Ask*>(asks_.pop_front())) {
      tell(*ask, -ECANCELED, after);  // of callbacks: who waits would wait for ever
    }
  }
  finish(after);
}

std::string ReadStream::explain(const iow_read_lease& lease, int error) const {
  const uint64_t told = as_number(lease.internal[1]);
  const uint64_t target = told - kFirstTarget;
  const uint64_t at = as_number(lease.internal[2]);
  const std::string item = "item " + std::to_string(lease.item);
  if (told >= kFirstTarget && target < targets_.size()) {
    const std::string& path = source_->targets()[target];
    if (!targets_[target]->why.empty()) {
      return "cannot read " + item + ": " + targets_[target]->why;
    }
    if (error == -ENODATA) {
      return "'" + path + "' ends before " + item + " does: it wants " +
             std::to_string(lease.bytes) + " bytes at offset " + std::to_string(at);
    }
    return "cannot read " + item + " at offset " + std::to_string(at) + " of '" + path +
           "': " + std::strerror(-error);
  }
  if (told != kNoTarget) {
    return std::string("cannot read the next item: ") + std::strerror(-error);
  }
  if (error == -ENODATA) {
    return item + " was lost when it was written: its target failed";
  }
  const std::lock_guard guard(lock_);
  return source_why_;
}

}  // namespace ioweave::stream
