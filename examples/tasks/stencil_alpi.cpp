// The checkpointing stencil as tasks of a runtime with ALPI, the interface that nOS-V, Nanos6 and
// NODES share. A task that writes binds the write by iow_ta_pwrite() and returns; the runtime calls
// its completion when the write has ended, too, and that releases what waited for it. With
// --blocking it calls iow_pwrite(), which pauses the task while the device works.
//
// It links to no runtime, but takes the one it finds in the process:
//
//   LD_PRELOAD=.../libnosv.so stencil_alpi [--size N] [--steps N] [--every N] [--blocks N]
//                                          [--direct] [--blocking] [--recompute] FILE
//
// nOS-V runs nothing before nosv_init(), which a program that links to it calls itself, and which
// is looked up here like everything else. The tests run it on the provider of
// tests/support/alpi_provider, and on nOS-V where IOWEAVE_TEST_NOSV_PREFIX names one.
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>

#include <dlfcn.h>

#include <ioweave/ioweave.hpp>
#include <ioweave/tasks.h>

#include "stencil.h"
#include "stencil_order.hpp"

namespace {

using TaskFunction = void (*)(void* user);
/// alpi_task_spawn() of ALPI 1.0; no attributes.
using SpawnFunction = int (*)(TaskFunction body, void* body_user, TaskFunction completion,
                              void* completion_user, const char* label, const void* attributes);

/// nOS-V, for as long as this lives: between nosv_init() and nosv_shutdown(), which nOS-V 4.1 wants
/// from one thread. Nanos6 and NODES start by themselves. The service must be closed before the end
/// of it: what is still under way there needs the runtime.
class Runtime {
 public:
  Runtime() {
    const auto init = function("nosv_init");
    if (const int error = init != nullptr ? init() : 0; error != 0) {
      throw std::runtime_error("nosv_init: error " + std::to_string(error) + " of nOS-V");
    }
  }
  ~Runtime() {
    if (const auto shutdown = function("nosv_shutdown"); shutdown != nullptr) {
      shutdown();
    }
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

 private:
  using Function = int (*)();
  static Function function(const char* name) {
    return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
  }
};

iow_options options_for_alpi() {
  iow_options options{};
  options.tasks = IOW_TASKS_ALPI;
  return options;
}

class Run {
 public:
  Run(const stencil& plate, int fd)
      : plate_(plate), fd_(fd), service_(options_for_alpi()), order_(plate) {
    spawn_ = reinterpret_cast<SpawnFunction>(::dlsym(RTLD_DEFAULT, "alpi_task_spawn"));
    const char* why = "";
    const std::string runtime = iow_service_tasks(service_.raw(), &why);
    if (spawn_ == nullptr || runtime == "none") {
      throw std::runtime_error(why);
    }
    std::printf("on %s\n", runtime.c_str());
  }

  void all_steps() {
    running_ = plate_.options.blocks;
    for (int block = 0; block < plate_.options.blocks; ++block) {
      spawn_compute(1, block);
    }
    std::unique_lock guard(lock_);
    all_ended_.wait(guard, [this] { return running_ == 0; });
    if (error_ != 0) {
      throw std::system_error(error_, std::generic_category(), "alpi_task_spawn");
    }
  }

 private:
  /// One task: a block of a step to compute, or to write.
  struct Work {
    Run* run;
    int step;
    int block;
  };

  // Both count as running before they are spawned, by those that release them.
  void spawn_compute(int step, int block) {
    spawn(
        new Work{this, step, block},
        [](Work& work) { stencil_compute(&work.run->plate_, work.step, work.block); },
        [](Work& work) { work.run->computed(work.step, work.block); }, "compute");
  }
  void spawn_write(int step, int block) {
    spawn(
        new Work{this, step, block}, [](Work& work) { work.run->write(work.step, work.block); },
        [](Work& work) { work.run->release(work.step + 2, work.block); }, "checkpoint");
  }

  template <typename Body, typename Completion>
  void spawn(Work* work, Body /*body*/, Completion /*completion*/, const char* label) {
    // Lambdas without captures are made where they are called: a task gets a single pointer.
    const int error = spawn_([](void* user) { Body{}(*static_cast<Work*>(user)); }, work,
                             [](void* user) {
                               Work& ended = *static_cast<Work*>(user);
                               Run& run = *ended.run;
                               Completion{}(ended);
                               delete &ended;
                               run.one_ended(0);
                             },
                             work, label, nullptr);
    if (error != 0) {
      delete work;
      one_ended(EAGAIN);
    }
  }

  void computed(int step, int block) {
    if (stencil_checkpoint_of(&plate_, step) >= 0) {
      one_more();
      spawn_write(step, block);
    }
    for (int other = order_.first(block); other < order_.end(block); ++other) {
      release(step + 1, other);
    }
  }

  void release(int step, int block) {
    if (order_.release(step, block)) {
      one_more();
      spawn_compute(step, block);
    }
  }

  void write(int step, int block) {
    const int checkpoint = stencil_checkpoint_of(&plate_, step);
    ssize_t* const result = stencil_result(&plate_, checkpoint, block);
    const double* const from = stencil_block(&plate_, step, block);
    const off_t to = stencil_offset(&plate_, checkpoint, block);
    if (plate_.options.blocking != 0) {
      *result = iow_pwrite(service_.raw(), fd_, from, plate_.block_bytes, to);
    } else {
      iow_ta_pwrite(service_.raw(), fd_, from, plate_.block_bytes, to, result);
    }
  }

  void one_more() {
    const std::lock_guard guard(lock_);
    ++running_;
  }
  void one_ended(int error) {
    const std::lock_guard guard(lock_);
    error_ = error != 0 ? error : error_;
    if (--running_ == 0) {
      all_ended_.notify_one();  // under the lock: afterwards this object may be gone
    }
  }

  const stencil& plate_;
  const int fd_;
  SpawnFunction spawn_ = nullptr;
  ioweave::Service service_;
  StencilOrder order_;
  std::mutex lock_;
  std::condition_variable all_ended_;
  int running_ = 0;  // tasks that have not completed
  int error_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  return stencil_main(argc, argv, [](const stencil* plate, int fd) {
    try {
      const Runtime runtime;  // ends after the service of `run`
      Run run(*plate, fd);
      run.all_steps();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "stencil_alpi: %s\n", error.what());
      return 1;
    }
    return stencil_finish(plate, fd);
  });
}
