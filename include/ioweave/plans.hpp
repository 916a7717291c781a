// Plans of reads to come, for C++20: RAII over the C interface of plans.h, which holds the
// contracts, and the pre-execution of a loop.
//
//   ioweave::Plan plan(service);
//   for (const Block& block : blocks) {
//     plan.add(fd, block.offset, block.bytes);
//   }
//   for (const Block& block : blocks) {
//     plan.read(fd, buffer.first(block.bytes), block.offset);
//     compute(buffer);
//   }
//
// Where the reads to come are known by the loop alone, the loop itself is run ahead of itself:
//
//   ioweave::pre_execute(plan, [&](ioweave::LoopIo& io) {
//     for (int i = 0; i < n; ++i) {
//       io.read(fd, buffer, where(i));
//       io.compute([&] { encrypt(buffer); });      // left out when the loop runs ahead
//       io.write(out, buffer, where(i));
//     }
//   });
//
// Errors are std::system_error, thrown on the calling thread only.
#ifndef IOWEAVE_PLANS_HPP
#define IOWEAVE_PLANS_HPP

#include <cerrno>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "ioweave/ioweave.hpp"
#include "ioweave/plans.h"

namespace ioweave {

/// Bytes of a file in memory of a plan's. Movable; it must end before the plan.
class PlanLease {
 public:
  PlanLease() = default;
  PlanLease(iow_plan* plan, const iow_plan_lease& raw) noexcept : plan_(plan), raw_(raw) {}
  ~PlanLease() {
    if (plan_ != nullptr) {
      iow_plan_lease_end(plan_, &raw_);
    }
  }
  PlanLease(PlanLease&& other) noexcept
      : plan_(std::exchange(other.plan_, nullptr)), raw_(std::exchange(other.raw_, {})) {}
  PlanLease& operator=(PlanLease&& other) noexcept {
    std::swap(plan_, other.plan_);
    std::swap(raw_, other.raw_);
    return *this;
  }
  PlanLease(const PlanLease&) = delete;
  PlanLease& operator=(const PlanLease&) = delete;

  /// The caller may change them.
  [[nodiscard]] std::span<std::byte> data() const noexcept {
    return {static_cast<std::byte*>(raw_.data), raw_.bytes};
  }

 private:
  iow_plan* plan_ = nullptr;
  iow_plan_lease raw_{};
};

/// Reads to come, carried out ahead of the program. Thread-safe but for construction, moving and
/// destruction. The service must outlive it.
class Plan {
 public:
  /// Throws std::system_error whose text names the option at fault.
  explicit Plan(Service& service, const iow_plan_options& options = {}) {
    iow_plan* opened = nullptr;
    char* text = nullptr;
    const int error = iow_plan_open(service.raw(), &opened, &options, &text);
    const std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
    plan_.reset(opened);
    check(error, text != nullptr ? text : "iow_plan_open");
  }

  void add(int fd, off_t offset, uint64_t bytes) {
    check(iow_plan_add(raw(), fd, offset, bytes), "iow_plan_add");
  }
  /// `count` reads that begin `stride` bytes apart.
  void add_strided(int fd, off_t offset, uint64_t bytes, int64_t stride, uint64_t count) {
    check(iow_plan_add_strided(raw(), fd, offset, bytes, stride, count), "iow_plan_add_strided");
  }
  /// The bytes from `offset` to `end`, piece by piece.
  void add_sequential(int fd, off_t offset, off_t end, uint64_t piece_bytes) {
    const auto bytes = static_cast<uint64_t>(end - offset);
    add_strided(fd, offset, piece_bytes, static_cast<int64_t>(piece_bytes),
                (bytes + piece_bytes - 1) / piece_bytes);
  }
  /// Adds the reads that `next` names, until it returns false. It is called as late as possible, by
  /// later calls of the plan, and lives as long as the plan. An exception ends it.
  template <std::predicate<iow_planned_read&> Next>
  void generate(Next next) {
    auto* const kept = generators_.emplace_back(new Generator<Next>(std::move(next))).get();
    const iow_plan_next call = [](iow_planned_read* read, void* user) {
      return static_cast<GeneratorBase*>(user)->call(*read) ? 1 : 0;
    };
    check(iow_plan_generate(raw(), call, kept), "iow_plan_generate");
  }

  /// Returns how many bytes were read: fewer than asked at the end of the file.
  size_t read(int fd, std::span<std::byte> buffer, off_t offset) {
    return static_cast<size_t>(
        check(iow_plan_read(raw(), fd, buffer.data(), buffer.size(), offset), "iow_plan_read"));
  }
  /// As read(), without a copy where these very bytes were planned as one read.
  [[nodiscard]] PlanLease lease(int fd, size_t bytes, off_t offset) {
    iow_plan_lease lease{};
    check(iow_plan_lease_read(raw(), &lease, fd, bytes, offset), "iow_plan_lease_read");
    return {raw(), lease};
  }
  size_t write(int fd, std::span<const std::byte> buffer, off_t offset) {
    return static_cast<size_t>(
        check(iow_plan_write(raw(), fd, buffer.data(), buffer.size(), offset), "iow_plan_write"));
  }
  /// `bytes` of 0: up to the end of the file.
  void invalidate(int fd, off_t offset, uint64_t bytes = 0) {
    check(iow_plan_invalidate(raw(), fd, offset, bytes), "iow_plan_invalidate");
  }
  /// Before close(2).
  void forget(int fd) { check(iow_plan_forget(raw(), fd), "iow_plan_forget"); }

  [[nodiscard]] iow_plan_stats stats() const {
    iow_plan_stats stats{};
    stats.size = sizeof stats;
    check(iow_plan_get_stats(plan_.get(), &stats), "iow_plan_get_stats");
    return stats;
  }
  [[nodiscard]] iow_plan* raw() const noexcept { return plan_.get(); }

 private:
  struct GeneratorBase {
    virtual ~GeneratorBase() = default;
    virtual bool call(iow_planned_read& read) noexcept = 0;
  };
  template <typename Next>
  struct Generator final : GeneratorBase {
    explicit Generator(Next given) : next(std::move(given)) {}
    bool call(iow_planned_read& read) noexcept override {
      try {
        return next(read);
      } catch (...) {
        return false;
      }
    }
    Next next;
  };
  struct Closer {
    void operator()(iow_plan* plan) const noexcept { iow_plan_close(plan); }
  };
  std::vector<std::unique_ptr<GeneratorBase>> generators_;  // before the plan that calls them
  std::unique_ptr<iow_plan, Closer> plan_;
};

/// What became of a loop that was run ahead of itself.
struct PreExecution {
  uint64_t planned_reads = 0;  ///< that the loop ahead has named, too late ones included
  uint64_t waits = 0;          ///< of the loop ahead, for a write that it would have read
  std::string stopped;         ///< why the loop ahead ended early; empty: it came to its end
};

/// What a loop that is run ahead does when it would read bytes that the loop itself has not written
/// yet.
enum class ReadAfterWrite : uint8_t {
  wait,  ///< it goes on when they are written
  stop   ///< it ends, and PreExecution::stopped names the bytes
};

struct PreExecutionOptions {
  uint64_t most_ahead = 4096;  ///< reads that the loop ahead may be in advance of the loop
  ReadAfterWrite read_after_write = ReadAfterWrite::wait;
};

namespace detail {

/// What a loop and the one ahead of it tell each other. Thread-safe.
class PreExecutionState {
 public:
  PreExecutionState(Plan& plan, const PreExecutionOptions& options)
      : plan_(plan), options_(options) {}

  /// Thrown in the loop ahead, to end it.
  struct Stopped {
    std::string why;
  };

  void plan_read(int fd, uint64_t bytes, off_t offset) {
    wait_for_writes(fd, bytes, offset);
    std::unique_lock guard(lock_);
    wait(guard, [&] { return ahead_.planned_reads < done_reads_ + options_.most_ahead; });
    ++ahead_.planned_reads;
    // Under the lock: the loop does not begin this read meanwhile. What it has begun comes too late
    // for a plan.
    if (bytes != 0 && ahead_.planned_reads > begun_reads_) {
      plan_.add(fd, offset, bytes);
    }
  }
  size_t read_now(int fd, std::span<std::byte> buffer, off_t offset) {
    wait_for_writes(fd, buffer.size(), offset);
    return plan_.read(fd, buffer, offset);
  }
  void note_write_to_come(int fd, uint64_t bytes, off_t offset) {
    const File file = file_of(fd);
    const std::lock_guard guard(lock_);
    writes_.push_back({file, offset, offset + static_cast<off_t>(bytes), ++named_writes_});
  }

  // Of the loop itself.
  void begin_read() {
    const std::lock_guard guard(lock_);
    ++begun_reads_;
  }
  void count_read() { advance(done_reads_); }
  void count_write() { advance(done_writes_); }

  void end_loop() {
    const std::lock_guard guard(lock_);
    is_over_ = true;
    changed_.notify_all();
  }
  void stop_ahead(std::string why) {
    const std::lock_guard guard(lock_);
    ahead_.stopped = std::move(why);
  }
  [[nodiscard]] PreExecution result() {
    const std::lock_guard guard(lock_);
    return ahead_;
  }
  [[nodiscard]] Plan& plan() noexcept { return plan_; }

 private:
  using File = std::pair<dev_t, ino_t>;
  struct Write {
    File file;
    off_t begin;
    off_t end;
    uint64_t number;
  };

  static File file_of(int fd) {
    struct stat status {};
    check(fstat(fd, &status) == 0 ? 0 : -errno, "fstat");
    return {status.st_dev, status.st_ino};
  }
  void advance(uint64_t& count) {
    const std::lock_guard guard(lock_);
    ++count;
    if (is_waiting_) {
      changed_.notify_all();
    }
  }
  template <typename Condition>
  void wait(std::unique_lock<std::mutex>& guard, const Condition& condition) {
    is_waiting_ = true;
    changed_.wait(guard, [&] { return is_over_ || condition(); });
    is_waiting_ = false;
    if (is_over_) {
      throw Stopped{};
    }
  }
  /// Of the loop ahead: bytes that are to be read must be those that the loop will find.
  void wait_for_writes(int fd, uint64_t bytes, off_t offset) {
    if (named_writes_ == 0) {
      return;  // only this thread names any
    }
    const File file = file_of(fd);
    std::unique_lock guard(lock_);
    uint64_t number = 0;
    while (!writes_.empty() && writes_.front().number <= done_writes_) {
      writes_.pop_front();
    }
    for (const Write& write : writes_) {
      if (write.file == file && write.begin < offset + static_cast<off_t>(bytes) &&
          offset < write.end) {
        number = write.number;
      }
    }
    if (number <= done_writes_) {
      return;
    }
    if (options_.read_after_write == ReadAfterWrite::stop) {
      throw Stopped{"read " + std::to_string(ahead_.planned_reads) + " wants bytes at offset " +
                    std::to_string(offset) + " that write " + std::to_string(number - 1) +
                    " has not written yet"};
    }
    ++ahead_.waits;
    wait(guard, [&] { return done_writes_ >= number; });
  }

  Plan& plan_;
  const PreExecutionOptions options_;
  std::mutex lock_;
  std::condition_variable changed_;
  bool is_waiting_ = false;
  bool is_over_ = false;
  uint64_t begun_reads_ = 0;
  uint64_t done_reads_ = 0;
  uint64_t done_writes_ = 0;
  uint64_t named_writes_ = 0;
  std::deque<Write> writes_;  ///< that the loop ahead has come by and the loop has not made
  PreExecution ahead_;
};

}  // namespace detail

/// By this a loop reads, computes and writes, so that it can be run ahead of itself.
class LoopIo {
 public:
  LoopIo(detail::PreExecutionState& state, bool is_ahead) noexcept
      : state_(state), is_ahead_(is_ahead) {}
  LoopIo(const LoopIo&) = delete;
  LoopIo& operator=(const LoopIo&) = delete;

  /// Whether this is the loop ahead, which leaves everything out but the choice of what is read.
  [[nodiscard]] bool is_ahead() const noexcept { return is_ahead_; }

  /// Reads; the loop ahead plans the read instead, leaves the buffer alone and returns its size.
  size_t read(int fd, std::span<std::byte> buffer, off_t offset) {
    if (is_ahead_) {
      state_.plan_read(fd, buffer.size(), offset);
      return buffer.size();
    }
    state_.begin_read();
    const size_t bytes = state_.plan().read(fd, buffer, offset);
    state_.count_read();
    return bytes;
  }
  /// Reads without a copy, as Plan::lease(); the loop ahead plans the read, and has an empty lease.
  [[nodiscard]] PlanLease lease(int fd, size_t bytes, off_t offset) {
    if (is_ahead_) {
      state_.plan_read(fd, bytes, offset);
      return {};
    }
    state_.begin_read();
    PlanLease found = state_.plan().lease(fd, bytes, offset);
    state_.count_read();
    return found;
  }
  /// Reads in the loop ahead, too: bytes that say what is to be read next, such as an index.
  size_t read_now(int fd, std::span<std::byte> buffer, off_t offset) {
    return is_ahead_ ? state_.read_now(fd, buffer, offset) : state_.plan().read(fd, buffer, offset);
  }
  /// Writes; the loop ahead does not.
  size_t write(int fd, std::span<const std::byte> buffer, off_t offset) {
    if (is_ahead_) {
      state_.note_write_to_come(fd, buffer.size(), offset);
      return buffer.size();
    }
    const size_t bytes = state_.plan().write(fd, buffer, offset);
    state_.count_write();
    return bytes;
  }
  /// Calls `work`; the loop ahead does not.
  template <std::invocable Work>
  void compute(Work&& work) {
    if (!is_ahead_) {
      std::forward<Work>(work)();
    }
  }

 private:
  detail::PreExecutionState& state_;
  const bool is_ahead_;
};

/// Runs a loop, and the same loop ahead of it on a thread of its own, where computation is left out
/// and reads become entries of the plan (pre-execution: Chen et al., "Hiding I/O latency with
/// pre-execution prefetching for parallel applications", SC 2008).
///
/// Both run at the same time, so what the loop changes must be its own, or be changed inside
/// LoopIo::compute() only. Reads and writes of other ways than LoopIo are made twice. Where the
/// loop ahead throws an exception it ends, and the loop goes on with what is planned; an exception
/// of the loop ends both. Throws what the loop throws.
template <std::invocable<LoopIo&> Loop>
PreExecution pre_execute(Plan& plan, Loop&& loop, const PreExecutionOptions& options = {}) {
  detail::PreExecutionState state(plan, options);
  std::thread ahead([&] {
    try {
      LoopIo io(state, true);
      loop(io);
    } catch (const detail::PreExecutionState::Stopped& stopped) {
      state.stop_ahead(stopped.why);
    } catch (const std::exception& error) {
      state.stop_ahead(error.what());
    } catch (...) {
      state.stop_ahead("an exception of an unknown type");
    }
  });
  struct Joined {
    ~Joined() {
      state.end_loop();
      ahead.join();
    }
    detail::PreExecutionState& state;
    std::thread& ahead;
  };
  {
    const Joined joined{state, ahead};
    LoopIo io(state, false);
    loop(io);
  }
  return state.result();
}

}  // namespace ioweave

#endif  // IOWEAVE_PLANS_HPP
