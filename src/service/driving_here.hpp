#pragma once

#include "tasking/counting_event.hpp"

namespace ioweave::service {

/// Marks, while it lives, that the calling thread hands over ends of requests which it does not
/// own: what an end sets off must neither pause there nor hand over more, and is in no task. Nests.
class DrivingHere {
 public:
  DrivingHere() noexcept;
  ~DrivingHere();
  DrivingHere(const DrivingHere&) = delete;
  DrivingHere& operator=(const DrivingHere&) = delete;

  /// Whether the calling thread is inside such a mark.
  [[nodiscard]] static bool any() noexcept;

 private:
  const bool before_;
  const tasking::CountingEvent::Hidden no_task_;
};

}  // namespace ioweave::service
