// Buffers and their writes. Files, and who waits for them, are in stream_files.cpp, copies in
// stream_copies.cpp.

#include "stream/write/write_stream.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.hpp"
#include "stream/write/stream_parts.hpp"
#include "stream/write/transfer_flags.hpp"

namespace ioweave::stream {

// ---- Life

WriteStream::Owner WriteStream::open(service::Service& service, const WriteStreamOptions& options) {
  Owner stream(new WriteStream(service, options));
  return stream->buffers_ != nullptr ? std::move(stream) : nullptr;
}

WriteStream::WriteStream(service::Service& service, const WriteStreamOptions& options)
    : service_(service), options_(options) {
  if (pool_.map(options.buffer_bytes, options.buffers, options.huge_pages) != 0) {
    return;
  }
  buffers_ = std::make_unique<Buffer[]>(options.buffers);
  for (uint32_t i = 0; i < options.buffers; ++i) {
    Buffer& buffer = buffers_[i];
    buffer.stream = this;
    buffer.memory = pool_.at(i);
    if (i == 0 && options.overflow == IOW_OVERFLOW_SYNCHRONOUS) {
      buffer.is_spare = true;
      spare_ = &buffer;
    } else {
      free_.push_back(buffer);
      ++free_count_;
    }
  }
  stats_.buffers = options.buffers;
  stats_.huge_pages = pool_.has_huge_pages() ? 1 : 0;
}

WriteStream::~WriteStream() = default;

void WriteStream::drop_reference() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete this;
  }
}

iow_lease WriteStream::lease_of(Buffer& buffer) noexcept {
  return {buffer.memory, buffer.stream->options_.buffer_bytes, {&buffer, nullptr}};
}

WriteStream& WriteStream::stream_of(Buffer& buffer) noexcept {
  return *buffer.stream;
}

iow_write_stream_stats WriteStream::statistics() const noexcept {
  iow_write_stream_stats stats{};
  {
    const std::lock_guard guard(lock_);
    stats = stats_;
  }
  stats.return_ns = return_ns_.load(std::memory_order_relaxed);
  stats.durable_ns = durable_ns_.load(std::memory_order_relaxed);
  return stats;
}

// ---- Buffers

/// A caller that waits for a buffer.
class WriteStream::LeaseWait final : public ListedWait {
 public:
  explicit LeaseWait(WriteStream& stream) noexcept : stream_(stream) { ask_.wait = this; }

  bool begin() noexcept override {
    Aftermath after;
    WriteStream& stream = stream_;
    {
      const std::lock_guard guard(stream.lock_);
      ask_.buffer = stream.take_free(true);
      if (ask_.buffer != nullptr) {
        return true;
      }
      ++stream.stats_.lease_waits;
      stream.asks_.push_back(ask_);
      stream.send_oldest_gathered(after);
    }
    stream.finish(after);
    return false;
  }
  bool withdraw() noexcept override {
    const std::lock_guard guard(stream_.lock_);
    if (ask_.buffer != nullptr) {
      return false;
    }
    stream_.asks_.remove(ask_);
    return true;
  }
  [[nodiscard]] Buffer* buffer() const noexcept { return ask_.buffer; }

 private:
  WriteStream& stream_;
  LeaseAsk ask_;
};

WriteStream::Buffer* WriteStream::take_free(bool also_spare) noexcept {
  Buffer* buffer = free_.pop_front();
  if (buffer != nullptr) {
    --free_count_;
  } else if (also_spare) {
    buffer = std::exchange(spare_, nullptr);
  }
  if (buffer != nullptr) {
    ++in_use_;
    stats_.most_in_use = std::max(stats_.most_in_use, in_use_);
  }
  return buffer;
}

/// To who waits longest, or to those that are free: the last one first, as its memory is warm.
void WriteStream::give_back(Buffer& buffer, Aftermath& after) noexcept {
  if (auto* const ask = static_cast<LeaseAsk*>(asks_.pop_front()); ask != nullptr) {
    ask->buffer = &buffer;
    if (ask->wait != nullptr) {
      after.ended.push_back(*ask->wait);
    } else {
      ++stats_.lease_waits;
      stats_.lease_wait_ns += now_ns() - ask->begun_ns;
      references_.fetch_add(1, std::memory_order_relaxed);
      after.callbacks.push_back(*ask);
    }
    return;
  }
  --in_use_;
  if (buffer.is_spare) {
    spare_ = &buffer;
  } else {
    free_.push_front(buffer);
    ++free_count_;
  }
}

int WriteStream::wait_for_buffer(Buffer*& buffer, int64_t timeout_ns) noexcept {
  const uint64_t begin = now_ns();
  LeaseWait wait(*this);
  const int error = service_.wait_for(wait, timeout_ns);
  buffer = wait.buffer();
  const std::lock_guard guard(lock_);
  stats_.lease_wait_ns += now_ns() - begin;
  return error;
}

int WriteStream::lease(Buffer*& buffer, int64_t timeout_ns) noexcept {
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    if (closed_) {
      return -ECANCELED;
    }
    buffer = take_free(true);
    if (buffer == nullptr || buffer->is_spare) {
      send_oldest_gathered(after);  // or there might never be another one
    }
  }
  finish(after);
  int error = 0;
  if (buffer == nullptr) {
    if (options_.overflow == IOW_OVERFLOW_FAIL || timeout_ns == 0) {
      return options_.overflow == IOW_OVERFLOW_FAIL ? -EAGAIN : -ETIME;
    }
    error = wait_for_buffer(buffer, timeout_ns);
  }
  if (error == 0) {
    references_.fetch_add(1, std::memory_order_relaxed);
  }
  return error;
}

int WriteStream::lease_async(iow_leased leased, void* user) {
  auto ask = std::make_unique<LeaseAsk>();
  ask->leased = leased;
  ask->user = user;
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    if (closed_) {
      return -ECANCELED;
    }
    ask->buffer = take_free(true);
    if (ask->buffer != nullptr) {
      references_.fetch_add(1, std::memory_order_relaxed);
      after.callbacks.push_back(*ask.release());
    } else {
      if (options_.overflow != IOW_OVERFLOW_FAIL) {
        ask->begun_ns = now_ns();
        asks_.push_back(*ask.release());
      }
      send_oldest_gathered(after);  // behind the ask: it may free a buffer at once
    }
  }
  const bool refused = ask != nullptr;
  finish(after);
  return refused ? -EAGAIN : 0;
}

void WriteStream::end_lease(Buffer& buffer) noexcept {
  if (is_inherited()) {
    return;
  }
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    give_back(buffer, after);
  }
  finish(after);
  drop_reference();
}

// ---- Writes on their way out

int WriteStream::write(Buffer& buffer, int number, uint64_t bytes, int64_t offset) noexcept {
  const uint64_t begin = now_ns();
  buffer.data = buffer.memory;
  int error = 0;
  FileRef file;
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    file = find(number);
    // Not on a thread that reaps: it would wait for itself. Nor after close(), where no file is
    // left.
    if (!buffer.is_spare || file == nullptr || service::DrivingHere::any()) {
      error = hand_over(buffer, file, bytes, offset, after);
      file = nullptr;
    }
  }
  finish(after);
  if (file != nullptr) {
    BufferWait wait(*this, buffer, bytes, [&](Aftermath& later) {
      return hand_over(buffer, file, bytes, offset, later);
    });
    static_cast<void>(service_.wait_for(wait, -1));
    error = wait.error();
    if (error == 0) {
      const std::lock_guard guard(lock_);
      error = take_failure(*file);
    }
  }
  count_call(now_ns() - begin, false);
  drop_reference();  // of the lease: the last one of a stream that is closed
  return error;
}

/// Whether so many bytes may be written to the file, and where: kAppend becomes an offset.
int WriteStream::check(const FileRef& file, uint64_t bytes, int64_t& offset) noexcept {
  if (closed_ || file == nullptr || file->is_ending) {
    return -EBADF;
  }
  if (file->error != 0) {
    stats_.dropped_bytes += bytes;
    return take_failure(*file);
  }
  const int64_t begin = offset == kAppend ? file->append_at : offset;
  int64_t end = 0;
  if (begin < 0 || __builtin_add_overflow(begin, bytes, &end)) {
    return begin < 0 ? -EINVAL : -EFBIG;
  }
  offset = begin;
  return 0;
}

/// The bytes were checked, and will be written.
void WriteStream::accept(File& file, uint64_t bytes, int64_t offset, bool is_append) noexcept {
  const int64_t end = offset + static_cast<int64_t>(bytes);
  if (is_append) {
    file.append_at = end;
  }
  if (bytes != 0) {
    file.end = std::max(file.end, end);
  }
}

/// A leased buffer goes to its file, or back to the others where that is refused. Where it is under
/// way afterwards, it has a file.
int WriteStream::hand_over(Buffer& buffer, const FileRef& file, uint64_t bytes, int64_t offset,
                           Aftermath& after) noexcept {
  const bool is_append = offset == kAppend;
  const int error = bytes > options_.buffer_bytes ? -EINVAL : check(file, bytes, offset);
  if (error == 0) {
    send_gathered(*file, after);
    accept(*file, bytes, offset, is_append);
  }
  if (error != 0 || bytes == 0) {
    give_back(buffer, after);
    return error;
  }
  buffer.file = file;
  buffer.bytes = bytes;
  buffer.offset = offset;
  put_in_line(buffer, nullptr, after);
  return 0;
}

/// The bytes of the buffer were accepted. Of a file that has failed since they are dropped. Those
/// of a copy that is under way take their place with it, as who waits for the copy waits for them.
void WriteStream::put_in_line(Buffer& buffer, Outstanding* copy, Aftermath& after) noexcept {
  File& file = *buffer.file;
  if (file.error != 0) {
    stats_.dropped_bytes += buffer.bytes;
    buffer.file = nullptr;
    give_back(buffer, after);
    return;
  }
  if (copy != nullptr) {
    buffer.outstanding.sequence = copy->sequence;
    file.outstanding.insert_before(*copy, buffer.outstanding);
    waiting_writes_.push_back(buffer);
  } else {
    line_up(buffer);
  }
  ++stats_.writes;
  start_writes(after);
}

void WriteStream::line_up(Buffer& buffer) noexcept {
  buffer.outstanding.sequence = next_sequence_++;
  buffer.file->outstanding.push_back(buffer.outstanding);
  waiting_writes_.push_back(buffer);
}

void WriteStream::start_writes(Aftermath& after) noexcept {
  while (writes_under_way_ < options_.depth && !waiting_writes_.empty()) {
    Buffer& buffer = *waiting_writes_.pop_front();
    ++writes_under_way_;
    buffer.begun_ns = now_ns();
    after.writes.push_back(buffer);
  }
}

void WriteStream::submit_write(Buffer& buffer) noexcept {
  File& file = *buffer.file;
  const WriteParts division =
      divide_write(buffer.data, buffer.bytes, buffer.offset,
                   file.may_go_direct.load(std::memory_order_relaxed), cache_page_bytes());
  buffer.error.store(0, std::memory_order_relaxed);
  buffer.direct_bytes.store(0, std::memory_order_relaxed);
  buffer.parts_left.store(division.count, std::memory_order_relaxed);
  for (uint32_t i = 0; i < division.count; ++i) {
    const WritePart& from = division.part[i];
    Part& part = buffer.parts[i];
    part.buffer = &buffer;
    part.direct = from.direct;
    part.request = {};
    part.request.op = IOW_OP_WRITE;
    part.request.fd = from.direct ? file.target.direct_fd() : file.target.cached_fd();
    part.request.flags = transfer_flags(file.target.is_on_fuse(), from.bytes);
    part.request.flow = options_.flow;
    part.request.buffer = buffer.data + from.begin;
    part.request.bytes = from.bytes;
    part.request.offset = buffer.offset + static_cast<int64_t>(from.begin);
    part.request.user = &part;
    part.request.callback = [](iow_request*, void* user) {
      Part& ended = *static_cast<Part*>(user);
      ended.buffer->stream->end_part(*ended.buffer, ended);
    };
  }
  for (uint32_t i = 0, count = division.count; i < count; ++i) {
    submit_part(buffer, buffer.parts[i]);  // the buffer may be gone after the last one
  }
}

void WriteStream::submit_part(Buffer& buffer, Part& part) noexcept {
  if (!submit(part.request)) {
    end_part(buffer, part);
  }
}

/// False where the service refuses the request, with the error as its result: nobody is called.
bool WriteStream::submit(iow_request& request) noexcept {
  iow_request* const one = &request;
  const int taken = service_.submit({&one, 1});
  if (taken != 1) {
    request.result = taken < 0 ? taken : -EIO;
  }
  return taken == 1;
}

// ---- Writes on their way back

/// Some of a part has ended: what is left goes on, the last one ends the write.
void WriteStream::end_part(Buffer& buffer, Part& part) noexcept {
  iow_request& request = part.request;
  const int64_t result = request.result;
  File& file = *buffer.file;
  if (request.op == IOW_OP_WRITE) {
    if (result == static_cast<int64_t>(request.bytes)) {
      if (part.direct) {
        buffer.direct_bytes.fetch_add(request.bytes, std::memory_order_relaxed);
      } else if (request.bytes >= kPageBytes) {
        request.op = IOW_OP_WRITE_BACK;  // its result is no matter: a sync will tell
        return submit_part(buffer, part);
      }
    } else if (result > 0) {
      // An error stopped it. The rest will tell which.
      if (part.direct) {
        buffer.direct_bytes.fetch_add(static_cast<uint64_t>(result), std::memory_order_relaxed);
      }
      request.buffer = static_cast<std::byte*>(request.buffer) + result;
      request.bytes -= static_cast<uint64_t>(result);
      request.offset += result;
      return submit_part(buffer, part);
    } else if (result == -EINVAL && part.direct) {
      // The device wants more than pages, or the file system only seemed to allow it.
      file.may_go_direct.store(false, std::memory_order_relaxed);
      part.direct = false;
      request.fd = file.target.cached_fd();
      return submit_part(buffer, part);
    } else {
      int none = 0;
      if (buffer.error.compare_exchange_strong(none, result != 0 ? static_cast<int>(result) : -EIO,
                                               std::memory_order_relaxed)) {
        buffer.error_offset.store(request.offset, std::memory_order_relaxed);
      }
    }
  }
  if (buffer.parts_left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    end_write(buffer);
  }
}

void WriteStream::end_write(Buffer& buffer) noexcept {
  Aftermath after;
  FileRef file;  // outlives the lock
  {
    const std::lock_guard guard(lock_);
    file = buffer.file;
    --writes_under_way_;
    stats_.write_ns += now_ns() - buffer.begun_ns;
    if (const int error = buffer.error.load(std::memory_order_relaxed); error != 0) {
      stats_.dropped_bytes += buffer.bytes;
      fail(*file, error, buffer.error_offset.load(std::memory_order_relaxed),
           buffer.outstanding.sequence, after);
    } else {
      stats_.written_bytes += buffer.bytes;
      stats_.direct_bytes += buffer.direct_bytes.load(std::memory_order_relaxed);
    }
    leave_file(buffer, buffer.error.load(std::memory_order_relaxed), after);
    tell_waiters(*file, after);
    start_writes(after);
  }
  file = nullptr;  // before who ends it is told: its descriptors must be closed when he returns
  finish(after);
}

/// Unless its placer has it written elsewhere.
void WriteStream::leave_file(Buffer& buffer, int error, Aftermath& after) noexcept {
  buffer.file->outstanding.remove(buffer.outstanding);
  if (error != 0 && buffer.placer != nullptr && place_again(buffer)) {
    return;
  }
  buffer.file = nullptr;
  if (WritePlacer* const placer = std::exchange(buffer.placer, nullptr); placer != nullptr) {
    placer->note_end(buffer.tag, error);
  }
  if (ListedWait* const waiter = std::exchange(buffer.waiter, nullptr); waiter != nullptr) {
    after.ended.push_back(*waiter);
  }
  give_back(buffer, after);
}

/// Drops the writes that wait. Of several failures the earliest in the order of the calls counts,
/// unless one was reported.
void WriteStream::fail(File& file, int error, int64_t offset, uint64_t sequence,
                       Aftermath& after) noexcept {
  file.is_in_doubt = file.is_in_doubt || offset == kNoOffset;
  if (file.error == 0 || (!file.is_reported && sequence < file.error_sequence)) {
    file.error = error;
    file.error_offset = offset;
    file.error_sequence = sequence;
  }
  for (Buffer* buffer = waiting_writes_.first(); buffer != nullptr;) {
    Buffer* const next = buffer->next;
    if (buffer->file.get() == &file) {
      waiting_writes_.remove(*buffer);
      stats_.dropped_bytes += buffer->bytes;
      leave_file(*buffer, -ECANCELED, after);
    }
    buffer = next;
  }
  start_writes(after);  // those that go elsewhere
}

/// Without the lock. `this` may be gone once the last wait has ended.
void WriteStream::finish(Aftermath& after) noexcept {
  while (Buffer* const buffer = after.writes.pop_front()) {
    submit_write(*buffer);
  }
  while (File* const file = after.syncs.pop_front()) {
    submit_sync(*file);
  }
  while (ListedWait* const wait = after.ended.pop_front()) {
    wait->end();
  }
  call_back(after.callbacks);
}

}  // namespace ioweave::stream
