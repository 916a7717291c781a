// C++20 coroutines: a coroutine for each series, on a pool of threads. The variants:
//
//   standalone    the coroutine makes the system call, and its thread waits in it
//   nonblocking   the coroutine awaits the transfer, and its thread resumes others

#include <vector>

#include "ioweave/coroutine.hpp"
#include "ioweave/coroutine_task.hpp"
#include "runtime.hpp"

namespace tiom {
namespace {

using Coroutine = ioweave::Task<>;

class CoroutineRuntime final : public Runtime {
 public:
  explicit CoroutineRuntime(const RuntimeSettings& settings)
      : workers_(settings.workers),
        pool_(settings.workers),
        service_(service_options(settings.most_in_flight)) {}

  void execute(Variant variant, Run& run) override {
    variant_ = variant;
    run_ = &run;
    std::vector<Coroutine> all;
    const Shape& shape = run.shape();
    for (unsigned s = 0; s < shape.series; ++s) all.push_back(series(s));
    run.start_clock();
    ioweave::sync_wait(ioweave::when_all(std::move(all)));
    run.stop_clock();
  }

  [[nodiscard]] std::string name() const override { return "C++20 coroutines"; }
  [[nodiscard]] unsigned workers() const override { return workers_; }
  [[nodiscard]] iow_service* service() const override { return service_.raw(); }

 private:
  Coroutine series(unsigned number) {
    const Shape& shape = run_->shape();
    const auto stages = stages_of(shape.mode);
    for (uint64_t cycle = 0; cycle < shape.cycles_of(number) && !run_->stopping(); ++cycle) {
      for (size_t stage = 0; stage < stages.size(); ++stage) {
        co_await perform_stage({cycle, number, static_cast<uint16_t>(stage), 0},
                               stages[stage].width);
      }
    }
  }

  Coroutine perform_stage(Task task, unsigned width) {
    if (width == 1) {
      co_await perform(task);
      co_return;
    }
    std::vector<Coroutine> tasks;
    for (; task.slot < width; ++task.slot) tasks.push_back(perform(task));
    co_await ioweave::when_all(std::move(tasks));
  }

  auto await_transfer(const Transfer& transfer) {
    ioweave::Request request =
        transfer.write ? ioweave::Request::write(transfer.fd, {transfer.buffer, transfer.bytes},
                                                 transfer.offset)
                       : ioweave::Request::read(transfer.fd, {transfer.buffer, transfer.bytes},
                                                transfer.offset);
    return ioweave::async_request(service_, pool_, std::move(request)).result();
  }

  Coroutine perform(Task task) {
    // Behind the tasks that are ready already, as in the other runtimes.
    co_await pool_.schedule();
    const bool works = run_->begin();
    if (works) {
      run_->compute(task);
      if (run_->does_io(task)) {
        const Transfer transfer = run_->transfer(task);
        if (variant_ == Variant::standalone) {
          run_->moved(task, transfer_plainly(transfer));
        } else {
          run_->moved(task, co_await await_transfer(transfer));
        }
      }
    }
    run_->count_task(works);
  }

  const unsigned workers_;
  ioweave::ThreadPoolExecutor pool_;
  ioweave::Service service_;  // behind the pool: what completes at its end is posted there
  Run* run_ = nullptr;
  Variant variant_ = Variant::standalone;
};

}  // namespace

std::unique_ptr<Runtime> make_coroutine_runtime(const RuntimeSettings& settings) {
  return std::make_unique<CoroutineRuntime>(settings);
}

}  // namespace tiom
