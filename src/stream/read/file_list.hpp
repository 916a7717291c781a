#pragma once

// Plain files as the items of a read stream.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "stream/manifest/item_source.hpp"

namespace ioweave::stream {

class FileList final : public ItemSource {
 public:
  /// Each with its size in bytes.
  FileList(std::vector<std::string> paths, std::vector<uint64_t> sizes)
      : paths_(std::move(paths)), sizes_(std::move(sizes)) {
    totals_.items = sizes_.size();
    for (const uint64_t bytes : sizes_) {
      totals_.bytes += bytes;
      totals_.largest = std::max(totals_.largest, bytes);
    }
  }

  [[nodiscard]] const ItemTotals& totals() const noexcept override { return totals_; }
  [[nodiscard]] const std::vector<std::string>& targets() const noexcept override { return paths_; }
  [[nodiscard]] int next(ManifestItem& item, std::string& /*why*/) override {
    if (next_ == sizes_.size()) {
      return 0;
    }
    item = {next_, static_cast<uint32_t>(next_), 0, sizes_[next_]};
    ++next_;
    return 1;
  }

 private:
  const std::vector<std::string> paths_;
  const std::vector<uint64_t> sizes_;
  ItemTotals totals_;
  size_t next_ = 0;
};

}  // namespace ioweave::stream
