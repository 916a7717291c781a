#include "system_tree.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>

namespace cube {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 16;

void add_element(std::string& text, std::string_view name, std::string_view content) {
  text.append("<").append(name).append(">").append(escape_xml(content));
  text.append("</").append(name).append(">\n");
}

/// The rank of a process of a further tile: those before it count on.
std::string shifted_rank(const std::string& rank, uint64_t shift) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), number);
  const bool whole = error == std::errc() && end == rank.data() + rank.size();
  return whole && number <= std::numeric_limits<uint32_t>::max() ? std::to_string(number + shift)
                                                                 : rank;
}

/// The code point at text[at]; moves `at` behind it.
uint32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at++);
  if (first < 0x80) return first;
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  uint32_t point = first & (0x3fU >> more);
  for (int i = 0; i < more && at < text.size(); ++i) point = point << 6 | (byte(at++) & 0x3fU);
  return point;
}

}  // namespace

std::string escape_xml(std::string_view utf8) {
  std::string escaped;
  for (size_t at = 0; at < utf8.size();) {
    const uint32_t point = next_code_point(utf8, at);
    if (point == '<') {
      escaped += "&lt;";
    } else if (point == '>') {
      escaped += "&gt;";
    } else if (point == '&') {
      escaped += "&amp;";
    } else if (point == '"') {
      escaped += "&quot;";
    } else if (point >= ' ' && point <= '~') {
      escaped += static_cast<char>(point);
    } else {
      escaped += "&#" + std::to_string(point) + ";";
    }
  }
  return escaped;
}

/// The numbers that elements of the output get, one after the other.
struct Columns::Cursor {
  uint64_t node = 0;
  uint64_t group = 0;
  uint64_t unit = 0;
  uint64_t limit = 0;         // columns of the input that the tile has
  std::vector<bool> visible;  // nodes of the tile that have locations
};

Columns::Columns(const SystemTree& tree, uint64_t locations, Aggregate aggregate)
    : tree_(tree), aggregate_(aggregate), base_(tree.locations.size()), locations_(locations) {
  size_t depth = 0;
  size_t roots = 0;
  for (const SystemTree::Step& step : tree.steps) {
    if (step.what == SystemTree::Step::What::kOpenNode && depth++ == 0) {
      ++roots;
      single_root_ = step.index;
    }
    if (step.what == SystemTree::Step::What::kCloseNode) --depth;
  }
  if (roots != 1) single_root_ = kNoUnit;
  count_ = locations_;
  if (!is_aggregated()) return;

  // Units are numbered in the order in which write_tile() writes them.
  unit_of_node_.assign(tree.nodes.size(), kNoUnit);
  std::vector<uint32_t> unit_of_group(tree.groups.size(), kNoUnit);
  std::vector<bool> has_unit(tree.nodes.size(), false);
  for (const SystemTree::Group& group : tree.groups) {
    if (!group.locations.empty()) has_unit[group.node] = true;
  }
  for (const SystemTree::Step& step : tree.steps) {
    if (aggregate == Aggregate::kNode) {
      if (step.what == SystemTree::Step::What::kOpenNode && has_unit[step.index]) {
        unit_of_node_[step.index] = static_cast<uint32_t>(units_++);
      }
    } else if (step.what == SystemTree::Step::What::kGroup &&
               !tree.groups[step.index].locations.empty()) {
      unit_of_group[step.index] = static_cast<uint32_t>(units_++);
    }
  }
  unit_of_column_.assign(base_, kNoUnit);
  for (const SystemTree::Location& location : tree.locations) {
    unit_of_column_[location.column] = aggregate == Aggregate::kNode
                                           ? unit_of_node_[tree.groups[location.group].node]
                                           : unit_of_group[location.group];
  }
  const uint64_t rest = locations_ % base_;
  last_units_.assign(units_, kNoUnit);
  for (uint64_t column = 0; column < rest; ++column) last_units_[unit_of_column_[column]] = 0;
  uint32_t present = 0;
  for (uint32_t& unit : last_units_) {
    if (unit != kNoUnit) unit = present++;
  }
  count_ = locations_ / base_ * units_ + present;
}

uint64_t Columns::column_of(uint64_t location) const {
  if (!is_aggregated()) return location;
  const uint64_t tile = location / base_;
  const uint32_t unit = unit_of_column_[location % base_];
  const bool incomplete = (tile + 1) * base_ > locations_;
  return tile * units_ + (incomplete ? last_units_[unit] : unit);
}

bool Columns::has_location(const SystemTree::Group& group, uint64_t limit) const {
  return std::any_of(group.locations.begin(), group.locations.end(),
                     [&](uint32_t location) { return tree_.locations[location].column < limit; });
}

std::vector<bool> Columns::visible_nodes(uint64_t limit) const {
  std::vector<bool> visible(tree_.nodes.size(), false);
  std::vector<uint32_t> open;
  for (const SystemTree::Step& step : tree_.steps) {
    if (step.what == SystemTree::Step::What::kOpenNode) {
      open.push_back(step.index);
    } else if (step.what == SystemTree::Step::What::kCloseNode) {
      const uint32_t node = open.back();
      open.pop_back();
      // A node is seen if one below it is.
      if (!open.empty() && visible[node]) visible[open.back()] = true;
    } else if (has_location(tree_.groups[step.index], limit)) {
      visible[open.back()] = true;
    }
  }
  return visible;
}

void Columns::write_node(std::string& text, Cursor& cursor, uint32_t node, uint64_t tile) const {
  const SystemTree::Node& from = tree_.nodes[node];
  text += "<systemtreenode Id=\"" + std::to_string(cursor.node++) + "\">\n";
  add_element(text, "name", tile == 0 ? from.name : from.name + " (" + std::to_string(tile) + ")");
  add_element(text, "class", from.type);
  for (const auto& [key, value] : from.attributes) {
    text += "<attr key=\"" + escape_xml(key) + "\" value=\"" + escape_xml(value) + "\"/>\n";
  }
}

void Columns::write_node_column(std::string& text, Cursor& cursor, uint32_t node) const {
  if (aggregate_ != Aggregate::kNode || unit_of_node_[node] == kNoUnit) return;
  if (cursor.limit < base_ && last_units_[unit_of_node_[node]] == kNoUnit) return;
  const SystemTree::Node& from = tree_.nodes[node];
  const std::string number = std::to_string(cursor.unit++);
  text += "<locationgroup Id=\"" + number + "\">\n";
  add_element(text, "name", "all of " + from.name);
  text += "<rank>" + number + "</rank>\n<type>process</type>\n<location Id=\"" + number + "\">\n";
  add_element(text, "name", "all of " + from.name);
  text += "<rank>0</rank>\n<type>thread</type>\n</location>\n</locationgroup>\n";
}

void Columns::write_group(std::string& text, Cursor& cursor, const SystemTree::Group& group,
                          uint64_t tile) const {
  if (aggregate_ == Aggregate::kNode || !has_location(group, cursor.limit)) return;
  text += "<locationgroup Id=\"" + std::to_string(cursor.group++) + "\">\n";
  add_element(text, "name", group.name);
  add_element(text, "rank", shifted_rank(group.rank, tile * tree_.groups.size()));
  add_element(text, "type", group.type);
  if (aggregate_ == Aggregate::kProcess) {
    text += "<location Id=\"" + std::to_string(cursor.unit++) + "\">\n";
    add_element(text, "name", "all of " + group.name);
    text += "<rank>0</rank>\n<type>thread</type>\n</location>\n";
  } else {
    for (const uint32_t index : group.locations) {
      const SystemTree::Location& location = tree_.locations[index];
      if (location.column >= cursor.limit) continue;
      text += "<location Id=\"" + std::to_string(tile * base_ + location.column) + "\">\n";
      add_element(text, "name", location.name);
      add_element(text, "rank", location.rank);
      add_element(text, "type", location.type);
      text += "</location>\n";
    }
  }
  text += "</locationgroup>\n";
}

void Columns::write_tile(TextSink& sink, Cursor& cursor, uint64_t tile) const {
  std::string text;
  for (const SystemTree::Step& step : tree_.steps) {
    if (step.what == SystemTree::Step::What::kGroup) {
      write_group(text, cursor, tree_.groups[step.index], tile);
    } else if (cursor.visible[step.index]) {
      const bool opens = step.what == SystemTree::Step::What::kOpenNode;
      // The root is there once: opened by the first tile, closed behind the last.
      const bool shared = step.index == single_root_;
      if (opens && (!shared || tile == 0)) write_node(text, cursor, step.index, tile);
      if (opens) write_node_column(text, cursor, step.index);
      const bool last = (tile + 1) * base_ >= locations_;
      if (!opens && (!shared || last)) text += "</systemtreenode>\n";
    }
    if (text.size() >= kPieceBytes) {
      sink.put(text);
      text.clear();
    }
  }
  sink.put(text);
}

void Columns::write_system(TextSink& sink) const {
  sink.put("<system>\n");
  Cursor cursor;
  for (uint64_t tile = 0; tile * base_ < locations_; ++tile) {
    const uint64_t limit = std::min(base_, locations_ - tile * base_);
    if (limit != cursor.limit) {
      cursor.limit = limit;
      cursor.visible = visible_nodes(limit);
    }
    write_tile(sink, cursor, tile);
  }
  sink.put("</system>");
}

}  // namespace cube
