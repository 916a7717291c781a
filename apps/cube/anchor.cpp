#include "anchor.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <unordered_set>

#include <expat.h>

#include "error.hpp"
#include "inflate.hpp"

namespace cube {
namespace {

constexpr std::pair<std::string_view, MetricKind> kKinds[] = {
    {"INCLUSIVE", MetricKind::kInclusive},
    {"EXCLUSIVE", MetricKind::kExclusive},
    {"SIMPLE", MetricKind::kSimple},
    {"POSTDERIVED", MetricKind::kPostderived},
    {"PREDERIVED_INCLUSIVE", MetricKind::kPrederivedInclusive},
    {"PREDERIVED_EXCLUSIVE", MetricKind::kPrederivedExclusive},
};

std::optional<uint32_t> parse_number(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  if (error != std::errc() || end != text.end()) return std::nullopt;
  return number;
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

/// Follows expat through the text. Its functions are called from C code, through which no exception
/// may pass: the first error is kept, and stops the parser.
class AnchorParser {
 public:
  AnchorParser(Anchor& anchor, std::string where)
      : anchor_(anchor),
        where_(std::move(where)),
        parser_(XML_ParserCreate(nullptr), XML_ParserFree) {
    if (!parser_) throw CubeError("no memory for the parser of " + where_);
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(
        parser_.get(),
        [](void* self, const char* name, const char** attributes) {
          static_cast<AnchorParser*>(self)->guard(
              [&](AnchorParser& me) { me.open(name, attributes); });
        },
        [](void* self, const char*) {
          static_cast<AnchorParser*>(self)->guard([](AnchorParser& me) { me.close(); });
        });
    XML_SetCharacterDataHandler(parser_.get(), [](void* self, const char* text, int bytes) {
      static_cast<AnchorParser*>(self)->guard([&](AnchorParser& me) {
        if (me.content_ != nullptr) me.content_->append(text, static_cast<size_t>(bytes));
      });
    });
    // Cube writes none. Without them no entity can be declared, and so none can grow.
    XML_SetStartDoctypeDeclHandler(
        parser_.get(), [](void* self, const char*, const char*, const char*, int) {
          static_cast<AnchorParser*>(self)->guard(
              [](AnchorParser& me) { me.fail("a document type declaration"); });
        });
  }

  void parse() {
    const std::string& text = anchor_.text;
    const XML_Status status =
        XML_Parse(parser_.get(), text.data(), static_cast<int>(text.size()), XML_TRUE);
    if (!error_.empty()) throw CubeError(error_);
    if (status != XML_STATUS_OK) {
      throw CubeError(place() + XML_ErrorString(XML_GetErrorCode(parser_.get())));
    }
    check();
  }

 private:
  enum class Element {
    kOther,
    kCube,
    kMetrics,
    kMetric,
    kTypeOfMetric,
    kFormula,
    kProgram,
    kCallPath,
    kSystem,
    kNode,
    kGroup,
    kLocation
  };

  template <typename Act>
  void guard(Act act) noexcept {
    if (!error_.empty()) return;
    try {
      act(*this);
    } catch (const std::exception& error) {
      error_ = error.what();
      XML_StopParser(parser_.get(), XML_FALSE);
    }
  }

  [[nodiscard]] std::string place() const {
    return where_ + ", offset " + std::to_string(XML_GetCurrentByteIndex(parser_.get())) +
           " (line " + std::to_string(XML_GetCurrentLineNumber(parser_.get())) + "): ";
  }
  [[noreturn]] void fail(const std::string& what) const { throw CubeError(place() + what); }

  [[nodiscard]] size_t begin_of_event() const {
    return static_cast<size_t>(XML_GetCurrentByteIndex(parser_.get()));
  }
  [[nodiscard]] size_t end_of_event() const {
    return begin_of_event() + static_cast<size_t>(XML_GetCurrentByteCount(parser_.get()));
  }

  void open(std::string_view name, const char** attributes);
  void close();
  Element element_in(Element parent, std::string_view name, const char** attributes);
  void open_metric(const char** attributes);
  void close_metric();
  Element open_in_metric(std::string_view name);
  Element open_in_system(Element parent, std::string_view name, const char** attributes);
  void open_location(const char** attributes);
  void check();
  void check_columns() const;

  [[nodiscard]] std::string_view attribute(const char** attributes, std::string_view key) const {
    for (; *attributes != nullptr; attributes += 2) {
      if (*attributes == key) return attributes[1];
    }
    return "";
  }

  Anchor& anchor_;
  std::string where_;
  std::unique_ptr<std::remove_pointer_t<XML_Parser>, void (*)(XML_Parser)> parser_;
  std::string error_;
  std::vector<Element> open_;
  std::vector<size_t> open_metrics_;   // metrics lie in each other
  std::vector<uint32_t> open_nodes_;   // so do nodes
  std::vector<uint32_t> open_groups_;  // and groups
  std::string* content_ = nullptr;     // where the text of the open element goes
  size_t begin_ = 0;                   // of the element whose range is kept
};

void AnchorParser::open(std::string_view name, const char** attributes) {
  const Element parent = open_.empty() ? Element::kOther : open_.back();
  if (open_.size() > 2 * kMaxDepth) fail("elements lie too deep in each other");
  content_ = nullptr;
  if (open_.empty()) {
    if (name != "cube") fail("the root element is '" + std::string(name) + "', not 'cube'");
    open_.push_back(Element::kCube);
  } else {
    open_.push_back(element_in(parent, name, attributes));
  }
}

AnchorParser::Element AnchorParser::element_in(Element parent, std::string_view name,
                                               const char** attributes) {
  switch (parent) {
    case Element::kCube:
      if (name == "metrics") return Element::kMetrics;
      if (name == "program") return Element::kProgram;
      if (name != "system") return Element::kOther;
      if (anchor_.system_element.begin != 0) fail("a second element 'system'");
      anchor_.system_element.begin = begin_of_event();
      return Element::kSystem;
    case Element::kMetrics:
    case Element::kMetric:
      if (name != "metric")
        return parent == Element::kMetric ? open_in_metric(name) : Element::kOther;
      open_metric(attributes);
      return Element::kMetric;
    case Element::kProgram:
    case Element::kCallPath:
      if (name != "cnode") return Element::kOther;
      if (!anchor_.calls.open()) {
        fail("more than " + std::to_string(kMaxCallPaths) + " call paths, or more than " +
             std::to_string(kMaxDepth) + " below each other");
      }
      return Element::kCallPath;
    case Element::kSystem:
    case Element::kNode:
    case Element::kGroup:
    case Element::kLocation:
      return open_in_system(parent, name, attributes);
    default:
      return Element::kOther;
  }
}

void AnchorParser::open_metric(const char** attributes) {
  if (anchor_.metrics.size() == kMaxMetrics) {
    fail("more than " + std::to_string(kMaxMetrics) + " metrics");
  }
  Metric metric;
  const auto id = parse_number(attribute(attributes, "id"));
  if (!id) fail("a metric without a number as its id");
  metric.id = *id;
  const std::string_view kind = attribute(attributes, "type");
  const auto* known = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const auto& pair) { return pair.first == kind; });
  if (known == std::end(kKinds)) {
    fail("metric " + std::to_string(metric.id) + " is of the unknown type '" + std::string(kind) +
         "'");
  }
  metric.kind = known->second;
  metric.tag = {begin_of_event(), end_of_event()};
  for (; *attributes != nullptr; attributes += 2) {
    metric.attributes.emplace_back(attributes[0], attributes[1]);
  }
  open_metrics_.push_back(anchor_.metrics.size());
  anchor_.metrics.push_back(std::move(metric));
}

AnchorParser::Element AnchorParser::open_in_metric(std::string_view name) {
  Metric& metric = anchor_.metrics[open_metrics_.back()];
  begin_ = begin_of_event();
  if (name == "uniq_name") {
    content_ = &metric.name;
  } else if (name == "dtype") {
    if (metric.type_element.end != 0) fail("a second element 'dtype' in a metric");
    content_ = &metric.type_words;
    return Element::kTypeOfMetric;
  } else if (name == "cubepl") {
    content_ = &metric.expression;
    return Element::kFormula;
  } else if (name == "cubeplinit" || name == "cubeplaggr") {
    metric.has_own_rules = true;
    return Element::kFormula;
  }
  return Element::kOther;
}

void AnchorParser::close_metric() {
  Metric& metric = anchor_.metrics[open_metrics_.back()];
  open_metrics_.pop_back();
  metric.name = trimmed(metric.name);
  metric.type_words = trimmed(metric.type_words);
  if (metric.name.empty()) fail("metric " + std::to_string(metric.id) + " has no unique name");
  const auto type = parse_value_type(metric.type_words);
  if (!type) {
    fail("metric '" + metric.name + "' has values of the unknown type '" + metric.type_words + "'");
  }
  metric.type = *type;
}

AnchorParser::Element AnchorParser::open_in_system(Element parent, std::string_view name,
                                                   const char** attributes) {
  SystemTree& tree = anchor_.system;
  if (name == "systemtreenode" && (parent == Element::kSystem || parent == Element::kNode)) {
    const auto index = static_cast<uint32_t>(tree.nodes.size());
    if (index == kMaxLocations) fail("too many system tree nodes");
    if (open_nodes_.size() == kMaxDepth) fail("system tree nodes lie too deep in each other");
    tree.nodes.emplace_back();
    tree.steps.push_back({SystemTree::Step::What::kOpenNode, index});
    open_nodes_.push_back(index);
    return Element::kNode;
  }
  if (name == "locationgroup" && (parent == Element::kNode || parent == Element::kGroup)) {
    const auto index = static_cast<uint32_t>(tree.groups.size());
    if (index == kMaxLocations) fail("too many location groups");
    tree.groups.emplace_back();
    tree.groups.back().node = open_nodes_.back();
    tree.steps.push_back({SystemTree::Step::What::kGroup, index});
    open_groups_.push_back(index);
    return Element::kGroup;
  }
  if (name == "location" && parent == Element::kGroup) {
    open_location(attributes);
    return Element::kLocation;
  }
  if (parent == Element::kNode) {
    SystemTree::Node& node = tree.nodes[open_nodes_.back()];
    if (name == "name") content_ = &node.name;
    if (name == "class") content_ = &node.type;
    if (name == "attr") {
      node.attributes.emplace_back(attribute(attributes, "key"), attribute(attributes, "value"));
    }
  } else if (parent == Element::kGroup) {
    SystemTree::Group& group = tree.groups[open_groups_.back()];
    if (name == "name") content_ = &group.name;
    if (name == "rank") content_ = &group.rank;
    if (name == "type") content_ = &group.type;
  } else if (parent == Element::kLocation) {
    SystemTree::Location& location = tree.locations.back();
    if (name == "name") content_ = &location.name;
    if (name == "rank") content_ = &location.rank;
    if (name == "type") content_ = &location.type;
  } else if (name == "machine") {
    fail("the system tree is of Cube before 4.3: load and save it with a newer Cube first");
  }
  return Element::kOther;
}

void AnchorParser::open_location(const char** attributes) {
  SystemTree& tree = anchor_.system;
  const auto id = parse_number(attribute(attributes, "Id"));
  if (!id) fail("a location without a number as its Id");
  if (tree.locations.size() == kMaxLocations) {
    fail("more than " + std::to_string(kMaxLocations) + " locations");
  }
  SystemTree::Location location;
  location.column = *id;
  location.group = open_groups_.back();
  tree.groups[location.group].locations.push_back(static_cast<uint32_t>(tree.locations.size()));
  tree.locations.push_back(std::move(location));
}

void AnchorParser::close() {
  const Element element = open_.back();
  open_.pop_back();
  content_ = nullptr;
  switch (element) {
    case Element::kMetric:
      return close_metric();
    case Element::kTypeOfMetric:
      anchor_.metrics[open_metrics_.back()].type_element = {begin_, end_of_event()};
      return;
    case Element::kFormula:
      anchor_.metrics[open_metrics_.back()].formulas.push_back({begin_, end_of_event()});
      return;
    case Element::kCallPath:
      return anchor_.calls.close();
    case Element::kSystem:
      anchor_.system_element.end = end_of_event();
      return;
    case Element::kNode:
      anchor_.system.steps.push_back({SystemTree::Step::What::kCloseNode, open_nodes_.back()});
      open_nodes_.pop_back();
      return;
    case Element::kGroup:
      open_groups_.pop_back();
      return;
    default:
      return;
  }
}

void AnchorParser::check() {
  anchor_.calls.finish();
  if (anchor_.metrics.empty()) throw CubeError(where_ + ": there are no metrics");
  if (anchor_.calls.size() == 0) throw CubeError(where_ + ": there are no call paths");
  if (anchor_.system.locations.empty()) throw CubeError(where_ + ": there are no locations");
  std::unordered_set<uint32_t> ids;
  std::unordered_set<std::string_view> names;
  for (const Metric& metric : anchor_.metrics) {
    if (!ids.insert(metric.id).second || !names.insert(metric.name).second) {
      throw CubeError(where_ + ": a second metric " + std::to_string(metric.id) + " ('" +
                      metric.name + "')");
    }
  }
  check_columns();
}

/// The Id of a location is the place of its values: each must be there once.
void AnchorParser::check_columns() const {
  const auto& locations = anchor_.system.locations;
  std::vector<bool> seen(locations.size(), false);
  for (const SystemTree::Location& location : locations) {
    if (location.column >= seen.size() || seen[location.column]) {
      throw CubeError(where_ + ": location " + std::to_string(location.column) +
                      " is there twice, or its Id is not below the number of locations (" +
                      std::to_string(locations.size()) + ")");
    }
    seen[location.column] = true;
  }
}

/// CubeLib writes rowwise=false and cubeplaggrtype=plus without quotes, which is no XML.
std::string with_quoted_attributes(std::string text) {
  constexpr std::string_view kTag = "<cubepl";
  if (text.find(kTag) == std::string::npos) return text;
  std::string quoted;
  bool in_tag = false;
  bool in_value = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '<') in_tag = std::string_view(text).substr(at).starts_with(kTag);
    if (in_value && (c == ' ' || c == '>')) {
      quoted += '"';
      in_value = false;
    }
    if (c == '>') in_tag = false;
    quoted += c;
    if (in_tag && c == '=' && at + 1 < text.size() && text[at + 1] != '"' && text[at + 1] != '\'') {
      quoted += '"';
      in_value = true;
    }
  }
  return quoted;
}

}  // namespace

Anchor parse_anchor(std::string text, const std::string& where) {
  // Places in the text are bytes, and what is written into it is ASCII.
  if (!text.starts_with("<")) throw CubeError(where + ": begins with something else than '<'");
  Anchor anchor;
  anchor.text = with_quoted_attributes(std::move(text));
  if (anchor.text.size() > kMaxAnchorBytes) {
    throw CubeError(where + ": longer than " + std::to_string(kMaxAnchorBytes) + " bytes");
  }
  AnchorParser(anchor, where).parse();
  return anchor;
}

Anchor read_anchor(const Archive& archive) {
  const Member* member = archive.find("anchor.xml");
  if (member == nullptr) throw CubeError("'" + archive.name() + "' has no member 'anchor.xml'");
  if (member->bytes > kMaxAnchorBytes) {
    archive.fail(*member, 0, "longer than " + std::to_string(kMaxAnchorBytes) + " bytes");
  }
  std::string text(static_cast<size_t>(member->bytes), '\0');
  archive.read(*member, 0, std::as_writable_bytes(std::span(text)));
  if (text.starts_with("\x1f\x8b")) {
    std::string unzipped;
    const std::string wrong =
        gunzip(std::as_bytes(std::span<const char>(text)), kMaxAnchorBytes, unzipped);
    if (!wrong.empty()) archive.fail(*member, 0, wrong);
    text = std::move(unzipped);
  }
  return parse_anchor(std::move(text), "'" + archive.name() + "', member 'anchor.xml'");
}

}  // namespace cube
