// oneTBB. The variants:
//
//   standalone    a TBB task makes the system call, and its worker waits in it
//   blocking      iow_pread() suspends the TBB task
//   nonblocking   the I/O is bound to a task of iow_task_begin(); its end enqueues the TBB task
//   that
//                 goes on

#include <vector>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/version.h>

#include "ioweave/tbb.hpp"
#include "runtime.hpp"

namespace tiom {
namespace {

class TbbRuntime final : public Runtime {
 public:
  explicit TbbRuntime(const RuntimeSettings& settings)
      : workers_(settings.workers),
        parallelism_(tbb::global_control::max_allowed_parallelism, settings.workers),
        arena_(static_cast<int>(settings.workers)),
        service_(tbb_options(settings.most_in_flight)) {}

  void execute(Variant variant, Run& run) override {
    variant_ = variant;
    run_ = &run;
    results_ = std::vector<ssize_t>(run.lanes());
    // The calling thread is one of the workers while it waits.
    arena_.execute([this] {
      ioweave::tbb::TaskGroup group;
      group_ = &group;
      run_->start([this](const Task& task) { spawn(task); });
      group.wait();
    });
  }

  [[nodiscard]] std::string name() const override {
    return "oneTBB " + std::to_string(TBB_VERSION_MAJOR) + "." + std::to_string(TBB_VERSION_MINOR);
  }
  [[nodiscard]] unsigned workers() const override { return workers_; }
  [[nodiscard]] iow_service* service() const override { return service_.raw(); }

 private:
  static iow_options tbb_options(unsigned most_in_flight) {
    iow_options options = service_options(most_in_flight);
    options.tasks = IOW_TASKS_TBB;
    return options;
  }

  void spawn(const Task& task) {
    group_->run([this, task] { perform(task); });
  }

  void perform(const Task& task) {
    tiom::perform(
        *run_, task, variant_, service_.raw(), [&] { start_io(task); },
        [&](bool worked) { ended(task, worked); });
  }

  void start_io(const Task& task) {
    ssize_t& result = results_[run_->lane(task)];
    ioweave::tbb::run_io(
        service_, *group_, [&] { transfer_bound(service_.raw(), run_->transfer(task), &result); },
        [this, task, &result] {
          run_->moved(task, result);
          ended(task, true);
        });
  }

  void ended(const Task& task, bool worked) {
    // The end of the last task is seen by the group.
    static_cast<void>(run_->ended(task, worked, [this](const Task& next) { spawn(next); }));
  }

  const unsigned workers_;
  tbb::global_control parallelism_;
  tbb::task_arena arena_;
  ioweave::Service service_;
  ioweave::tbb::TaskGroup* group_ = nullptr;  ///< of the run
  Run* run_ = nullptr;
  Variant variant_ = Variant::standalone;
  std::vector<ssize_t> results_;  ///< of transfers, by lane
};

}  // namespace

std::unique_ptr<Runtime> make_tbb_runtime(const RuntimeSettings& settings) {
  return std::make_unique<TbbRuntime>(settings);
}

}  // namespace tiom
