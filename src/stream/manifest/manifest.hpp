#pragma once

// A manifest says where the items of a spread lie. It is text, one JSON value a line:
//
//   {"ioweave_manifest":1,"page":4096,"targets":["result.0","/fast/result.1"]}
//   [0,0,0,1048576,1000]           item, target, offset, bytes, count
//   [1000,0,524288000,700]         the same of one item
//   [1001,null,null,1048576]       an item that could not be written
//   {"items":1002,"bytes":1048576700,"lost":1}
//
// A line with a count stands for so many items of the same size. They lie on the targets in turn,
// from the one named on; each time all targets have had one, the offset grows by the size, rounded
// up to whole pages. Items come in order, from 0. Paths of targets are relative to the folder of
// the manifest, without "..", or absolute. `bytes` at the end counts the items that were written.

#include <cstdint>

namespace ioweave::stream {

inline constexpr uint64_t kManifestVersion = 1;
inline constexpr uint64_t kMostTargets = 1024;

/// Where one item lies.
struct ManifestItem {
  static constexpr uint32_t kLost = UINT32_MAX;
  uint64_t number = 0;
  uint32_t target = 0;  ///< kLost: it was not written, and offset means nothing
  int64_t offset = 0;
  uint64_t bytes = 0;

  bool operator==(const ManifestItem&) const = default;
};

[[nodiscard]] constexpr uint64_t round_up(uint64_t bytes, uint64_t page) noexcept {
  return (bytes + page - 1) / page * page;
}

}  // namespace ioweave::stream
