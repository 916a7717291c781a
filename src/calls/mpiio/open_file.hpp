#pragma once

// A file that the program has opened: what it reads, and what it will read next.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "calls/mpiio/access_pattern.hpp"
#include "calls/mpiio/file_view.hpp"
#include "calls/mpiio/left_alone.hpp"
#include "stream/plan/file_state.hpp"
#include "stream/plan/plan.hpp"

namespace ioweave::calls {

/// A file by its name, and which one that was.
struct NamedFile {
  std::string path;
  FileId id;
};

/// Opens the file to read, if its name still is that of this one; otherwise there is no descriptor.
[[nodiscard]] Descriptor open_known(const NamedFile& file) noexcept;

/// Who has the plan of the process.
class PlanKeeper {
 public:
  /// Opens it at the first call. Null where there can be none.
  [[nodiscard]] virtual stream::Plan* open_plan() noexcept = 0;
  /// A descriptor to read the file by; none if it is another one by now, or there are too many.
  [[nodiscard]] virtual Descriptor open_file(const NamedFile& file) noexcept = 0;
  /// One that open_file() gave was closed.
  virtual void note_closed() noexcept = 0;
  /// Something is left to MPI alone.
  virtual void leave_alone(LeftAlone why) noexcept = 0;

 protected:
  ~PlanKeeper() = default;
};

/// Thread-safe. Foretells nothing until a read was slow, unless it is eager: what is in the page
/// cache need not be read ahead.
class OpenFile {
 public:
  /// `most_ahead`: the most bytes that are foretold at a time.
  OpenFile(NamedFile name, PlanKeeper& keeper, int64_t most_ahead, bool is_eager) noexcept;
  ~OpenFile();

  /// Forgets what was foretold, too.
  void set_view(FileView view) noexcept;

  /// The program is about to read so many bytes of the view, from its element `offset` on; waits
  /// for what is under way of them, if it `waits`. Returns whether all of it has been read ahead.
  [[nodiscard]] bool begin_read(int64_t offset, uint64_t bytes, bool waits) noexcept;
  /// It has read so many bytes, by itself.
  void note_time(uint64_t bytes, uint64_t passed_ns) noexcept;
  /// Where a write of so many bytes of the view goes, if to bytes behind each other.
  [[nodiscard]] std::optional<FileRange> find_written(int64_t offset, uint64_t bytes) noexcept;
  /// The program plans a read; from now on nothing is foretold. Returns 0 or -errno.
  [[nodiscard]] int add_planned(int64_t offset, uint64_t bytes) noexcept;
  /// The file is about to change its size, and its view may stay.
  void forget() noexcept;

 private:
  enum class Ahead : uint8_t {
    nothing,
    sequence,  ///< bytes behind each other, in units
    steps,     ///< accesses of a pattern, one by one
    planned,   ///< by the program
  };
  using Ranges = std::vector<FileRange>;

  // Under the lock.
  [[nodiscard]] Access access_of(int64_t offset, uint64_t bytes) const noexcept;
  [[nodiscard]] bool find_ranges(const Access& access, Ranges& ranges);
  void follow(const Access& access, Ranges& awaited);
  void follow_sequence(const FileRange& range, Ranges& awaited);
  [[nodiscard]] bool open_ahead() noexcept;
  void begin_ahead(const Access& access);
  void plan_sequence();
  void plan_steps();
  void drop_ahead() noexcept;
  void lengthen_reach(int64_t bytes) noexcept;
  [[nodiscard]] bool is_inside(int64_t offset) noexcept;
  [[nodiscard]] bool add(const Ranges& ranges) noexcept;

  const NamedFile name_;
  PlanKeeper& keeper_;
  const int64_t most_ahead_;
  const bool is_eager_;
  std::atomic<bool> was_slow_{false};  ///< one of the program's last reads

  std::mutex lock_;
  stream::Plan* plan_ = nullptr;  ///< null until something is to be read ahead
  Descriptor fd_;                 ///< the library's own, with the plan
  FileView view_;
  AccessPattern pattern_;
  int64_t bytes_ = 0;  ///< the file's size, as last seen
  Ahead ahead_ = Ahead::nothing;
  int64_t reach_ = 0;    ///< units or steps that are foretold at a time
  int64_t planned_ = 0;  ///< steps: how many behind the last access are planned
  int64_t unit_ = 0;     ///< bytes that are foretold at a time, of a sequence
  int64_t end_ = 0;      ///< of the last access of it, in the file
  int64_t awaited_end_ = 0;
  int64_t planned_end_ = 0;
};

}  // namespace ioweave::calls
