// Worker threads and a queue of ready tasks, without any task library. The variants:
//
//   standalone    the worker makes the system call, and waits in it
//   blocking      the same through iow_pread(): nothing can be paused, so this is the control that
//                 shows what the library costs
//   nonblocking   the worker submits a request and takes the next ready task, of another series;
//                 the request's callback releases what follows

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime.hpp"

namespace tiom {
namespace {

class ThreadsRuntime final : public Runtime {
 public:
  explicit ThreadsRuntime(const RuntimeSettings& settings)
      : service_(IOW_TASKS_NONE, settings.most_in_flight) {
    workers_.reserve(settings.workers);
    for (unsigned i = 0; i < settings.workers; ++i) workers_.emplace_back([this] { work(); });
  }

  ~ThreadsRuntime() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    ready_.notify_all();
  }

  void execute(Variant variant, Run& run) override {
    {
      const std::lock_guard lock(mutex_);
      variant_ = variant;
      run_ = &run;
      finished_ = false;
      if (variant == Variant::nonblocking) pending_ = std::vector<Pending>(run.lanes());
    }
    run.start([this](const Task& task) { push(task); });
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return finished_; });
  }

  [[nodiscard]] std::string name() const override { return "threads"; }
  [[nodiscard]] unsigned workers() const override { return static_cast<unsigned>(workers_.size()); }
  [[nodiscard]] iow_service* service() const override { return service_.get(); }

 private:
  /// A transfer in flight.
  struct Pending {
    iow_request request{};
    ThreadsRuntime* runtime = nullptr;
    Task task{};
  };

  void push(const Task& task) {
    bool wake = false;
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(task);
      wake = sleeping_ > 0;
    }
    if (wake) ready_.notify_one();
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++sleeping_;
      ready_.wait(lock, [this] { return closing_ || !queue_.empty(); });
      --sleeping_;
      if (closing_) return;
      const Task task = queue_.front();
      queue_.pop_front();
      lock.unlock();
      perform(task);
      lock.lock();
    }
  }

  void perform(const Task& task) {
    tiom::perform(
        *run_, task, variant_, service_.get(), [&] { submit(task); },
        [&](bool worked) { ended(task, worked); });
  }

  void submit(const Task& task) {
    Pending& pending = pending_[run_->lane(task)];
    pending.request = request_of(run_->transfer(task));
    pending.runtime = this;
    pending.task = task;
    pending.request.user = &pending;
    pending.request.callback = [](iow_request* request, void* user) {
      const Pending& done = *static_cast<Pending*>(user);
      const Task finished_task = done.task;
      ThreadsRuntime& runtime = *done.runtime;
      runtime.run_->moved(finished_task, request->result);
      runtime.ended(finished_task, true);
    };
    iow_request* request = &pending.request;
    const int taken = iow_submit(service_.get(), &request, 1);
    if (taken == 1) return;
    run_->moved(task, taken < 0 ? taken : -EAGAIN);
    ended(task, false);
  }

  void ended(const Task& task, bool worked) {
    if (!run_->ended(task, worked, [this](const Task& next) { push(next); })) return;
    const std::lock_guard lock(mutex_);
    finished_ = true;
    idle_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable ready_;
  std::condition_variable idle_;
  std::deque<Task> queue_;
  unsigned sleeping_ = 0;
  bool closing_ = false;
  bool finished_ = false;
  // Written under the lock before the first task of a run is pushed, read by those who took one.
  Run* run_ = nullptr;
  Variant variant_ = Variant::standalone;
  std::vector<Pending> pending_;
  // Last, in this order: workers submit to the service, whose callbacks may still be waking a
  // worker when the run has ended.
  Service service_;
  std::vector<std::jthread> workers_;
};

}  // namespace

std::unique_ptr<Runtime> make_threads_runtime(const RuntimeSettings& settings) {
  return std::make_unique<ThreadsRuntime>(settings);
}

}  // namespace tiom
