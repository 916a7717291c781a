// No-op requests at a fixed depth: through the service, and on a bare ring. What remains between
// the two is what the service adds to a request.

#include <vector>

#include <liburing.h>

#include "driver.hpp"
#include "ioweave/ioweave.h"
#include "options.hpp"

namespace {

using namespace ioweave::bench;

/// One thread.
class ServiceNops {
 public:
  explicit ServiceNops(unsigned depth) : requests_(depth) {
    iow_options options{};
    options.engine = IOW_ENGINE_URING;
    options.required = 1;
    options.queue_depth = depth;
    check(iow_service_open(&service_, &options, nullptr), "iow_service_open");
    for (iow_request& request : requests_) {
      request.op = IOW_OP_NOP;
      request.fd = -1;
      request.flags = IOW_MORE | IOW_CALLBACK_ON_POLL;
      request.callback = [](iow_request* done, void* user) {
        static_cast<ServiceNops*>(user)->completed(done);
      };
      request.user = this;
    }
  }
  ~ServiceNops() { iow_service_close(service_); }
  ServiceNops(const ServiceNops&) = delete;
  ServiceNops& operator=(const ServiceNops&) = delete;

  /// Nanoseconds per request over at least that many.
  double run(uint64_t requests) {
    to_submit_ = requests;
    completed_ = 0;
    in_flight_ = 0;
    const Usage before = Usage::now();
    for (iow_request& request : requests_) {
      submit(&request);
    }
    while (in_flight_ > 0) {
      check(iow_poll(service_, 1, -1), "iow_poll");
    }
    const Usage used = Usage::now() - before;
    return static_cast<double>(used.wall_ns) / static_cast<double>(completed_);
  }

 private:
  void submit(iow_request* request) {
    check(iow_submit(service_, &request, 1), "iow_submit");
    ++in_flight_;
    --to_submit_;
  }

  void completed(iow_request* request) {
    check(request->result, "no-op");
    ++completed_;
    --in_flight_;
    if (to_submit_ > 0) {
      submit(request);
    }
  }

  iow_service* service_ = nullptr;
  std::vector<iow_request> requests_;
  uint64_t to_submit_ = 0;
  uint64_t completed_ = 0;
  size_t in_flight_ = 0;
};

/// The same loop as its users write it on liburing. One thread.
class BareNops {
 public:
  explicit BareNops(unsigned depth) : slots_(depth) { open_bare_ring(ring_, depth); }
  ~BareNops() { io_uring_queue_exit(&ring_); }
  BareNops(const BareNops&) = delete;
  BareNops& operator=(const BareNops&) = delete;

  double run(uint64_t requests) {
    to_submit_ = requests;
    uint64_t completed = 0;
    const Usage before = Usage::now();
    for (Slot& slot : slots_) {
      prepare(&slot);
    }
    size_t in_flight = slots_.size();
    while (in_flight > 0) {
      check(io_uring_submit_and_wait(&ring_, 1), "io_uring_submit_and_wait");
      unsigned head;
      unsigned seen = 0;
      io_uring_cqe* cqe;
      io_uring_for_each_cqe(&ring_, head, cqe) {
        ++seen;
        ++completed;
        --in_flight;
        auto* slot = static_cast<Slot*>(io_uring_cqe_get_data(cqe));
        slot->result = check(cqe->res, "no-op");
        if (to_submit_ > 0) {
          prepare(slot);
          ++in_flight;
        }
      }
      io_uring_cq_advance(&ring_, seen);
    }
    const Usage used = Usage::now() - before;
    return static_cast<double>(used.wall_ns) / static_cast<double>(completed);
  }

 private:
  struct Slot {
    int64_t result = 0;
  };

  void prepare(Slot* slot) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) {
      die("the submission queue is full");
    }
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, slot);
    --to_submit_;
  }

  io_uring ring_{};
  std::vector<Slot> slots_;
  uint64_t to_submit_ = 0;
};

int run(int argc, char** argv) {
  unsigned depth = 32;
  unsigned rounds = 10;
  uint64_t requests = 500'000;
  Options app("No-op requests through the service and on a bare ring, in turn");
  app.add("--depth", depth, "requests in flight").between(1, 4096);
  app.add("--rounds", rounds).positive();
  app.add("--requests", requests, "per contender and round").between(4096, 1 << 30);
  app.parse(argc, argv);

  ServiceNops service(depth);
  BareNops bare(depth);
  service.run(requests / 10);
  bare.run(requests / 10);
  for (unsigned round = 0; round < rounds; ++round) {
    // The order alternates, so that a drift of the machine's speed favours neither.
    double service_ns = 0;
    if (round % 2 == 0) {
      service_ns = service.run(requests);
    }
    const double bare_ns = bare.run(requests);
    if (round % 2 == 1) {
      service_ns = service.run(requests);
    }
    print_result({{"service_ns", service_ns}, {"bare_ns", bare_ns}});
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}
