#pragma once

// Which of several targets takes the next item. Pure logic; times are given in nanoseconds of any
// clock that never goes back.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ioweave::stream {

/// One thread at a time.
class Placement {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  Placement(size_t targets, bool by_load) : by_load_(by_load), targets_(targets) {}

  /// The target for an item of so many bytes; kNone if all have failed. In turn, or by load: the
  /// one that would have written it first, by the rate at which each wrote so far.
  [[nodiscard]] size_t choose(uint64_t bytes, uint64_t now_ns) const noexcept;
  /// A write begins, or ends, on the target.
  void start(size_t target, uint64_t bytes, uint64_t now_ns) noexcept;
  void end(size_t target, uint64_t bytes, bool is_written, uint64_t now_ns) noexcept;
  /// The target gets nothing any more.
  void fail(size_t target) noexcept;
  [[nodiscard]] size_t failed() const noexcept { return failed_; }

 private:
  struct Target {
    bool failed = false;
    uint64_t outstanding = 0;  ///< bytes being written
    uint64_t placed = 0;       ///< bytes, ever
    uint64_t written = 0;      ///< bytes within busy_ns
    uint64_t busy_ns = 0;      ///< while bytes were outstanding; older times count less
    uint64_t busy_since_ns = 0;

    [[nodiscard]] double busy_at(uint64_t now_ns) const noexcept;
    [[nodiscard]] double rate(double usual, uint64_t now_ns) const noexcept;
  };

  [[nodiscard]] double usual_rate(uint64_t now_ns) const noexcept;
  [[nodiscard]] size_t choose_by_load(uint64_t bytes, uint64_t now_ns) const noexcept;

  const bool by_load_;
  std::vector<Target> targets_;
  size_t next_ = 0;  ///< in turn
  size_t failed_ = 0;
};

}  // namespace ioweave::stream
