#include "layout.hpp"

#include <algorithm>
#include <string>

#include "error.hpp"

namespace cube {
namespace {

constexpr std::string_view kAnchorName = "anchor.xml";
constexpr size_t kMaxNameBytes = 99;

/// Names that mean a file beside the others, wherever the output is unpacked.
bool is_plain_name(std::string_view name) {
  if (name.empty() || name.front() == '.' || name.size() > kMaxNameBytes) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

/// "7.data" or "7.index".
bool is_of_a_metric(std::string_view name) {
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  const std::string_view rest = name.substr(digits);
  return digits > 0 && (rest == ".data" || rest == ".index");
}

std::vector<std::byte> to_bytes(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(),
                 [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

}  // namespace

Layout::Layout(const Archive& archive, const Plan& plan) {
  for (size_t job = 0; job < plan.jobs().size(); ++job) add_results(plan, job);
  add_copies(archive, plan);
}

void Layout::add_bytes(std::vector<std::byte> content, uint64_t bytes) {
  Segment segment;
  segment.offset = end_;
  segment.bytes = bytes;
  segment.content = std::move(content);
  end_ += bytes;
  if (bytes > 0) segments_.push_back(std::move(segment));
}

void Layout::add_member(const std::string& name, std::span<const std::byte> content) {
  const auto header = make_header(name, content.size());
  std::vector<std::byte> bytes(header.begin(), header.end());
  bytes.insert(bytes.end(), content.begin(), content.end());
  const uint64_t size = bytes.size() + padding_of(content.size());
  add_bytes(std::move(bytes), size);
}

void Layout::add_results(const Plan& plan, size_t job) {
  const Job& what = plan.jobs()[job];
  const std::string number = std::to_string(plan.metric_of(what).id);
  add_member(number + ".index", what.index);
  const uint64_t data_bytes = kDataMarker.size() + what.bytes();
  const auto header = make_header(number + ".data", data_bytes);
  std::vector<std::byte> head(header.begin(), header.end());
  const auto marker = to_bytes(kDataMarker);
  head.insert(head.end(), marker.begin(), marker.end());
  const uint64_t head_bytes = head.size();
  add_bytes(std::move(head), head_bytes);
  Segment rows;
  rows.what = Segment::What::kRows;
  rows.offset = end_;
  rows.bytes = what.bytes();
  rows.job = job;
  segments_.push_back(std::move(rows));
  end_ += what.bytes();
  add_bytes({}, padding_of(data_bytes));
}

void Layout::add_copies(const Archive& archive, const Plan& plan) {
  for (const Member& member : archive.members()) {
    if (member.name == kAnchorName || is_of_a_metric(member.name)) continue;
    if (!is_plain_name(member.name)) {
      notes_.push_back("a member whose name is no plain file name is left out");
      continue;
    }
    if (!plan.columns().is_unchanged()) {
      notes_.push_back("'" + member.name + "' is left out: it belongs to the threads of the input");
      continue;
    }
    const auto header = make_header(member.name, member.bytes);
    add_bytes({header.begin(), header.end()}, header.size());
    Segment copy;
    copy.what = Segment::What::kCopy;
    copy.offset = end_;
    copy.bytes = member.bytes;
    copy.member = &member;
    end_ += member.bytes;
    if (member.bytes > 0) segments_.push_back(std::move(copy));
    add_bytes({}, padding_of(member.bytes));
  }
}

void Filler::fill(uint64_t offset, std::span<std::byte> into) {
  const auto& segments = layout_.segments();
  // The last segment that begins at or before `offset`.
  auto segment = std::upper_bound(segments.begin(), segments.end(), offset,
                                  [](uint64_t at, const Segment& s) { return at < s.offset; });
  for (--segment; !into.empty(); ++segment) {
    const uint64_t from = offset - segment->offset;
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(segment->bytes - from, into.size()));
    fill_segment(*segment, from, into.first(bytes));
    into = into.subspan(bytes);
    offset += bytes;
  }
}

void Filler::fill_segment(const Segment& segment, uint64_t from, std::span<std::byte> into) {
  switch (segment.what) {
    case Segment::What::kRows:
      return fill_rows(segment, from, into);
    case Segment::What::kCopy:
      return archive_.read(*segment.member, from, into);
    case Segment::What::kBytes:
      for (size_t i = 0; i < into.size(); ++i) {
        const uint64_t at = from + i;
        into[i] =
            at < segment.content.size() ? segment.content[static_cast<size_t>(at)] : std::byte{0};
      }
  }
}

void Filler::fill_rows(const Segment& segment, uint64_t from, std::span<std::byte> into) {
  if (job_ != segment.job) {
    rows_.reset();
    data_.reset();
    data_ = plan_.load(segment.job);
    rows_ = plan_.open(segment.job, data_, repetition_);
    job_ = segment.job;
  }
  const uint64_t row_bytes = plan_.jobs()[segment.job].row_bytes;
  while (!into.empty()) {
    const uint64_t in_row = from % row_bytes;
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(row_bytes - in_row, into.size()));
    rows_->fill(static_cast<size_t>(from / row_bytes), in_row, into.first(bytes));
    into = into.subspan(bytes);
    from += bytes;
  }
}

}  // namespace cube
