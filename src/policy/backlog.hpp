#pragma once

#include <cstdint>

namespace ioweave::policy {

/// Operations that wait, and since when there has been one all the time. A gap of no time is none.
class Backlog {
 public:
  void add(uint64_t now_ns) noexcept {
    if (count_++ == 0 && now_ns > emptied_ns_) {
      since_ns_ = now_ns;
    }
  }
  void remove(uint64_t now_ns) noexcept {
    if (--count_ == 0) {
      emptied_ns_ = now_ns;
    }
  }
  [[nodiscard]] bool waits_since(uint64_t begin_ns) const noexcept {
    return count_ > 0 && since_ns_ <= begin_ns;
  }

 private:
  uint64_t count_ = 0;
  uint64_t since_ns_ = 0;
  uint64_t emptied_ns_ = 0;
};

}  // namespace ioweave::policy
