// Random transfers on one file through the C interface, at a fixed depth, from one thread: the
// contender of fio's io_uring engine. Buffers and file are registered, completions are taken in
// batches, each completion submits its successor from the callback.

#include <chrono>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>

#include "base/clock.hpp"
#include "driver.hpp"
#include "ioweave/ioweave.h"
#include "options.hpp"

namespace {

using namespace ioweave::bench;

struct Settings {
  std::string path;
  std::string operation = "read";
  uint64_t block_bytes = 4096;
  unsigned depth = 1;
  unsigned batch = 1;  ///< completions to wait for at a time
  double seconds = 1;
  double warm_up_seconds = 0.1;
};

/// Naps as fio's main thread does beside its job: in a virtual machine a timer that is about to
/// fire makes the halts of the processor cheaper, so that the job alone would be up to a tenth
/// slower.
class Napper {
 public:
  Napper()
      : thread_([](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
        }) {}

 private:
  std::jthread thread_;
};

/// Keeps `depth` requests in flight until told to drain. One thread.
class Transfers {
 public:
  Transfers(iow_service* service, const Settings& settings)
      : service_(service),
        file_(settings.path, (settings.operation == "write" ? O_WRONLY : O_RDONLY) | O_DIRECT),
        // As fio has it: it fills what it writes, and reads into memory that nobody has touched.
        buffer_(settings.block_bytes * settings.depth, settings.operation == "write"
                                                           ? Buffer::Content::bytes
                                                           : Buffer::Content::untouched),
        offsets_(file_.size(), settings.block_bytes, ioweave::now_ns()),
        requests_(settings.depth),
        batch_(settings.batch) {
    const auto file_id = check(iow_register_file(service, file_.fd()), "iow_register_file");
    const auto buffer_id =
        check(iow_register_buffer(service, buffer_.data(), buffer_.bytes()), "iow_register_buffer");
    for (size_t i = 0; i < requests_.size(); ++i) {
      iow_request& request = requests_[i];
      request.op = settings.operation == "write" ? IOW_OP_WRITE : IOW_OP_READ;
      request.fixed_file = static_cast<uint16_t>(file_id);
      request.fixed_buffer = static_cast<uint16_t>(buffer_id);
      request.fd = file_.fd();
      request.buffer = buffer_.data() + i * settings.block_bytes;
      request.bytes = settings.block_bytes;
      request.callback = [](iow_request* done, void* user) {
        static_cast<Transfers*>(user)->completed(done);
      };
      request.user = this;
    }
  }

  void start() {
    for (iow_request& request : requests_) {
      submit(&request);
    }
  }

  /// Runs for that long; returns the operations that completed.
  uint64_t run(double seconds) {
    const uint64_t before = operations_;
    const uint64_t end_ns = ioweave::now_ns() + static_cast<uint64_t>(seconds * 1e9);
    while (ioweave::now_ns() < end_ns) {
      for (int i = 0; i < 16; ++i) {  // looks at the clock now and then, as fio with gtod_reduce
        check(iow_poll(service_, batch_, -1), "iow_poll");
      }
    }
    return operations_ - before;
  }

  void drain() {
    draining_ = true;
    while (in_flight_ > 0) {
      check(iow_poll(service_, 1, -1), "iow_poll");
    }
  }

 private:
  void submit(iow_request* request) {
    request->offset = offsets_.next();
    // The device should not wait until the whole depth is filled in again; the last go with the
    // wait, in one system call.
    const bool hand_over = batch_ > 1 && ++unflushed_ % batch_ == 0;
    request->flags = IOW_CALLBACK_ON_POLL | (hand_over ? 0 : IOW_MORE);
    check(iow_submit(service_, &request, 1), "iow_submit");
    ++in_flight_;
  }

  void completed(iow_request* request) {
    check(request->result, "transfer");
    if (static_cast<uint64_t>(request->result) != request->bytes) {
      die("short transfer");
    }
    ++operations_;
    --in_flight_;
    if (!draining_) {
      submit(request);
    }
  }

  iow_service* service_;
  File file_;
  Buffer buffer_;
  RandomBlocks offsets_;
  std::vector<iow_request> requests_;
  const unsigned batch_;
  unsigned unflushed_ = 0;
  uint64_t operations_ = 0;
  size_t in_flight_ = 0;
  bool draining_ = false;
};

void measure(const Settings& settings) {
  iow_options options{};
  options.engine = IOW_ENGINE_URING;
  options.required = 1;
  options.queue_depth = settings.depth;
  iow_service* service = nullptr;
  check(iow_service_open(&service, &options, nullptr), "iow_service_open");
  {
    const Napper napper;
    Transfers transfers(service, settings);
    transfers.start();
    transfers.run(settings.warm_up_seconds);
    const Usage before = Usage::now();
    const uint64_t operations = transfers.run(settings.seconds);
    const Usage used = Usage::now() - before;
    transfers.drain();
    print_result({{"operations", static_cast<double>(operations)},
                  {"seconds", static_cast<double>(used.wall_ns) / 1e9},
                  {"cpu_seconds", static_cast<double>(used.cpu_ns) / 1e9}});
  }
  iow_service_close(service);
}

int run(int argc, char** argv) {
  Settings settings;
  Options app("Random O_DIRECT transfers through the C interface of Ioweave");
  app.add("--file", settings.path, "an existing file; --op write overwrites its content")
      .required();
  app.add("--op", settings.operation).one_of({"read", "write"});
  app.add("--bytes", settings.block_bytes, "of one transfer").positive();
  app.add("--depth", settings.depth, "requests in flight").between(1, 4096);
  app.add("--batch", settings.batch, "completions to wait for").between(1, 4096);
  app.add("--seconds", settings.seconds).positive();
  app.add("--warm-up", settings.warm_up_seconds).not_negative();
  app.parse(argc, argv);
  measure(settings);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}
