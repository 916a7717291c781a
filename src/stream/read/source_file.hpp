#pragma once

// A file that a stream reads: its descriptors, with and without the page cache.

#include <atomic>
#include <cstdint>
#include <string>

#include "base/descriptor.hpp"
#include "ioweave/streams.h"

namespace ioweave::stream {

class SourceFile {
 public:
  /// 0, or -errno with a sentence in `why`. `folder`, if not null, is the beginning of the path: no
  /// link may lead out of it. Once.
  [[nodiscard]] int open(const std::string& path, iow_write_path way, std::string& why,
                         const std::string* folder = nullptr);

  /// Goes through the page cache.
  [[nodiscard]] int cached_fd() const noexcept { return cached_.get(); }
  /// Goes past it; -1: not possible here.
  [[nodiscard]] int direct_fd() const noexcept {
    return may_go_direct_.load(std::memory_order_relaxed) ? direct_.get() : -1;
  }
  /// A direct read was refused. From any thread.
  void refuse_direct() noexcept { may_go_direct_.store(false, std::memory_order_relaxed); }
  [[nodiscard]] bool is_on_fuse() const noexcept { return is_on_fuse_; }
  /// When it was opened.
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }

 private:
  Descriptor cached_;
  Descriptor direct_;
  std::atomic<bool> may_go_direct_{true};
  bool is_on_fuse_ = false;
  uint64_t bytes_ = 0;
};

}  // namespace ioweave::stream
