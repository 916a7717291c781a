#pragma once

// What a process of the run asks for by calls/preload/release.hpp: that the files which the command
// has open be closed, because one of them is in the way of a call.

#include <cstddef>
#include <string>

#include "base/descriptor.hpp"

namespace ioweave::stream {

/// One thread.
class ReleaseRequests {
 public:
  /// Makes the FIFOs in the run's directory; with an empty one, or where they cannot be made,
  /// nobody will ask.
  explicit ReleaseRequests(const std::string& run_directory);

  /// Readable where somebody asks; -1: nobody will.
  [[nodiscard]] int fd() const noexcept { return requests_.get(); }

  /// How many have asked since the last time.
  [[nodiscard]] size_t take() const noexcept;
  /// Tells `asked` processes that nothing is open any more, and whether something was
  /// a moment ago.
  void answer(size_t asked, bool had_open) const noexcept;

 private:
  std::string answers_;  // path
  Descriptor requests_;
};

}  // namespace ioweave::stream
