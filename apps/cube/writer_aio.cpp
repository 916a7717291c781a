// POSIX AIO of glibc, as the Cube study used it. glibc carries out the requests of one file one
// after the other, on one thread of its own.
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <mutex>

#include <aio.h>

#include "error.hpp"
#include "output_file.hpp"
#include "placement.hpp"
#include "result_writer.hpp"

namespace cube {
namespace {

class AioWriter : public ResultWriter {
 public:
  explicit AioWriter(const WriterOptions& options);
  ~AioWriter() override;

  Item begin() override;
  void hand_over(const Item& item, size_t bytes, uint64_t offset) override;
  void drop(const Item& item) override;
  void finish() override;
  void sync() override { file_.sync(); }
  [[nodiscard]] std::vector<std::string> notes() const override { return notes_; }

 private:
  enum class State { kFree, kFilled, kWriting };
  struct Slot {
    State state = State::kFree;
    std::byte* buffer = nullptr;
    aiocb request{};
  };
  using Lock = std::unique_lock<std::mutex>;

  void start_pinned_thread();
  void fail_if_broken() const;
  void release(Slot& slot);
  void collect();
  void end(Slot& slot);
  void wait_for_one(Lock& lock);
  void wait_for_all(Lock& lock);
  [[nodiscard]] bool has(State state) const;

  OutputFile file_;
  Buffers buffers_;
  size_t item_bytes_;
  std::vector<std::string> notes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  // While a thread sleeps in aio_suspend() the requests it was told of must stay what they are: it
  // alone collects what has ended.
  bool is_watched_ = false;
  std::string error_;
  uint64_t error_offset_ = 0;  // the first one
};

AioWriter::AioWriter(const WriterOptions& options)
    : file_(options.path, options.bytes, options.write_path),
      buffers_(options.buffers),
      item_bytes_(options.buffers.bytes),
      slots_(options.buffers.count) {
  if (options.is_pinned) start_pinned_thread();
}

/// glibc's thread comes with the first request, inherits the processors of the thread that makes
/// it, and ends when it has been idle for a while, which is made long here.
void AioWriter::start_pinned_thread() {
  const Placement placement = choose_placement();
  if (placement.io.empty()) {
    notes_.emplace_back("--pin: there is one processor only; nothing is pinned");
    return;
  }
  aioinit limits{};
  limits.aio_threads = 20;  // glibc's default
  limits.aio_num = 64;      // likewise
  limits.aio_idle_time = 3600;
  aio_init(&limits);
  const OnProcessors there(placement.io);
  std::byte nothing{};
  aiocb request{};
  request.aio_fildes = file_.fd_for({}, 0);
  request.aio_buf = &nothing;
  request.aio_sigevent.sigev_notify = SIGEV_NONE;
  if (aio_write(&request) == -1) file_.fail(errno, 0);
  const aiocb* const list[] = {&request};
  while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, nullptr);
  aio_return(&request);
}

AioWriter::~AioWriter() {
  Lock lock(mutex_);
  wait_for_all(lock);
}

bool AioWriter::has(State state) const {
  for (const Slot& slot : slots_) {
    if (slot.state == state) return true;
  }
  return false;
}

void AioWriter::fail_if_broken() const {
  if (!error_.empty()) throw CubeError(error_);
}

Item AioWriter::begin() {
  Lock lock(mutex_);
  for (;;) {
    fail_if_broken();
    if (!is_watched_) collect();
    for (size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (slot.state != State::kFree) continue;
      slot.buffer = buffers_.take();  // there is one: not more slots than buffers are in use
      slot.state = State::kFilled;
      return {{slot.buffer, item_bytes_}, i};
    }
    wait_for_one(lock);
  }
}

void AioWriter::hand_over(const Item& item, size_t bytes, uint64_t offset) {
  const Lock lock(mutex_);
  Slot& slot = slots_[item.slot];
  slot.request = {};
  slot.request.aio_fildes = file_.fd_for({slot.buffer, bytes}, offset);
  slot.request.aio_buf = slot.buffer;
  slot.request.aio_nbytes = bytes;
  slot.request.aio_offset = static_cast<off_t>(offset);
  slot.request.aio_sigevent.sigev_notify = SIGEV_NONE;
  const int error = !error_.empty() ? ECANCELED : aio_write(&slot.request) == -1 ? errno : 0;
  if (error == 0) {
    slot.state = State::kWriting;
    changed_.notify_all();  // somebody may wait for a request to watch
    return;
  }
  release(slot);
  fail_if_broken();
  file_.fail(error, offset);
}

void AioWriter::drop(const Item& item) {
  const Lock lock(mutex_);
  release(slots_[item.slot]);
}

void AioWriter::release(Slot& slot) {
  buffers_.give_back(slot.buffer);
  slot.state = State::kFree;
  changed_.notify_all();
}

/// Ends all requests that are done.
void AioWriter::collect() {
  for (Slot& slot : slots_) {
    if (slot.state == State::kWriting && aio_error(&slot.request) != EINPROGRESS) end(slot);
  }
}

void AioWriter::end(Slot& slot) {
  const int error = aio_error(&slot.request);
  const ssize_t written = aio_return(&slot.request);
  const auto offset = static_cast<uint64_t>(slot.request.aio_offset);
  try {
    if (error != 0) file_.fail(error, offset);
    // A rest is rare, and not worth another request.
    const auto done = static_cast<size_t>(written);
    file_.write(std::span(slot.buffer, slot.request.aio_nbytes).subspan(done), offset + done);
  } catch (const CubeError& failure) {
    // Requests of one file end in their order, but are found in that of the slots.
    if (error_.empty() || offset < error_offset_) {
      error_ = failure.what();
      error_offset_ = offset;
    }
  }
  release(slot);
}

/// Waits until something may have changed for whoever wants a buffer.
void AioWriter::wait_for_one(Lock& lock) {
  std::vector<const aiocb*> requests;
  for (const Slot& slot : slots_) {
    if (slot.state == State::kWriting) requests.push_back(&slot.request);
  }
  if (is_watched_ || requests.empty()) {
    changed_.wait(lock);
    return;
  }
  is_watched_ = true;
  lock.unlock();
  // Returns early for a signal; whoever called looks again.
  aio_suspend(requests.data(), static_cast<int>(requests.size()), nullptr);
  lock.lock();
  is_watched_ = false;
  changed_.notify_all();
}

void AioWriter::wait_for_all(Lock& lock) {
  while (has(State::kWriting)) {
    if (!is_watched_) collect();
    if (has(State::kWriting)) wait_for_one(lock);
  }
}

void AioWriter::finish() {
  Lock lock(mutex_);
  wait_for_all(lock);
  fail_if_broken();
}

}  // namespace

std::unique_ptr<ResultWriter> make_aio_writer(const WriterOptions& options) {
  return std::make_unique<AioWriter>(options);
}

}  // namespace cube
