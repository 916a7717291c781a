#pragma once

// What a read stream reads: items in their order, and the files that they lie in.

#include <cstdint>
#include <string>
#include <vector>

#include "stream/manifest/manifest.hpp"

namespace ioweave::stream {

struct ItemTotals {
  uint64_t items = 0;
  uint64_t lost = 0;
  uint64_t bytes = 0;    ///< of those that are not lost
  uint64_t largest = 0;  ///< bytes of an item that is not lost
};

/// One thread at a time.
class ItemSource {
 public:
  ItemSource() = default;
  virtual ~ItemSource() = default;
  ItemSource(const ItemSource&) = delete;
  ItemSource& operator=(const ItemSource&) = delete;

  [[nodiscard]] virtual const ItemTotals& totals() const noexcept = 0;
  /// Paths of the targets that items name.
  [[nodiscard]] virtual const std::vector<std::string>& targets() const noexcept = 0;
  /// The next item: 1, 0 behind the last one, or -errno with a sentence in `why`; then nothing
  /// follows. May throw std::bad_alloc.
  [[nodiscard]] virtual int next(ManifestItem& item, std::string& why) = 0;
};

}  // namespace ioweave::stream
