#include "stream_contenders.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>

#include <fcntl.h>
#include <liburing.h>
#include <sys/uio.h>
#include <unistd.h>

#include <aio.h>

#ifdef IOWEAVE_BENCH_LIBAIO
#include <libaio.h>
#endif

#include "driver.hpp"

namespace ioweave::bench {
namespace {

/// A buffer, and how far its item is written.
struct Slot {
  size_t index = 0;
  std::byte* data = nullptr;
  int fd = -1;
  size_t done = 0;
  uint64_t offset = 0;
  bool busy = false;
};

/// What those that own their buffers have in common: only how a write begins and ends differs.
class SlotContender : public StreamContender {
 public:
  explicit SlotContender(const StreamSettings& settings)
      : item_bytes_(settings.item_bytes),
        memory_(settings.item_bytes * settings.buffers),
        slots_(settings.buffers) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].index = i;
      slots_[i].data = memory_.data() + i * item_bytes_;
    }
    for (const StreamSettings::Target& target : settings.files) {
      const int flags = O_RDWR | O_CREAT | O_TRUNC | (settings.direct ? O_DIRECT : 0);
      files_.push_back(std::make_unique<File>(target.path, flags));
      const int error = posix_fallocate(files_.back()->fd(), 0, static_cast<off_t>(target.bytes));
      if (error != 0) {
        die("cannot allocate " + target.path, error);
      }
    }
  }

  std::byte* take() override {
    for (;;) {
      for (Slot& slot : slots_) {
        if (!slot.busy) {
          taken_ = &slot;
          return slot.data;
        }
      }
      reap();
    }
  }

  void write(size_t file, uint64_t offset) override {
    taken_->fd = files_[file]->fd();
    taken_->done = 0;
    taken_->offset = offset;
    taken_->busy = true;
    ++in_flight_;
    submit(*taken_);
  }

  void make_durable() override {
    while (in_flight_ > 0) {
      reap();
    }
    for (const auto& file : files_) {
      check_errno(fdatasync(file->fd()), "fdatasync");
    }
  }

  void show_buffers(const std::function<void(std::span<std::byte* const>)>& look) override {
    std::vector<std::byte*> all;
    all.reserve(slots_.size());
    for (const Slot& slot : slots_) {
      all.push_back(slot.data);
    }
    look(all);
  }

 protected:
  /// Begins to write what is left of the slot's item; may already end it.
  virtual void submit(Slot& slot) = 0;
  /// Waits until a write has ended.
  virtual void reap() = 0;

  /// Takes the result of a write; a short one goes on.
  void end(Slot& slot, int64_t result) {
    check(result, "write");
    if (result == 0) {
      die("nothing was written");
    }
    slot.done += static_cast<size_t>(result);
    if (slot.done < item_bytes_) {
      submit(slot);
      return;
    }
    slot.busy = false;
    --in_flight_;
  }

  [[nodiscard]] std::byte* begin_of(const Slot& slot) const { return slot.data + slot.done; }
  [[nodiscard]] size_t left_of(const Slot& slot) const { return item_bytes_ - slot.done; }
  [[nodiscard]] static off_t offset_of(const Slot& slot) {
    return static_cast<off_t>(slot.offset + slot.done);
  }
  [[nodiscard]] std::vector<Slot>& slots() { return slots_; }
  [[nodiscard]] const Buffer& memory() const { return memory_; }

 private:
  const size_t item_bytes_;
  Buffer memory_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<File>> files_;
  Slot* taken_ = nullptr;
  size_t in_flight_ = 0;
};

/// pwrite(2), then the next item.
class Synchronous final : public SlotContender {
 public:
  using SlotContender::SlotContender;

 private:
  void submit(Slot& slot) override {
    end(slot,
        check_errno(pwrite(slot.fd, begin_of(slot), left_of(slot), offset_of(slot)), "pwrite"));
  }
  void reap() override { die("a write is under way"); }
};

/// glibc's POSIX AIO. It has threads of its own, and writes to one file one after another.
class PosixAio final : public SlotContender {
 public:
  explicit PosixAio(const StreamSettings& settings)
      : SlotContender(settings), requests_(settings.buffers) {
    // As aio_init(3) advises: a thread for each request there may be, which does not end early.
    aioinit options{};
    options.aio_threads = static_cast<int>(settings.buffers);
    options.aio_num = static_cast<int>(settings.buffers);
    options.aio_idle_time = 60;
    aio_init(&options);
  }

 private:
  void submit(Slot& slot) override {
    aiocb& request = requests_[slot.index];
    request = {};
    request.aio_fildes = slot.fd;
    request.aio_buf = begin_of(slot);
    request.aio_nbytes = left_of(slot);
    request.aio_offset = offset_of(slot);
    request.aio_sigevent.sigev_notify = SIGEV_NONE;
    check_errno(aio_write(&request), "aio_write");
  }

  void reap() override {
    std::vector<const aiocb*> pending;
    for (const Slot& slot : slots()) {
      if (slot.busy) {
        pending.push_back(&requests_[slot.index]);
      }
    }
    while (aio_suspend(pending.data(), static_cast<int>(pending.size()), nullptr) != 0) {
      if (errno != EINTR) {
        die("aio_suspend", errno);
      }
    }
    for (Slot& slot : slots()) {
      aiocb& request = requests_[slot.index];
      if (slot.busy && aio_error(&request) != EINPROGRESS) {
        const int error = aio_error(&request);
        const ssize_t written = aio_return(&request);
        end(slot, error != 0 ? -error : written);
      }
    }
  }

  std::vector<aiocb> requests_;
};

#ifdef IOWEAVE_BENCH_LIBAIO
/// The kernel's native AIO by libaio.
class LinuxAio final : public SlotContender {
 public:
  explicit LinuxAio(const StreamSettings& settings)
      : SlotContender(settings), requests_(settings.buffers), events_(settings.buffers) {
    check(io_setup(static_cast<int>(settings.buffers), &context_), "io_setup");
  }
  ~LinuxAio() override { io_destroy(context_); }
  LinuxAio(const LinuxAio&) = delete;
  LinuxAio& operator=(const LinuxAio&) = delete;

 private:
  void submit(Slot& slot) override {
    iocb* request = &requests_[slot.index];
    io_prep_pwrite(request, slot.fd, begin_of(slot), left_of(slot), offset_of(slot));
    request->data = &slot;
    check(io_submit(context_, 1, &request), "io_submit");
  }

  void reap() override {
    int64_t count = -EINTR;
    while (count == -EINTR) {
      count = io_getevents(context_, 1, static_cast<long>(events_.size()), events_.data(), nullptr);
    }
    check(count, "io_getevents");
    for (int64_t i = 0; i < count; ++i) {
      const io_event& event = events_[static_cast<size_t>(i)];
      end(*static_cast<Slot*>(event.data), static_cast<int64_t>(event.res));
    }
  }

  io_context_t context_ = nullptr;
  std::vector<iocb> requests_;
  std::vector<io_event> events_;
};
#endif

/// A bare ring with registered buffers, as liburing's documentation advises for large transfers.
class Uring final : public SlotContender {
 public:
  explicit Uring(const StreamSettings& settings) : SlotContender(settings) {
    open_bare_ring(ring_, std::max(2u, settings.buffers));
    std::vector<iovec> buffers;
    for (const Slot& slot : slots()) {
      buffers.push_back({slot.data, settings.item_bytes});
    }
    // Without the right to lock so much memory it goes without.
    registered_ = io_uring_register_buffers(&ring_, buffers.data(),
                                            static_cast<unsigned>(buffers.size())) == 0;
  }
  ~Uring() override { io_uring_queue_exit(&ring_); }
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

 private:
  void submit(Slot& slot) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {
      die("the submission queue is full");
    }
    const auto bytes = static_cast<unsigned>(left_of(slot));
    const auto offset = static_cast<uint64_t>(offset_of(slot));
    if (registered_) {
      io_uring_prep_write_fixed(entry, slot.fd, begin_of(slot), bytes, offset,
                                static_cast<int>(slot.index));
    } else {
      io_uring_prep_write(entry, slot.fd, begin_of(slot), bytes, offset);
    }
    io_uring_sqe_set_data(entry, &slot);
    check(io_uring_submit(&ring_), "io_uring_submit");
  }

  void reap() override {
    io_uring_cqe* completion = nullptr;
    int error = -EINTR;
    while (error == -EINTR) {
      error = io_uring_wait_cqe(&ring_, &completion);
    }
    check(error, "io_uring_wait_cqe");
    auto* slot = static_cast<Slot*>(io_uring_cqe_get_data(completion));
    const int result = completion->res;
    io_uring_cqe_seen(&ring_, completion);
    end(*slot, result);
  }

  io_uring ring_{};
  bool registered_ = false;
};

/// One thread that writes what is put into its queue, which the number of buffers bounds.
class Pool final : public SlotContender {
 public:
  explicit Pool(const StreamSettings& settings)
      : SlotContender(settings), thread_([this](const std::stop_token& stop) { work(stop); }) {}

 private:
  void submit(Slot& slot) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(&slot);
    }
    queued_.notify_one();
  }

  void reap() override {
    Done done;
    {
      std::unique_lock lock(mutex_);
      ended_.wait(lock, [this] { return !done_.empty(); });
      done = done_.front();
      done_.pop_front();
    }
    end(*done.slot, done.result);
  }

  void work(const std::stop_token& stop) {
    for (;;) {
      Slot* slot = nullptr;
      {
        std::unique_lock lock(mutex_);
        if (!queued_.wait(lock, stop, [this] { return !queue_.empty(); })) {
          return;
        }
        slot = queue_.front();
        queue_.pop_front();
      }
      const ssize_t written = pwrite(slot->fd, begin_of(*slot), left_of(*slot), offset_of(*slot));
      const int64_t result = written == -1 ? -errno : written;
      {
        const std::lock_guard lock(mutex_);
        done_.push_back({slot, result});
      }
      ended_.notify_one();
    }
  }

  struct Done {
    Slot* slot = nullptr;
    int64_t result = 0;
  };
  std::mutex mutex_;
  std::condition_variable_any queued_;
  std::condition_variable ended_;
  std::deque<Slot*> queue_;
  std::deque<Done> done_;
  std::jthread thread_;  // last: it uses the others
};

template <typename Contender>
std::unique_ptr<StreamContender> open(const StreamSettings& settings) {
  return std::make_unique<Contender>(settings);
}

struct Known {
  const char* name;
  std::unique_ptr<StreamContender> (*open)(const StreamSettings&);
};

constexpr std::array kKnown = {
    Known{"synchronous", open<Synchronous>}, Known{"aio", open<PosixAio>},
#ifdef IOWEAVE_BENCH_LIBAIO
    Known{"libaio", open<LinuxAio>},
#endif
    Known{"liburing", open<Uring>},          Known{"pool", open<Pool>},
    Known{"stream", open_own_stream},        Known{"spread", open_own_spread},
};

}  // namespace

std::vector<std::string> stream_contenders() {
  std::vector<std::string> names;
  names.reserve(std::size(kKnown));
  for (const Known& known : kKnown) {
    names.emplace_back(known.name);
  }
  return names;
}

std::unique_ptr<StreamContender> open_stream_contender(const std::string& how,
                                                       const StreamSettings& settings) {
  for (const Known& known : kKnown) {
    if (how == known.name) {
      return known.open(settings);
    }
  }
  die("no contender " + how);
}

}  // namespace ioweave::bench
