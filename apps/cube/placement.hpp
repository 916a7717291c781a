// Which processors compute and which one does I/O (--pin), within what the process may use.
#pragma once

#include <string>
#include <vector>

#include <sched.h>

namespace cube {

struct Placement {
  std::vector<int> computing;
  std::vector<int> io;  // empty: there is none to spare
};

/// The last processor of the affinity mask does I/O, the others compute. With one processor there
/// is nothing to divide.
Placement choose_placement();

/// Keeps the calling thread, and threads that it starts, on some processors while it lives. Of one
/// thread.
class OnProcessors {
 public:
  /// Does nothing if there are none.
  explicit OnProcessors(const std::vector<int>& processors);
  OnProcessors(const OnProcessors&) = delete;
  OnProcessors& operator=(const OnProcessors&) = delete;
  ~OnProcessors();

 private:
  bool changed_ = false;
  cpu_set_t before_{};
};

}  // namespace cube
