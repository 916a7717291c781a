#pragma once

#include <cstdint>

namespace ioweave::stream {

struct FileRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  [[nodiscard]] uint64_t end() const noexcept { return offset + bytes; }
  bool operator==(const FileRange&) const = default;
};

}  // namespace ioweave::stream
