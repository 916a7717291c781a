// Many threads, each with a few random 4 KiB O_DIRECT reads in flight, in three ways:
//
//   bare       a ring of its own per thread, as liburing's documentation advises
//   polled     the service; callbacks run on the submitting thread, inside iow_poll()
//   called     the service; callbacks run on the service's own thread and wake the submitter, as a
//              task runtime uses it
//
// The threads live as long as the program; the contenders run in turn in slices of equal length.

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <liburing.h>

#include "driver.hpp"
#include "ioweave/ioweave.h"
#include "options.hpp"

namespace {

using namespace ioweave::bench;

struct Settings {
  std::string path;
  unsigned threads = 4;
  unsigned in_flight = 2;
  size_t block_bytes = 4096;
  unsigned rounds = 6;
  double seconds = 0.3;
};

/// What all threads share. Thread-safe after construction.
struct Shared {
  explicit Shared(const Settings& chosen)
      : settings(chosen), file(chosen.path, O_RDONLY | O_DIRECT) {
    check(iow_service_open(&service, nullptr, nullptr), "iow_service_open");
  }
  ~Shared() { iow_service_close(service); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  const Settings& settings;
  File file;
  iow_service* service = nullptr;
  std::atomic<bool> stop{false};  // relaxed: only ends loops; the barriers order everything else
};

/// One contender on one thread: keeps the requests in flight until `stop`, then drains.
class Worker {
 public:
  Worker(Shared& shared, unsigned seed)
      : shared_(shared),
        buffer_(shared.settings.block_bytes * shared.settings.in_flight),
        offsets_(shared.file.size(), shared.settings.block_bytes, seed) {}
  virtual ~Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Returns the operations done.
  virtual uint64_t run() = 0;

 protected:
  [[nodiscard]] std::byte* block(size_t index) const {
    return buffer_.data() + index * shared_.settings.block_bytes;
  }
  [[nodiscard]] bool stopping() const { return shared_.stop.load(std::memory_order_relaxed); }

  void check_result(int64_t result) const {
    if (check(result, "read") != static_cast<int64_t>(shared_.settings.block_bytes)) {
      die("short read");
    }
  }

  Shared& shared_;
  Buffer buffer_;
  RandomBlocks offsets_;
};

class BareWorker final : public Worker {
 public:
  using Worker::Worker;
  ~BareWorker() override {
    if (open_) {
      io_uring_queue_exit(&ring_);
    }
  }

  uint64_t run() override {
    if (!open_) {  // On the thread that submits: SINGLE_ISSUER binds the ring to it.
      open_bare_ring(ring_, shared_.settings.in_flight);
      open_ = true;
    }
    uint64_t operations = 0;
    unsigned in_flight = 0;
    for (; in_flight < shared_.settings.in_flight; ++in_flight) {
      prepare(in_flight);
    }
    while (in_flight > 0) {
      check(io_uring_submit_and_wait(&ring_, 1), "io_uring_submit_and_wait");
      unsigned head;
      unsigned seen = 0;
      io_uring_cqe* cqe;
      io_uring_for_each_cqe(&ring_, head, cqe) {
        ++seen;
        check_result(cqe->res);
        if (stopping()) {
          --in_flight;
        } else {
          prepare(io_uring_cqe_get_data64(cqe));
        }
      }
      io_uring_cq_advance(&ring_, seen);
      operations += seen;
    }
    return operations;
  }

 private:
  void prepare(uint64_t index) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) {
      die("the submission queue is full");
    }
    io_uring_prep_read(sqe, shared_.file.fd(), block(index),
                       static_cast<unsigned>(shared_.settings.block_bytes),
                       static_cast<uint64_t>(offsets_.next()));
    io_uring_sqe_set_data64(sqe, index);
  }

  io_uring ring_{};
  bool open_ = false;
};

/// What both ways through the service share.
class ServiceWorker : public Worker {
 public:
  ServiceWorker(Shared& shared, unsigned seed, uint8_t flags, iow_callback callback)
      : Worker(shared, seed), requests_(shared.settings.in_flight) {
    for (size_t i = 0; i < requests_.size(); ++i) {
      requests_[i].op = IOW_OP_READ;
      requests_[i].flags = flags;
      requests_[i].fd = shared.file.fd();
      requests_[i].buffer = block(i);
      requests_[i].bytes = shared.settings.block_bytes;
      requests_[i].callback = callback;
      requests_[i].user = this;
    }
  }

 protected:
  void submit(iow_request* request) {
    request->offset = offsets_.next();
    check(iow_submit(shared_.service, &request, 1), "iow_submit");
  }

  std::vector<iow_request> requests_;
};

class PolledWorker final : public ServiceWorker {
 public:
  PolledWorker(Shared& shared, unsigned seed)
      : ServiceWorker(shared, seed, IOW_MORE | IOW_CALLBACK_ON_POLL,
                      [](iow_request* done, void* user) {
                        static_cast<PolledWorker*>(user)->completed(done);
                      }) {}

  uint64_t run() override {
    operations_ = 0;
    for (iow_request& request : requests_) {
      submit(&request);
      ++in_flight_;
    }
    while (in_flight_ > 0) {
      check(iow_poll(shared_.service, 1, -1), "iow_poll");
    }
    return operations_;
  }

 private:
  void completed(iow_request* request) {
    check_result(request->result);
    ++operations_;
    if (stopping()) {
      --in_flight_;
    } else {
      submit(request);
    }
  }

  uint64_t operations_ = 0;
  unsigned in_flight_ = 0;
};

class CalledWorker final : public ServiceWorker {
 public:
  CalledWorker(Shared& shared, unsigned seed)
      : ServiceWorker(shared, seed, 0, [](iow_request* done, void* user) {
          static_cast<CalledWorker*>(user)->completed(done);
        }) {}

  uint64_t run() override {
    uint64_t operations = 0;
    for (iow_request& request : requests_) {
      submit(&request);
    }
    size_t in_flight = requests_.size();
    while (in_flight > 0) {
      arrived_.acquire();
      iow_request* request = take();
      check_result(request->result);
      ++operations;
      if (stopping()) {
        --in_flight;
      } else {
        submit(request);
      }
    }
    return operations;
  }

 private:
  /// Called on the service's thread.
  void completed(iow_request* request) {
    {
      const std::lock_guard lock(mutex_);
      inbox_.push_back(request);
    }
    arrived_.release();
  }

  iow_request* take() {
    const std::lock_guard lock(mutex_);
    iow_request* request = inbox_.back();
    inbox_.pop_back();
    return request;
  }

  std::mutex mutex_;
  std::vector<iow_request*> inbox_;  // guarded by mutex_; as many as arrived_ counts, or one more
  std::counting_semaphore<> arrived_{0};
};

constexpr std::array<std::string_view, 3> kContenders{"bare", "polled", "called"};

/// One result line: operations per second and processor time per operation of one contender.
void print_slice(std::string_view contender, uint64_t operations, const Usage& used) {
  const auto count = static_cast<double>(operations);
  std::printf("{\"contender\": \"%s\", \"per_second\": %.9g, \"cpu_ns\": %.9g}\n", contender.data(),
              count * 1e9 / static_cast<double>(used.wall_ns),
              static_cast<double>(used.cpu_ns) / count);
}

/// Runs the contenders on its threads. One thread.
class Race {
 public:
  explicit Race(const Settings& settings) : shared_(settings), gate_(settings.threads + 1) {
    for (unsigned i = 0; i < settings.threads; ++i) {
      threads_.emplace_back([this, i] { serve(i); });
    }
  }
  ~Race() {
    contender_ = kEnd;
    gate_.arrive_and_wait();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  Race(const Race&) = delete;
  Race& operator=(const Race&) = delete;

  void run(size_t contender, double seconds, bool print) {
    contender_ = contender;
    operations_ = 0;
    shared_.stop = false;
    gate_.arrive_and_wait();
    const Usage before = Usage::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    shared_.stop = true;
    gate_.arrive_and_wait();
    if (print) {
      print_slice(kContenders[contender], operations_, Usage::now() - before);
    }
  }

 private:
  static constexpr size_t kEnd = kContenders.size();

  void serve(unsigned seed) {
    // Made and destroyed on the thread that uses them: rings belong to it.
    const std::array<std::unique_ptr<Worker>, kContenders.size()> workers{
        std::make_unique<BareWorker>(shared_, seed), std::make_unique<PolledWorker>(shared_, seed),
        std::make_unique<CalledWorker>(shared_, seed)};
    for (;;) {
      gate_.arrive_and_wait();
      const size_t contender = contender_;
      if (contender == kEnd) {
        return;
      }
      operations_ += workers[contender]->run();
      gate_.arrive_and_wait();
    }
  }

  Shared shared_;
  std::barrier<> gate_;
  size_t contender_ = 0;  // written between slices only: the gate orders it
  std::atomic<uint64_t> operations_{0};
  std::vector<std::thread> threads_;
};

int run(int argc, char** argv) {
  Settings settings;
  Options app("Random 4 KiB O_DIRECT reads by many threads: bare rings and the service in turn");
  app.add("--file", settings.path).required();
  app.add("--threads", settings.threads).between(1, 1024);
  app.add("--in-flight", settings.in_flight, "per thread").between(1, 1024);
  app.add("--bytes", settings.block_bytes, "of one read").positive();
  app.add("--rounds", settings.rounds).positive();
  app.add("--seconds", settings.seconds, "per contender and round").positive();
  app.parse(argc, argv);

  Race race(settings);
  for (size_t contender = 0; contender < kContenders.size(); ++contender) {
    race.run(contender, settings.seconds / 3, /*print=*/false);
  }
  for (unsigned round = 0; round < settings.rounds; ++round) {
    for (size_t turn = 0; turn < kContenders.size(); ++turn) {
      // Every other round backwards, so that a drift of the machine favours nobody.
      race.run(round % 2 == 0 ? turn : kContenders.size() - 1 - turn, settings.seconds, true);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}
