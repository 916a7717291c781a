// OpenMP: chains of tasks by `depend`. The variants:
//
//   standalone    a task makes the system call, and its thread waits in it
//   nonblocking   the I/O is bound to a task with `detach`, whose event is fulfilled when body and
//                 I/O have ended
//
// One thread more than there are workers makes the tasks. It sleeps while as many are alive as the
// window allows: beyond 64 live tasks for each thread libgomp runs new ones inside the thread that
// makes them, and ioweave/openmp.h has to wait for the I/O of those. A task with I/O stands for
// four: itself, the two by which openmp.h wakes the team, and the one here that takes its result.

#include <semaphore>
#include <stdexcept>
#include <vector>

#include <omp.h>

#include "ioweave/openmp.h"
#include "runtime.hpp"

namespace tiom {
namespace {

constexpr unsigned kWindowPerThread = 16;

class OpenmpRuntime final : public Runtime {
 public:
  explicit OpenmpRuntime(const RuntimeSettings& settings)
      : workers_(settings.workers),
        window_(static_cast<std::ptrdiff_t>(kWindowPerThread * (settings.workers + 1))),
        service_(IOW_TASKS_NONE, settings.most_in_flight),
        free_(window_) {
    // A team below the size asked for (OMP_DYNAMIC, limits) would fake a slow-down.
    omp_set_dynamic(0);
    const char* why = "";
    if (iow_omp_check(&why) != 0) throw std::runtime_error(why);
  }

  void execute(Variant variant, Run& run) override {
    variant_ = variant;
    run_ = &run;
    pending_ = std::vector<Pending>(run.task_lanes());
    tokens_ = std::vector<Token>(run.task_lanes() * 2);
    const int threads = static_cast<int>(workers_) + 1;
    int team = 0;
#pragma omp parallel num_threads(threads)
#pragma omp single
    {
      team = omp_get_num_threads();
      if (team == threads) make_tasks();
    }
    if (team != threads) {
      throw std::runtime_error("OpenMP gave " + std::to_string(team) + " threads of the " +
                               std::to_string(threads) +
                               " asked for; raise OMP_THREAD_LIMIT, or lower --threads");
    }
  }

  // iow_omp_check() has refused a library that is not the compiler's own.
  [[nodiscard]] std::string name() const override {
    return "OpenMP " + std::to_string(_OPENMP) + (IOW_OMP_LLVM != 0 ? " (libomp)" : " (libgomp)");
  }
  [[nodiscard]] unsigned workers() const override { return workers_; }
  [[nodiscard]] iow_service* service() const override { return service_.get(); }

 private:
  /// What `depend` names: its address stands for the end of a task.
  using Token = char;

  struct Pending {
    ssize_t result = 0;
    bool worked = false;
  };

  void make_tasks() {
    const Shape& shape = run_->shape();
    const auto stages = stages_of(shape.mode);
    run_->start_clock();
    for (uint64_t cycle = 0; cycle < shape.cycles_of(0) && !run_->stopping(); ++cycle) {
      for (size_t stage = 0; stage < stages.size(); ++stage) {
        for (unsigned series = 0; series < shape.series && cycle < shape.cycles_of(series);
             ++series) {
          for (unsigned slot = 0; slot < stages[stage].width; ++slot) {
            make_task({cycle, series, static_cast<uint16_t>(stage), static_cast<uint16_t>(slot)});
          }
        }
      }
    }
    for (std::ptrdiff_t i = 0; i < window_; ++i) free_.acquire();
    run_->stop_clock();
    free_.release(window_);
  }

  [[nodiscard]] Token* tokens(unsigned series, size_t stage) {
    return &tokens_[(uint64_t{series} * 2 + stage) * stage_width(run_->shape().mode)];
  }

  void make_task(const Task& task) {
    const auto stages = stages_of(run_->shape().mode);
    const size_t before = (task.stage + stages.size() - 1) % stages.size();
    const bool detached = variant_ == Variant::nonblocking && run_->does_io(task);
    Token* const mine = tokens(task.series, task.stage) + task.slot;
    const Token* const theirs = tokens(task.series, before);
    free_.acquire();
    if (stages.size() == 1) {
      detached ? make_detached(task, mine) : make_plain(task, mine);
    } else if (stages[before].width == 1) {
      detached ? make_detached(task, mine, theirs) : make_plain(task, mine, theirs);
    } else {
      detached ? make_detached_join(task, mine, theirs) : make_plain_join(task, mine, theirs);
    }
    if (detached) make_collector(task, mine);
  }

  // The clauses differ, and a pragma cannot choose between them. g++ 12 does not count what only a
  // clause names as used.
  void make_plain(Task task, [[maybe_unused]] Token* mine) {
#pragma omp task firstprivate(task) depend(inout : mine[0])
    perform(task);
  }
  void make_plain(Task task, [[maybe_unused]] Token* mine, [[maybe_unused]] const Token* before) {
#pragma omp task firstprivate(task) depend(in : before[0]) depend(out : mine[0])
    perform(task);
  }
  void make_plain_join(Task task, [[maybe_unused]] Token* mine,
                       [[maybe_unused]] const Token* before) {
#pragma omp task firstprivate(task) depend(in : before[0], before[1], before[2], before[3]) \
    depend(out : mine[0])
    perform(task);
  }
  void make_detached(Task task, [[maybe_unused]] Token* mine) {
    omp_event_handle_t event{};
#pragma omp task firstprivate(task) detach(event) depend(inout : mine[0])
    perform_detached(task, event);
  }
  void make_detached(Task task, [[maybe_unused]] Token* mine,
                     [[maybe_unused]] const Token* before) {
    omp_event_handle_t event{};
#pragma omp task firstprivate(task) detach(event) depend(in : before[0]) depend(out : mine[0])
    perform_detached(task, event);
  }
  void make_detached_join(Task task, [[maybe_unused]] Token* mine,
                          [[maybe_unused]] const Token* before) {
    omp_event_handle_t event{};
#pragma omp task firstprivate(task) detach(event) \
    depend(in : before[0], before[1], before[2], before[3]) depend(out : mine[0])
    perform_detached(task, event);
  }

  void make_collector(Task task, [[maybe_unused]] const Token* done) {
#pragma omp task firstprivate(task) depend(in : done[0])
    collect(task);
  }

  void perform(const Task& task) {
    const bool works = run_->begin();
    if (works) {
      run_->compute(task);
      if (run_->does_io(task)) run_->moved(task, transfer_plainly(run_->transfer(task)));
    }
    run_->count_task(works);
    free_.release();
  }

  void perform_detached(const Task& task, omp_event_handle_t event) {
    Pending& pending = pending_[run_->task_lane(task)];
    pending.worked = run_->begin();
    if (pending.worked) run_->compute(task);
    pending.result = iow_omp_begin(service_.get(), event);
    if (pending.worked && pending.result == 0) {
      transfer_bound(service_.get(), run_->transfer(task), &pending.result);
    }
    iow_omp_end(service_.get());
  }

  /// The I/O of the task has ended, and the next task of this place has not begun.
  void collect(const Task& task) {
    const Pending& pending = pending_[run_->task_lane(task)];
    if (pending.worked) run_->moved(task, pending.result);
    run_->count_task(pending.worked);
    free_.release();
  }

  const unsigned workers_;
  const std::ptrdiff_t window_;
  Service service_;
  std::counting_semaphore<> free_;  ///< tasks that may still be made
  Run* run_ = nullptr;
  Variant variant_ = Variant::standalone;
  std::vector<Pending> pending_;
  std::vector<Token> tokens_;
};

}  // namespace

std::unique_ptr<Runtime> make_openmp_runtime(const RuntimeSettings& settings) {
  return std::make_unique<OpenmpRuntime>(settings);
}

}  // namespace tiom
