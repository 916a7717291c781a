#pragma once

// What the accesses of a rank to a file are like: the next ones may be foretold from the last ones.

#include <cstdint>

namespace ioweave::calls {

/// Elements of a file, or of what a view shows of it.
struct Access {
  int64_t offset = 0;
  int64_t count = 0;
  bool operator==(const Access&) const = default;
};

/// Knows sequences without gaps, forwards, and such at equal distances of accesses of one size,
/// forwards and backwards. Each is believed in after the third access of it.
class AccessPattern {
 public:
  void note(const Access& access) noexcept {
    const int64_t distance = access.offset - last_.offset;
    follows_ = has_last_ && access.offset == last_.offset + last_.count ? follows_ + 1 : 0;
    strides_ = has_last_ && distance != 0 && distance == distance_ && access.count == last_.count
                   ? strides_ + 1
                   : 0;
    distance_ = has_last_ ? distance : 0;
    last_ = access;
    has_last_ = true;
  }

  [[nodiscard]] bool is_regular() const noexcept { return follows_ >= 2 || strides_ >= 1; }

  /// The access that comes `steps` after the last one, 1 or more, of a regular pattern.
  [[nodiscard]] Access next(int64_t steps) const noexcept {
    const int64_t distance = strides_ >= 1 ? distance_ : last_.count;
    return {last_.offset + steps * distance, last_.count};
  }

  void forget() noexcept { *this = {}; }

 private:
  Access last_;
  int64_t distance_ = 0;  ///< between the last two
  int64_t follows_ = 0;   ///< accesses that began where the one before ended, the last ones
  int64_t strides_ = 0;   ///< distances that were as the one before, the last ones
  bool has_last_ = false;
};

}  // namespace ioweave::calls
