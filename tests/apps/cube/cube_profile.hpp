// Small Cube profiles made in memory, and what the program makes of them without any file.
//
// The call tree is main(solve(read, write), end): paths 0(1(2, 3), 4). Three threads: two in
// process 0 on node A, one in process 1 on node B.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

#include "anchor.hpp"
#include "archive.hpp"
#include "bytes.hpp"
#include "layout.hpp"
#include "metric_rows.hpp"
#include "plan.hpp"

namespace cube_test {

using Bytes = std::vector<std::byte>;

inline constexpr size_t kPaths = 5;
inline constexpr size_t kThreads = 3;

inline Bytes to_bytes(std::string_view text) {
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

inline void append(Bytes& to, const Bytes& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// The bytes of a number, in the other byte order if `swapped`.
template <typename T>
Bytes number_bytes(T number, bool swapped) {
  Bytes bytes(sizeof number);
  std::memcpy(bytes.data(), &number, sizeof number);
  if (swapped) std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

inline Bytes deflated(const Bytes& plain) {
  uLongf bytes = compressBound(plain.size());
  Bytes packed(bytes);
  compress(reinterpret_cast<Bytef*>(packed.data()), &bytes,
           reinterpret_cast<const Bytef*>(plain.data()), plain.size());
  packed.resize(bytes);
  return packed;
}

inline Bytes gzipped(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  Bytes packed(compressBound(text.size()) + 64);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// How the values of a metric are stored.
struct Form {
  bool swapped = false;
  bool dense = false;
  bool compressed = false;
};

inline Bytes index_bytes(const std::vector<uint32_t>& numbers, Form form) {
  Bytes index = to_bytes("CUBEX.INDEX");
  append(index, number_bytes(uint32_t{1}, form.swapped));
  append(index, number_bytes(uint16_t{0}, form.swapped));
  index.push_back(std::byte{form.dense ? uint8_t{3} : uint8_t{1}});
  if (form.dense) return index;
  append(index, number_bytes(static_cast<uint32_t>(numbers.size()), form.swapped));
  for (const uint32_t number : numbers) append(index, number_bytes(number, form.swapped));
  return index;
}

inline Bytes data_bytes(const std::vector<Bytes>& rows, Form form) {
  Bytes data = to_bytes(form.compressed ? "ZCUBEX.DATA" : "CUBEX.DATA");
  if (!form.compressed) {
    for (const Bytes& row : rows) append(data, row);
    return data;
  }
  Bytes chunks;
  append(data, number_bytes(uint64_t{rows.size()}, form.swapped));
  for (size_t i = 0; i < rows.size(); ++i) {
    const Bytes packed = deflated(rows[i]);
    append(data, number_bytes(uint64_t{i * rows[i].size()}, form.swapped));
    append(data, number_bytes(uint64_t{chunks.size()}, form.swapped));
    append(data, number_bytes(uint64_t{packed.size()}, form.swapped));
    append(chunks, packed);
  }
  append(data, chunks);
  return data;
}

class Profile {
 public:
  /// The values of rows, row by row; `numbers` are those of the index (none: all paths).
  template <typename T>
  Profile& add(const std::string& name, const std::string& kind, const std::string& type,
               std::vector<uint32_t> numbers, const std::vector<T>& values, Form form = {}) {
    if (numbers.empty()) {
      for (uint32_t path = 0; path < kPaths; ++path) numbers.push_back(path);
    }
    std::vector<Bytes> rows(numbers.size());
    for (size_t i = 0; i < values.size(); ++i) {
      append(rows[i * numbers.size() / values.size()], number_bytes(values[i], form.swapped));
    }
    const std::string id = std::to_string(metrics_);
    members_.emplace_back(id + ".index", index_bytes(numbers, form));
    members_.emplace_back(id + ".data", data_bytes(rows, form));
    return declare(name, kind, type, "");
  }
  /// A metric without values; `more` is XML.
  Profile& declare(const std::string& name, const std::string& kind, const std::string& type,
                   const std::string& more) {
    metric_text_ += "<metric id=\"" + std::to_string(metrics_++) + "\" type=\"" + kind +
                    "\"><disp_name>" + name + "</disp_name><uniq_name>" + name +
                    "</uniq_name><dtype>" + type + "</dtype>" + more + "</metric>\n";
    return *this;
  }
  Profile& derive(const std::string& name, const std::string& kind, const std::string& formula) {
    return declare(name, kind, "DOUBLE", "<cubepl>" + formula + "</cubepl>");
  }
  Profile& add_member(const std::string& name, Bytes content) {
    members_.emplace_back(name, std::move(content));
    return *this;
  }

  [[nodiscard]] std::string anchor() const {
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<cube version=\"4.4\">\n"
           "<attr key=\"Creator\" value=\"a test\"/>\n<metrics title=\"M\">\n" +
           metric_text_ + "</metrics>\n<program>\n" +
           "<region id=\"0\" mod=\"a.c\" begin=\"1\" end=\"9\"><name>main</name></region>\n"
           "<cnode id=\"0\" calleeId=\"0\"><cnode id=\"1\" calleeId=\"0\">"
           "<cnode id=\"2\" calleeId=\"0\"/><cnode id=\"3\" calleeId=\"0\"></cnode></cnode>"
           "<cnode id=\"4\" calleeId=\"0\"/></cnode>\n</program>\n"
           "<system><systemtreenode Id=\"0\"><name>cluster</name><class>machine</class>\n"
           "<systemtreenode Id=\"1\"><name>A</name><class>node</class>"
           "<locationgroup Id=\"0\"><name>p0</name><rank>0</rank><type>process</type>"
           "<location Id=\"0\"><name>t0</name><rank>0</rank><type>thread</type></location>"
           "<location Id=\"1\"><name>t1</name><rank>1</rank><type>thread</type></location>"
           "</locationgroup></systemtreenode>\n"
           "<systemtreenode Id=\"2\"><name>B</name><class>node</class>"
           "<locationgroup Id=\"1\"><name>p1</name><rank>1</rank><type>process</type>"
           "<location Id=\"2\"><name>t0</name><rank>0</rank><type>thread</type></location>"
           "</locationgroup></systemtreenode></systemtreenode></system>\n</cube>\n";
  }
  [[nodiscard]] Bytes bytes() const { return bytes_with(to_bytes(anchor())); }
  [[nodiscard]] Bytes bytes_with(const Bytes& anchor) const {
    Bytes archive;
    for (const auto& [name, content] : members_) add_to(archive, name, content);
    add_to(archive, "anchor.xml", anchor);
    archive.resize(archive.size() + 2 * cube::kBlockBytes);
    return archive;
  }

 private:
  static void add_to(Bytes& archive, const std::string& name, const Bytes& content) {
    const auto header = cube::make_header(name, content.size());
    archive.insert(archive.end(), header.begin(), header.end());
    append(archive, content);
    archive.resize(archive.size() + cube::padding_of(content.size()));
  }

  std::vector<std::pair<std::string, Bytes>> members_;
  std::string metric_text_;
  unsigned metrics_ = 0;
};

inline cube::Archive open_archive(const Bytes& bytes) {
  return cube::Archive(std::make_unique<cube::MemoryBytes>("test.cubex", bytes));
}

class StringSink : public cube::TextSink {
 public:
  void put(std::string_view piece) override { text += piece; }
  std::string text;
};

/// The profile that the program makes, in pieces of `piece` bytes as if these were items.
inline Bytes remapped(const Bytes& input, const cube::PlanOptions& options = {},
                      size_t piece = 4096) {
  const cube::Archive archive = open_archive(input);
  const cube::Anchor anchor = cube::read_anchor(archive);
  const cube::Plan plan(archive, anchor, options);
  const cube::Layout layout(archive, plan);
  Bytes output(layout.anchor_offset());
  cube::Filler filler(archive, plan, layout, 1);
  for (size_t at = 0; at < output.size(); at += piece) {
    filler.fill(at, std::span(output).subspan(at, std::min(piece, output.size() - at)));
  }
  StringSink text;
  cube::write_anchor(anchor, plan.stored(), plan.columns(), text);
  const auto header = cube::make_header("anchor.xml", text.text.size());
  output.insert(output.end(), header.begin(), header.end());
  append(output, to_bytes(text.text));
  output.resize(output.size() + cube::padding_of(text.text.size()) + 2 * cube::kBlockBytes);
  return output;
}

/// What is stored of a metric: the kind, and the values by path, all as doubles.
struct Stored {
  cube::MetricKind kind = cube::MetricKind::kSimple;
  std::string type;
  std::map<uint32_t, std::vector<double>> values;
};

inline Stored stored_in(const Bytes& profile, const std::string& name) {
  const cube::Archive archive = open_archive(profile);
  const cube::Anchor anchor = cube::read_anchor(archive);
  const auto metric = std::find_if(anchor.metrics.begin(), anchor.metrics.end(),
                                   [&](const cube::Metric& one) { return one.name == name; });
  Stored stored;
  if (metric == anchor.metrics.end()) return stored;
  stored.kind = metric->kind;
  stored.type = metric->type_words;
  const uint64_t locations = anchor.system.locations.size();
  const auto rows =
      cube::MetricRows::locate(archive, *metric, anchor.calls, locations, cube::kMaxRows);
  if (!rows) return stored;
  const auto matrix =
      cube::Matrix<double>::load(*rows, metric->type, anchor.calls, locations, false);
  for (const uint32_t path : rows->paths()) {
    matrix.for_pieces(path, 0, locations, [&](size_t, std::span<const double> values) {
      auto& row = stored.values[path];
      row.insert(row.end(), values.begin(), values.end());
    });
  }
  return stored;
}

}  // namespace cube_test
