// The system part of a profile: nodes, processes (groups of locations) and threads (locations).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cube {

inline constexpr size_t kMaxLocations = size_t{1} << 22;

/// Takes text piece by piece.
class TextSink {
 public:
  TextSink() = default;
  TextSink(const TextSink&) = delete;
  TextSink& operator=(const TextSink&) = delete;
  virtual ~TextSink() = default;
  virtual void put(std::string_view text) = 0;
};

/// Read once, then immutable; any thread may read.
struct SystemTree {
  struct Node {
    std::string name;
    std::string type;  // <class>: "machine", "node"
    std::vector<std::pair<std::string, std::string>> attributes;
  };
  struct Group {
    uint32_t node = 0;
    std::string name;
    std::string rank;
    std::string type;
    std::vector<uint32_t> locations;
  };
  struct Location {
    uint32_t group = 0;
    uint32_t column = 0;  // its Id, which is the place of its values in a row
    std::string name;
    std::string rank;
    std::string type;
  };
  /// The tree as it stands in anchor.xml.
  struct Step {
    enum class What { kOpenNode, kCloseNode, kGroup } what;
    uint32_t index;
  };

  std::vector<Node> nodes;
  std::vector<Group> groups;
  std::vector<Location> locations;
  std::vector<Step> steps;
};

/// What the columns of an output are values of.
enum class Aggregate { kNone, kProcess, kNode };

/// The columns of an output: the locations of the input, repeated until there are as many as
/// wanted, and one column for each location, for each process, or for each node that has
/// processes. Immutable; any thread may read.
class Columns {
 public:
  /// `locations`: how many to scale to, at least those of the tree.
  Columns(const SystemTree& tree, uint64_t locations, Aggregate aggregate);

  [[nodiscard]] uint64_t base_locations() const { return base_; }
  [[nodiscard]] uint64_t locations() const { return locations_; }
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] bool is_aggregated() const { return aggregate_ != Aggregate::kNone; }
  /// True if the output's system tree is the input's.
  [[nodiscard]] bool is_unchanged() const { return !is_aggregated() && locations_ == base_; }

  /// The column that a location belongs to.
  [[nodiscard]] uint64_t column_of(uint64_t location) const;

  /// Writes the element <system> of the output.
  void write_system(TextSink& sink) const;

 private:
  static constexpr uint32_t kNoUnit = UINT32_MAX;
  struct Cursor;
  [[nodiscard]] bool has_location(const SystemTree::Group& group, uint64_t limit) const;
  [[nodiscard]] std::vector<bool> visible_nodes(uint64_t limit) const;
  void write_tile(TextSink& sink, Cursor& cursor, uint64_t tile) const;
  void write_node(std::string& text, Cursor& cursor, uint32_t node, uint64_t tile) const;
  void write_node_column(std::string& text, Cursor& cursor, uint32_t node) const;
  void write_group(std::string& text, Cursor& cursor, const SystemTree::Group& group,
                   uint64_t tile) const;

  const SystemTree& tree_;
  Aggregate aggregate_;
  uint64_t base_;
  uint64_t locations_;
  uint64_t count_ = 0;
  uint32_t single_root_ = kNoUnit;  // the node that all tiles are in, if there is just one root
  uint64_t units_ = 0;              // processes or nodes with locations, of the input
  std::vector<uint32_t> unit_of_column_;  // of a location of the input
  std::vector<uint32_t> last_units_;      // unit -> its number in the last, incomplete tile
  std::vector<uint32_t> unit_of_node_;    // Aggregate::kNode
};

/// Escapes what XML needs escaped, and what is not ASCII by its number: right in every encoding.
std::string escape_xml(std::string_view utf8);

}  // namespace cube
