// The tree of call paths. Paths are numbered as they stand in anchor.xml: a path, then all below
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cube {

inline constexpr size_t kMaxCallPaths = size_t{1} << 22;
inline constexpr size_t kMaxDepth = 4096;

/// The two orders in which the rows of a metric may be numbered in its index.
enum class Enumeration {
  kDeep,  // of exclusive metrics: a path, then all below it, which is our own order
  kWide   // of inclusive metrics: a path's children stand together
};

/// Built once, then immutable; any thread may read.
class CallTree {
 public:
  /// Begins a path below the one that is open. Returns false where a limit is exceeded.
  [[nodiscard]] bool open();
  void close();
  /// Numbers the paths; nothing is added afterwards.
  void finish();

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(ends_.size()); }
  /// The first path that is not below `path`. So children are path + 1, end(path + 1), ...
  [[nodiscard]] uint32_t end(uint32_t path) const { return ends_[path]; }
  /// 0 for a root.
  [[nodiscard]] uint32_t depth(uint32_t path) const { return depths_[path]; }
  [[nodiscard]] uint32_t deepest() const { return deepest_; }

  [[nodiscard]] uint32_t path_of(Enumeration order, uint32_t number) const {
    return order == Enumeration::kDeep ? number : path_of_wide_[number];
  }
  [[nodiscard]] uint32_t number_of(Enumeration order, uint32_t path) const {
    return order == Enumeration::kDeep ? path : wide_of_path_[path];
  }

  /// Calls act(child) for each direct child.
  template <typename Act>
  void for_children(uint32_t path, Act act) const {
    for (uint32_t child = path + 1; child < end(path); child = end(child)) act(child);
  }

 private:
  std::vector<uint32_t> ends_;
  std::vector<uint32_t> depths_;
  std::vector<uint32_t> open_;
  std::vector<uint32_t> path_of_wide_;
  std::vector<uint32_t> wide_of_path_;
  uint32_t deepest_ = 0;
};

}  // namespace cube
