// anchor.xml: which metrics there are, the tree of call paths and the system tree.
//
// The text is kept, with the places of what a new profile changes in it (write_anchor()). So all
// that is not understood here, regions and attributes say, passes on as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "archive.hpp"
#include "call_tree.hpp"
#include "system_tree.hpp"
#include "value_type.hpp"

namespace cube {

inline constexpr uint64_t kMaxAnchorBytes = uint64_t{512} << 20;
inline constexpr size_t kMaxMetrics = size_t{1} << 16;

enum class MetricKind {
  kInclusive,
  kExclusive,
  kSimple,  // neither: values of call paths that do not add up
  // Not stored, but evaluated from others by an expression:
  kPostderived,          // after values are added up
  kPrederivedInclusive,  // before, and what it gives is an inclusive value
  kPrederivedExclusive   // before, and what it gives is an exclusive value
};

inline bool is_derived(MetricKind kind) {
  return kind >= MetricKind::kPostderived;
}

/// The order in which a stored metric numbers its rows.
inline Enumeration order_of(MetricKind kind) {
  return kind == MetricKind::kInclusive ? Enumeration::kWide : Enumeration::kDeep;
}

/// A part of the anchor's text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

struct Metric {
  uint32_t id = 0;
  std::string name;  // <uniq_name>
  MetricKind kind = MetricKind::kExclusive;
  std::string type_words;  // <dtype>
  ValueType type;
  std::string expression;      // <cubepl>
  bool has_own_rules = false;  // <cubeplinit> or <cubeplaggr>

  std::vector<std::pair<std::string, std::string>> attributes;  // of its tag
  TextRange tag;
  TextRange type_element;
  std::vector<TextRange> formulas;  // the elements <cubepl>, <cubeplinit>, <cubeplaggr>
};

struct Anchor {
  std::string text;
  std::vector<Metric> metrics;  // in the order of the text
  CallTree calls;
  SystemTree system;
  TextRange system_element;
};

/// Reads the member anchor.xml, gzipped or not. Throws CubeError.
Anchor read_anchor(const Archive& archive);

/// As read_anchor() of this text; `where` begins each message.
Anchor parse_anchor(std::string text, const std::string& where);

/// What a metric becomes in the output: a stored one of this kind and type.
struct StoredMetric {
  const Metric* metric;
  MetricKind kind;
  std::string type_words;
};

/// Writes the anchor of an output in which these metrics are stored so; `columns` gives the system
/// tree, and all else is as it was.
void write_anchor(const Anchor& anchor, const std::vector<StoredMetric>& stored,
                  const Columns& columns, TextSink& sink);

}  // namespace cube
