// The stored values of a metric: N.index says which call paths have a row, N.data holds the rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "anchor.hpp"
#include "archive.hpp"

namespace cube {

/// Rows of all metrics together: a bound for the memory of their indexes.
inline constexpr uint64_t kMaxRows = uint64_t{1} << 26;

/// Where the rows of a metric lie. All of it is checked: sizes fit each other and the archive.
/// Immutable; any thread may read.
class MetricRows {
 public:
  /// Returns nothing if the archive has no values of the metric, which means zeros. `row_limit`:
  /// most rows it may have. Throws CubeError.
  static std::optional<MetricRows> locate(const Archive& archive, const Metric& metric,
                                          const CallTree& calls, uint64_t locations,
                                          uint64_t row_limit);

  /// The call paths of the rows, in the order of the rows; each once.
  [[nodiscard]] const std::vector<uint32_t>& paths() const { return paths_; }
  [[nodiscard]] size_t value_bytes() const { return value_bytes_; }
  [[nodiscard]] size_t row_bytes() const { return row_bytes_; }
  /// True if values are of the other byte order than this machine's.
  [[nodiscard]] bool is_swapped() const { return swapped_; }

  /// Fills `into`, of row_bytes(), with a row as it is stored. `buffer` is memory for compressed
  /// data. Throws CubeError.
  void read_row(size_t row, std::span<std::byte> into, std::vector<std::byte>& buffer) const;

 private:
  struct Chunk {
    uint64_t offset = 0;  // in the member
    uint64_t bytes = 0;   // 0: no row, so zeros
  };

  MetricRows(const Archive& archive, const Metric& metric, const Member& data)
      : archive_(&archive), metric_(&metric), data_(&data) {}
  void read_index(const Member& index, const CallTree& calls, uint64_t row_limit);
  void read_paths(const Member& index, const CallTree& calls, uint64_t row_limit);
  void read_layout(uint64_t locations);
  void read_plain_layout(uint64_t locations, bool size_by_data);
  void read_chunks();

  const Archive* archive_;
  const Metric* metric_;
  const Member* data_;
  std::vector<uint32_t> paths_;
  std::vector<Chunk> chunks_;  // of compressed data, one for each row
  size_t value_bytes_ = 0;
  size_t row_bytes_ = 0;
  bool swapped_ = false;
};

/// The content of an index: marker, header and the numbers of the rows. `swapped`: of the other
/// byte order.
std::vector<std::byte> make_index(std::span<const uint32_t> numbers, bool swapped);

inline constexpr std::string_view kDataMarker = "CUBEX.DATA";

}  // namespace cube
