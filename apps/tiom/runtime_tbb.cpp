// oneTBB. The variants:
//
//   standalone    a TBB task makes the system call, and its worker waits in it
//   blocking      iow_pread() suspends the TBB task
//   nonblocking   the I/O is bound to a task of iow_task_begin(); its end enqueues the TBB task
//   that
//                 goes on

#include <optional>
#include <vector>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/version.h>

#include "ioweave/tasks.h"
#include "runtime.hpp"

namespace tiom {
namespace {

class TbbRuntime final : public Runtime {
 public:
  explicit TbbRuntime(const RuntimeSettings& settings)
      : workers_(settings.workers),
        parallelism_(tbb::global_control::max_allowed_parallelism, settings.workers),
        arena_(static_cast<int>(settings.workers)),
        service_(IOW_TASKS_TBB, settings.most_in_flight) {}

  void execute(Variant variant, Run& run) override {
    variant_ = variant;
    run_ = &run;
    if (variant == Variant::nonblocking) pending_ = std::vector<Pending>(run.lanes());
    // The calling thread is one of the workers while it waits.
    arena_.execute([this] {
      group_.emplace();
      run_->start([this](const Task& task) { spawn(task); });
      group_->wait();
      group_.reset();
    });
  }

  [[nodiscard]] std::string name() const override {
    return "oneTBB " + std::to_string(TBB_VERSION_MAJOR) + "." + std::to_string(TBB_VERSION_MINOR);
  }
  [[nodiscard]] unsigned workers() const override { return workers_; }
  [[nodiscard]] iow_service* service() const override { return service_.get(); }

 private:
  /// I/O in flight, and the task that goes on behind it.
  struct Pending {
    TbbRuntime* runtime = nullptr;
    ssize_t result = 0;
    tbb::task_handle next;
  };

  void spawn(const Task& task) {
    group_->run([this, task] { perform(task); });
  }

  void perform(const Task& task) {
    Run& run = *run_;
    const bool works = run.begin();
    if (works) run.compute(task);
    if (!works || !run.does_io(task)) {
      ended(task, works);
    } else if (variant_ == Variant::nonblocking) {
      start_io(task);
    } else {
      const Transfer transfer = run.transfer(task);
      run.moved(variant_ == Variant::standalone ? transfer_plainly(transfer)
                                                : transfer_blocking(service_.get(), transfer));
      ended(task, true);
    }
  }

  void start_io(const Task& task) {
    Pending& pending = pending_[run_->lane(task)];
    pending.runtime = this;
    // The deferred task makes the group's wait() wait although nothing of this series runs.
    pending.next = group_->defer([this, task, &pending] {
      run_->moved(pending.result);
      ended(task, true);
    });
    const int error = iow_task_begin(service_.get(), &enqueue_next, &pending);
    if (error != 0) {
      pending.result = error;
      enqueue_next(&pending);
      return;
    }
    const int refused = transfer_bound(service_.get(), run_->transfer(task), &pending.result);
    if (refused != 0) pending.result = refused;
    iow_task_end(service_.get());
  }

  static void enqueue_next(void* user) {
    auto& pending = *static_cast<Pending*>(user);
    pending.runtime->arena_.enqueue(std::move(pending.next));
  }

  void ended(const Task& task, bool worked) {
    // The end of the last task is seen by the group.
    static_cast<void>(run_->ended(task, worked, [this](const Task& next) { spawn(next); }));
  }

  const unsigned workers_;
  tbb::global_control parallelism_;
  tbb::task_arena arena_;
  Service service_;
  std::optional<tbb::task_group> group_;
  Run* run_ = nullptr;
  Variant variant_ = Variant::standalone;
  std::vector<Pending> pending_;
};

}  // namespace

std::unique_ptr<Runtime> make_tbb_runtime(const RuntimeSettings& settings) {
  return std::make_unique<TbbRuntime>(settings);
}

}  // namespace tiom
