#pragma once

// The task series of a mode, as pure logic: which tasks there are, and what may run after what.
// A series is a chain of *stages*; a stage is a few equal tasks that may run in parallel, and the
// next one may start when all of them have ended. The series are independent of each other. One
// turn through the stages of a mode is a *cycle*.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace tiom {

enum class Mode : uint8_t { mix, one_to_one, fjio, fjc };

std::string_view mode_name(Mode mode);

struct Stage {
  bool compute;
  bool io;         ///< behind the computation where a task does both
  unsigned width;  ///< tasks in parallel
};

/// The stages of a cycle, in order.
std::span<const Stage> stages_of(Mode mode);

/// I/O and compute tasks of a cycle.
unsigned ios_per_cycle(Mode mode);
unsigned computes_per_cycle(Mode mode);
/// The widest I/O stage: how many transfers of a series may be in flight.
unsigned io_width(Mode mode);
/// The widest stage of either kind.
unsigned stage_width(Mode mode);

struct Task {
  uint64_t cycle;  ///< of its series
  uint32_t series;
  uint16_t stage;
  uint16_t slot;  ///< within its stage
};

/// How cycles are shared out: evenly, the first series get what is left over.
struct Shape {
  Mode mode;
  unsigned series;
  uint64_t cycles;  ///< of all series together

  [[nodiscard]] uint64_t cycles_of(unsigned one_series) const {
    return cycles / series + (one_series < cycles % series ? 1 : 0);
  }
  /// The number of a task's I/O, 0 .. cycles * ios_per_cycle - 1: neighbouring series do
  /// neighbouring blocks, so that together they walk through the file in order.
  [[nodiscard]] uint64_t io_number(const Task& task) const {
    return (task.cycle * series + task.series) * ios_per_cycle(mode) + task.slot;
  }
};

/// Which task may start now. Thread-safe: each task ends once, on any thread.
class SeriesSet {
 public:
  explicit SeriesSet(const Shape& shape)
      : shape_(shape),
        stages_(stages_of(shape.mode)),
        progress_(std::make_unique<Progress[]>(shape.series)) {
    for (unsigned s = 0; s < shape.series; ++s) live_ += shape.cycles_of(s) > 0 ? 1 : 0;
  }

  /// Releases the first tasks of every series. To be called once, before any task ends.
  template <typename Release>
  void start(Release&& release) {
    for (unsigned s = 0; s < shape_.series; ++s) {
      if (shape_.cycles_of(s) > 0) release_stage({0, s, 0, 0}, release);
    }
  }

  /// Releases what the end of `task` lets start; with `stop`, ends the series instead. True for
  /// the last task of all series. What the task did is visible to those released.
  template <typename Release>
  [[nodiscard]] bool ended(const Task& task, bool stop, Release&& release) {
    // acq_rel: the last of a stage sees what the others wrote before they counted down.
    if (progress_[task.series].left.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
    Task next{task.cycle, task.series, static_cast<uint16_t>(task.stage + 1), 0};
    if (next.stage == stages_.size()) {
      next.stage = 0;
      ++next.cycle;
    }
    if (stop || next.cycle == shape_.cycles_of(task.series)) {
      return live_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }
    release_stage(next, release);
    return false;
  }

  /// Nothing to do from the start.
  [[nodiscard]] bool empty() const { return shape_.cycles == 0; }

 private:
  // One cache line each: neighbouring series end on different cores.
  struct alignas(64) Progress {
    std::atomic<uint32_t> left{0};  ///< tasks of the running stage that have not ended
  };

  template <typename Release>
  void release_stage(Task task, Release&& release) {
    const unsigned width = stages_[task.stage].width;
    // relaxed: whoever counts down got its task through release(), which orders both.
    progress_[task.series].left.store(width, std::memory_order_relaxed);
    for (unsigned slot = 0; slot < width; ++slot) {
      task.slot = static_cast<uint16_t>(slot);
      release(task);
    }
  }

  const Shape shape_;
  const std::span<const Stage> stages_;
  const std::unique_ptr<Progress[]> progress_;
  std::atomic<unsigned> live_{0};
};

}  // namespace tiom
