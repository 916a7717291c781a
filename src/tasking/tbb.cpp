// oneTBB, through the four entry points of its run-time library that its own headers call for
// task::suspend() and task::resume(). Their names belong to the binary interface of libtbb.so.12,
// which has not changed since 2021. They are looked up in the libraries that the process has
// loaded.
//
// While a task is suspended, its thread runs other tasks on another stack. The task may continue on
// another thread, so it must hold no lock and nothing thread-local across the call. The transfer is
// started inside the callback, which TBB calls when the task's stack is at rest. So even a transfer
// that ends at once finds a task that can be resumed.

#include <type_traits>

#include <dlfcn.h>

#include "tasking/task_host.hpp"

namespace ioweave::tasking {
namespace {

using SuspendPoint = void*;
using SuspendCallback = void (*)(void* user, SuspendPoint point);

struct Entries {
  uint16_t (*execution_slot)(const void* null_for_this_thread) = nullptr;
  void* (*current_context)() = nullptr;
  void (*suspend)(SuspendCallback, void* user) = nullptr;
  void (*resume)(SuspendPoint) = nullptr;
};

/// As tbb::task_arena::not_initialized, in the width of a slot.
constexpr uint16_t kNoSlot = 0xffff;

class TbbHost final : public TaskHost {
 public:
  explicit TbbHost(const Entries& tbb) noexcept : tbb_(tbb) {}

  [[nodiscard]] const char* name() const noexcept override { return "oneTBB"; }

  [[nodiscard]] Task current() noexcept override {
    // The slot first: asking for the context would make the thread one of TBB's.
    return tbb_.execution_slot(nullptr) == kNoSlot ? nullptr : tbb_.current_context();
  }

  [[nodiscard]] bool can_pause() const noexcept override { return true; }
  /// An arena counts its references, which include suspended tasks, in 12 bits.
  [[nodiscard]] uint32_t most_paused() const noexcept override { return 2048; }

  [[nodiscard]] bool keeps_thread() const noexcept override { return false; }
  void pause(TaskPause& pause) noexcept override {
    tbb_.suspend(
        [](void* user, SuspendPoint point) {
          auto& waiting = *static_cast<TaskPause*>(user);
          static_cast<void>(waiting.sleep_as(point));  // true, since nothing has started yet
          waiting.start();
        },
        &pause);
  }

  void resume(Task task) noexcept override { tbb_.resume(task); }

  // The tasks of TBB have no dependencies to be released; see ioweave/tbb.hpp.
  [[nodiscard]] bool has_events() const noexcept override { return false; }
  [[nodiscard]] bool hold(Task) noexcept override { return false; }
  void release(Task) noexcept override {}

 private:
  const Entries tbb_;
};

}  // namespace

std::unique_ptr<TaskHost> open_tbb(std::string& why) {
  // By name, because a library may be loaded with local symbols (a plugin, a Python module).
  void* const library = ::dlopen("libtbb.so.12", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    why = "oneTBB is not loaded in this process (libtbb.so.12): link the program with it";
    return nullptr;
  }
  Entries tbb;
  const auto find = [&](auto& entry, const char* symbol) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(::dlsym(library, symbol));
    if (entry == nullptr && why.empty()) {
      why = std::string("this oneTBB cannot suspend tasks (it lacks ") + symbol +
            "): install oneTBB 2021 or newer";
    }
  };
  find(tbb.execution_slot, "_ZN3tbb6detail2r114execution_slotEPKNS0_2d114execution_dataE");
  find(tbb.current_context, "_ZN3tbb6detail2r115current_contextEv");
  find(tbb.suspend, "_ZN3tbb6detail2r17suspendEPFvPvPNS1_18suspend_point_typeEES2_");
  find(tbb.resume, "_ZN3tbb6detail2r16resumeEPNS1_18suspend_point_typeE");
  if (!why.empty()) {
    ::dlclose(library);
    return nullptr;
  }
  return std::make_unique<TbbHost>(tbb);  // the library stays loaded: never closed again
}

}  // namespace ioweave::tasking
