#include <algorithm>
#include <string_view>

#include "anchor.hpp"

namespace cube {
namespace {

struct Edit {
  TextRange range;
  std::string text;
};

std::string_view kind_word(MetricKind kind) {
  return kind == MetricKind::kInclusive   ? "INCLUSIVE"
         : kind == MetricKind::kExclusive ? "EXCLUSIVE"
                                          : "SIMPLE";
}

void add_edits(const Anchor& anchor, const StoredMetric& stored, std::vector<Edit>& edits) {
  const Metric& metric = *stored.metric;
  std::string tag = "<metric";
  for (const auto& [key, value] : metric.attributes) {
    const std::string_view written = key == "type" ? kind_word(stored.kind) : value;
    tag.append(" ").append(key).append("=\"").append(escape_xml(written)).append("\"");
  }
  const bool closes = anchor.text[metric.tag.end - 2] == '/';
  edits.push_back({metric.tag, tag + (closes ? "/>" : ">")});
  if (metric.type_element.end != 0) {
    edits.push_back({metric.type_element, "<dtype>" + escape_xml(stored.type_words) + "</dtype>"});
  }
  for (const TextRange& formula : metric.formulas) edits.push_back({formula, ""});
}

}  // namespace

void write_anchor(const Anchor& anchor, const std::vector<StoredMetric>& stored,
                  const Columns& columns, TextSink& sink) {
  std::vector<Edit> edits;
  for (const StoredMetric& metric : stored) add_edits(anchor, metric, edits);
  if (!columns.is_unchanged()) edits.push_back({anchor.system_element, ""});
  std::sort(edits.begin(), edits.end(),
            [](const Edit& a, const Edit& b) { return a.range.begin < b.range.begin; });
  const std::string_view text = anchor.text;
  size_t at = 0;
  for (const Edit& edit : edits) {
    sink.put(text.substr(at, edit.range.begin - at));
    if (edit.range.begin == anchor.system_element.begin) {
      columns.write_system(sink);
    } else {
      sink.put(edit.text);
    }
    at = edit.range.end;
  }
  sink.put(text.substr(at));
}

}  // namespace cube
