// ALPI, the tasking interface of OmpSs-2 (Nanos6, NODES) and nOS-V, versions 1.0 to 1.2, by names
// looked up in the process at run time. The prototypes are written from the published names and
// semantics.
//
// What its contract leaves open, and what this file does about it:
//   - An unblock may come before its block, but only once. complete() unblocks only a task that has
//     said that it sleeps, and only once (TaskPause).
//   - While a task sleeps here, somebody may unblock it for a later block of its own. Then it
//   sleeps
//     again here, and gets those unblocks back afterwards.
//   - The runtime may refuse to put a task to sleep (an error of alpi_task_block). Then its thread
//     sleeps instead. nOS-V refuses parallel tasks, which its own interface tells apart.
//   - nOS-V documents that only its own workers may decrease events. It does not check this, but
//     another runtime may. So there, and for calls that are refused to a thread that runs no task,
//     a task is spawned that makes the call. One such task serves all calls gathered until it runs.
//   - Counters of the runtime may be relaxed, so fences of our own publish results.

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "tasking/task_host.hpp"

struct alpi_task;
struct alpi_attr;

namespace ioweave::tasking {
namespace {

constexpr int kSuccess = 0;
constexpr int kMajor = 1;
constexpr int kFeatureBlocking = 1;
constexpr int kFeatureEvents = 2;
constexpr int kInfoName = 0;
constexpr int kInfoVersion = 2;

using Handle = ::alpi_task*;

struct Entries {
  // 1.0
  int (*version_check)(int major, int minor) = nullptr;
  int (*version_get)(int* major, int* minor) = nullptr;
  int (*task_self)(Handle*) = nullptr;
  int (*task_block)(Handle) = nullptr;
  int (*task_unblock)(Handle) = nullptr;
  int (*task_waitfor_ns)(uint64_t target, uint64_t* actual) = nullptr;
  int (*events_increase)(Handle, uint64_t) = nullptr;
  int (*events_decrease)(Handle, uint64_t) = nullptr;
  int (*task_spawn)(void (*body)(void*), void* user, void (*completed)(void*), void* completed_user,
                    const char* label, const ::alpi_attr*) = nullptr;
  // 1.2
  int (*info_get)(int query, char* text, size_t bytes, int* length) = nullptr;
  int (*feature_check)(int mask) = nullptr;
  // nOS-V's own, or null. How many threads may run the task at once, below zero once cancelled:
  // then it is not to be submitted again.
  int32_t (*task_degree)(Handle) = nullptr;
  void* (*nosv_self)() = nullptr;
  int (*yield)(uint64_t flags) = nullptr;  // lets a ready task run, if there is one
};

template <typename Function>
void find(Function& entry, const char* symbol) noexcept {
  entry = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, symbol));
}

Entries look_up() noexcept {
  Entries alpi;
  find(alpi.version_check, "alpi_version_check");
  find(alpi.version_get, "alpi_version_get");
  find(alpi.task_self, "alpi_task_self");
  find(alpi.task_block, "alpi_task_block");
  find(alpi.task_unblock, "alpi_task_unblock");
  find(alpi.task_waitfor_ns, "alpi_task_waitfor_ns");
  find(alpi.events_increase, "alpi_task_events_increase");
  find(alpi.events_decrease, "alpi_task_events_decrease");
  find(alpi.task_spawn, "alpi_task_spawn");
  find(alpi.info_get, "alpi_info_get");
  find(alpi.feature_check, "alpi_feature_check");
  find(alpi.task_degree, "nosv_get_task_degree");
  find(alpi.nosv_self, "nosv_self");
  find(alpi.yield, "nosv_yield");
  return alpi;
}

/// "ALPI 1.2 (nOS-V 3.1.0)", as far as the runtime tells: nOS-V 4.1 gives "ALPI 1.2 (nOS-V)" for
/// its version.
std::string describe(const Entries& alpi, int major, int minor) {
  std::string text = "ALPI " + std::to_string(major) + "." + std::to_string(minor);
  std::array<char, 64> name{};
  std::array<char, 64> version{};
  if (alpi.info_get != nullptr &&
      alpi.info_get(kInfoName, name.data(), name.size(), nullptr) == kSuccess) {
    text.append(" (").append(name.data(), ::strnlen(name.data(), name.size()));
    if (alpi.info_get(kInfoVersion, version.data(), version.size(), nullptr) == kSuccess &&
        std::strncmp(version.data(), "ALPI ", 5) != 0) {
      text.append(" ").append(version.data(), ::strnlen(version.data(), version.size()));
    }
    text.append(")");
  }
  return text;
}

bool has_feature(const Entries& alpi, int feature) noexcept {
  // Before 1.2 there was no question: what was exported was there.
  return alpi.feature_check == nullptr || alpi.feature_check(feature) == kSuccess;
}

class AlpiHost final : public TaskHost {
 public:
  AlpiHost(const Entries& alpi, std::string name)
      : alpi_(alpi),
        name_(std::move(name)),
        pauses_(alpi.task_block != nullptr && alpi.task_unblock != nullptr &&
                has_feature(alpi, kFeatureBlocking)),
        has_events_(alpi.events_increase != nullptr && alpi.events_decrease != nullptr &&
                    has_feature(alpi, kFeatureEvents)),
        can_poll_(alpi.task_spawn != nullptr && alpi.task_waitfor_ns != nullptr &&
                  has_feature(alpi, kFeatureBlocking)),
        decreased_by_workers_(alpi.task_spawn != nullptr &&
                              ::dlsym(RTLD_DEFAULT, "nosv_decrease_event_counter") != nullptr) {}

  /// Waits for the tasks that run errands: they are ours.
  ~AlpiHost() override { await_zero(errands_running_, *this); }

  [[nodiscard]] const char* name() const noexcept override { return name_.c_str(); }

  [[nodiscard]] const char* missing() const noexcept override {
    if (gave_up()) {
      return "the runtime refused to block a task, time after time: since then blocking calls are "
             "plain; ask its log or its makers why";
    }
    if (!pauses_) {
      return "this runtime cannot pause tasks: blocking calls are plain, and iow_ta_*() work";
    }
    if (refused_.load(std::memory_order_relaxed) || met_parallel_.load(std::memory_order_relaxed)) {
      return "parallel tasks cannot pause: their blocking calls are plain";
    }
    return has_events_ ? ""
                       : "this runtime counts no events: iow_ta_*() work between iow_task_begin() "
                         "and iow_task_end() only";
  }

  [[nodiscard]] Task current() noexcept override {
    Handle task = nullptr;
    return alpi_.task_self(&task) == kSuccess ? task : nullptr;
  }

  [[nodiscard]] bool keeps_thread() const noexcept override { return true; }
  [[nodiscard]] bool can_pause() const noexcept override { return pauses_ && !gave_up(); }

  [[nodiscard]] bool can_pause(Task task) noexcept override {
    if (!can_pause()) {
      return false;
    }
    // Beside another runtime with ALPI nOS-V may be there for something else.
    const bool is_of_nosv = alpi_.nosv_self == nullptr || alpi_.nosv_self() == task;
    if (alpi_.task_degree == nullptr || !is_of_nosv) {
      return true;
    }
    const bool is_parallel = alpi_.task_degree(static_cast<Handle>(task)) != 1;
    if (is_parallel && !met_parallel_.load(std::memory_order_relaxed)) {
      met_parallel_.store(true, std::memory_order_relaxed);
    }
    return !is_parallel;
  }

  void pause(TaskPause& pause) noexcept override {
    const Task task = current();
    pause.start();
    if (!pause.sleep_as(task)) {
      return;  // it has ended: nobody will unblock us
    }
    uint32_t not_ours = 0;  // unblocks, which are for later blocks of the task's own
    while (true) {
      if (alpi_.task_block(static_cast<Handle>(task)) != kSuccess) {
        // Where complete() has unblocked us all the same, a later block of this task would return
        // at once; ALPI has no call that takes it back. But that block is refused as well.
        refused_.store(true);  // before it goes on: see run_errands()
        refusals_.fetch_add(1, std::memory_order_relaxed);
        static_cast<void>(pause.sleep_as_thread());
        break;
      }
      if (refusals_.load(std::memory_order_relaxed) != 0 && !gave_up()) {
        refusals_.store(0, std::memory_order_relaxed);  // only in a row do they say something
      }
      if (pause.done()) {
        break;
      }
      ++not_ours;
    }
    for (; not_ours > 0; --not_ours) {
      resume(task);
    }
  }

  void resume(Task task) noexcept override {
    if (alpi_.task_unblock(static_cast<Handle>(task)) != kSuccess) {
      relay({task, Errand::unblock});
    }
  }

  /// Yields and measures how long that takes. Another task runs on a thread of its own, and going
  /// there and back takes longer than finding no task, which takes a microsecond.
  [[nodiscard]] bool none_is_ready() noexcept override {
    constexpr uint64_t kQuickNs = 8000;
    if (alpi_.yield == nullptr) {
      return false;
    }
    const uint64_t begin = now_ns();
    return alpi_.yield(0) == kSuccess && now_ns() - begin < kQuickNs;
  }

  [[nodiscard]] bool has_events() const noexcept override { return has_events_; }

  [[nodiscard]] bool hold(Task task) noexcept override {
    return alpi_.events_increase(static_cast<Handle>(task), 1) == kSuccess;
  }

  void release(Task task) noexcept override {
    // The runtime may count with relaxed operations. With its own acquire before the successor
    // runs, this fence makes everything written before visible to the successor.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const bool must_relay = decreased_by_workers_ && current() == nullptr;
    if (must_relay || alpi_.events_decrease(static_cast<Handle>(task), 1) != kSuccess) {
      relay({task, Errand::decrease});
    }
  }

  [[nodiscard]] bool can_poll() const noexcept override { return can_poll_; }

  [[nodiscard]] bool spawn(void (*body)(void*), void (*completed)(void*),
                           void* user) noexcept override {
    return alpi_.task_spawn != nullptr &&
           alpi_.task_spawn(body, user, completed, user, "ioweave", nullptr) == kSuccess;
  }

  void yield_for(uint64_t ns) noexcept override {
    if (alpi_.task_waitfor_ns == nullptr || alpi_.task_waitfor_ns(ns, nullptr) != kSuccess) {
      sleep_thread_for(ns);
    }
  }

 private:
  struct Errand {
    enum Kind : uint8_t { unblock, decrease };
    Task task;
    Kind kind;
  };

  /// Returns true if the runtime has refused so many blocks in a row that it seems to refuse all.
  /// A single refusal concerns a single task.
  [[nodiscard]] bool gave_up() const noexcept {
    constexpr uint32_t kConvincing = 64;
    return refusals_.load(std::memory_order_relaxed) >= kConvincing;
  }

  /// Lets a task of the runtime make a call that a thread of the service must not make.
  void relay(Errand errand) noexcept {
    {
      const std::lock_guard guard(errands_lock_);
      errands_.push_back(errand);  // terminates without memory, which is better than a lost task
      if (runner_is_due_) {
        return;
      }
      runner_is_due_ = true;
    }
    errands_running_.fetch_add(1, std::memory_order_relaxed);
    if (!spawn([](void* self) { static_cast<AlpiHost*>(self)->run_errands(); }, &errand_ended,
               this)) {
      run_errands_here();
      errand_ended(this);
    }
  }

  static void errand_ended(void* user) noexcept {
    const std::atomic<uint32_t>& word = static_cast<AlpiHost*>(user)->errands_running_;
    static_cast<AlpiHost*>(user)->errands_running_.fetch_sub(1, std::memory_order_acq_rel);
    futex_wake(word);  // the host may be gone: a wake needs its address only
  }

  [[nodiscard]] std::vector<Errand> take_errands() noexcept {
    const std::lock_guard guard(errands_lock_);
    runner_is_due_ = false;
    return std::exchange(errands_, {});
  }

  [[nodiscard]] int run(const Errand& errand) const noexcept {
    const auto task = static_cast<Handle>(errand.task);
    return errand.kind == Errand::unblock ? alpi_.task_unblock(task)
                                          : alpi_.events_decrease(task, 1);
  }

  /// Makes the calls on this thread, since no task can be spawned. A call that is only documented
  /// as not allowed here may work. A refused call waits for the next errand, which spawns again.
  void run_errands_here() noexcept {
    for (const Errand& errand : take_errands()) {
      if (run(errand) != kSuccess) {
        const std::lock_guard guard(errands_lock_);
        errands_.push_back(errand);
      }
    }
  }

  void run_errands() noexcept {
    for (const Errand& errand : take_errands()) {
      const int error = run(errand);
      // If this is refused even to a task of the runtime, the other task can never continue. But a
      // task that was refused to block continues by itself, and may have ended.
      const bool not_needed = errand.kind == Errand::unblock && refused_.load();
      IOW_ASSERT(error == kSuccess || not_needed);
    }
  }

  const Entries alpi_;
  const std::string name_;
  const bool pauses_;
  const bool has_events_;
  const bool can_poll_;
  const bool decreased_by_workers_;
  std::atomic<bool> refused_{false};       ///< a block, once
  std::atomic<bool> met_parallel_{false};  ///< a task that is not to be asked
  std::atomic<uint32_t> refusals_{0};      ///< blocks, since one was not refused
  std::atomic<uint32_t> errands_running_{0};
  std::mutex errands_lock_;
  std::vector<Errand> errands_;  ///< under the lock, and so is:
  bool runner_is_due_ = false;   ///< a task has been spawned that has not taken them yet
};

}  // namespace

std::unique_ptr<TaskHost> open_alpi(std::string& why) {
  const Entries alpi = look_up();
  if (alpi.version_check == nullptr || alpi.version_get == nullptr || alpi.task_self == nullptr) {
    why =
        "no ALPI runtime is loaded in this process: link the program with nOS-V, or build it "
        "with an OmpSs-2 compiler";
    return nullptr;
  }
  int major = 0;
  int minor = 0;
  if (alpi.version_get(&major, &minor) != kSuccess || major != kMajor ||
      alpi.version_check(kMajor, 0) != kSuccess) {
    why = "the loaded runtime has ALPI " + std::to_string(major) + "." + std::to_string(minor) +
          "; Ioweave knows 1.0 to 1.2: use a runtime of these, or go without (IOW_TASKS_NONE)";
    return nullptr;
  }
  auto host = std::make_unique<AlpiHost>(alpi, describe(alpi, major, minor));
  if (!host->can_pause() && !host->has_events()) {
    why = std::string(host->name()) + " can neither pause tasks nor count their events";
    return nullptr;
  }
  return host;
}

}  // namespace ioweave::tasking
