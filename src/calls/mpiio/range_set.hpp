#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "calls/mpiio/file_view.hpp"

namespace ioweave::calls {

/// Ranges of a file that do not overlap; those that touch are one.
class RangeSet {
 public:
  /// False, and nothing is added, if it overlaps one that is there. May throw std::bad_alloc.
  [[nodiscard]] bool add(const FileRange& range) {
    const int64_t begin = range.offset;
    const int64_t end = begin + range.bytes;
    const auto behind = ends_.lower_bound(begin);  // the first that begins here or later
    const auto before = behind != ends_.begin() ? std::prev(behind) : ends_.end();
    if ((behind != ends_.end() && behind->first < end) ||
        (before != ends_.end() && before->second > begin)) {
      return false;
    }
    const bool touches_before = before != ends_.end() && before->second == begin;
    const bool touches_behind = behind != ends_.end() && behind->first == end;
    const int64_t last = touches_behind ? behind->second : end;
    if (touches_before) {
      before->second = last;
    } else {
      ends_.emplace(begin, last);
    }
    if (touches_behind) {
      ends_.erase(behind);
    }
    return true;
  }
  void clear() noexcept { ends_.clear(); }
  [[nodiscard]] size_t size() const noexcept { return ends_.size(); }

 private:
  std::map<int64_t, int64_t> ends_;  ///< by beginning
};

}  // namespace ioweave::calls
