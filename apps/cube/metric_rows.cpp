#include "metric_rows.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "error.hpp"
#include "inflate.hpp"

namespace cube {
namespace {

constexpr std::string_view kIndexMarker = "CUBEX.INDEX";
constexpr std::string_view kCompressedMarker = "ZCUBEX.DATA";
// Behind the marker: the number 1, which tells the byte order; a version; the kind of index.
constexpr size_t kIndexHeader = 4 + 2 + 1;
constexpr std::byte kSparse{1};
constexpr std::byte kDense{3};
constexpr uint64_t kMaxRowBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxScaleFuncBytes = 4096;
// Of compressed data, for each row: where it would begin if it were not compressed, where it
// begins behind the table, and how long it is.
constexpr size_t kChunkWords = 3;

bool has_marker(const Archive& archive, const Member& member, std::string_view marker) {
  if (member.bytes < marker.size()) return false;
  std::array<std::byte, 16> begin{};
  archive.read(member, 0, std::span(begin).first(marker.size()));
  return std::equal(marker.begin(), marker.end(), begin.begin(),
                    [](char c, std::byte b) { return static_cast<std::byte>(c) == b; });
}

}  // namespace

std::optional<MetricRows> MetricRows::locate(const Archive& archive, const Metric& metric,
                                             const CallTree& calls, uint64_t locations,
                                             uint64_t row_limit) {
  const std::string number = std::to_string(metric.id);
  const Member* index = archive.find(number + ".index");
  const Member* data = archive.find(number + ".data");
  if (index == nullptr && data == nullptr) return std::nullopt;
  if (index == nullptr) archive.fail(*data, 0, "there is no member '" + number + ".index'");
  if (data == nullptr) archive.fail(*index, 0, "there is no member '" + number + ".data'");
  MetricRows rows(archive, metric, *data);
  rows.read_index(*index, calls, row_limit);
  rows.read_layout(locations);
  if (rows.paths_.empty()) return std::nullopt;
  return rows;
}

void MetricRows::read_index(const Member& index, const CallTree& calls, uint64_t row_limit) {
  if (!has_marker(*archive_, index, kIndexMarker)) {
    archive_->fail(index, 0, "does not begin with " + std::string(kIndexMarker));
  }
  std::array<std::byte, kIndexHeader> header{};
  archive_->read(index, kIndexMarker.size(), header);
  const auto one = load_integer<uint32_t>(header.data(), false);
  if (one != 1 && one != 0x01000000) {
    archive_->fail(index, kIndexMarker.size(),
                   "the mark of the byte order is " + std::to_string(one));
  }
  swapped_ = one != 1;
  const std::byte kind = header[6];
  if (kind == kSparse) return read_paths(index, calls, row_limit);
  if (kind != kDense) {
    archive_->fail(index, kIndexMarker.size() + 6,
                   "an index of the unknown kind " + std::to_string(std::to_integer<int>(kind)));
  }
  if (index.bytes != kIndexMarker.size() + kIndexHeader) {
    archive_->fail(index, kIndexMarker.size() + kIndexHeader, "a dense index ends here");
  }
  if (calls.size() > row_limit) archive_->fail(index, 0, "too many rows in all metrics together");
  paths_.resize(calls.size());
  for (uint32_t number = 0; number < calls.size(); ++number) {
    paths_[number] = calls.path_of(order_of(metric_->kind), number);
  }
}

void MetricRows::read_paths(const Member& index, const CallTree& calls, uint64_t row_limit) {
  const uint64_t count_at = kIndexMarker.size() + kIndexHeader;
  std::array<std::byte, 4> count_bytes{};
  archive_->read(index, count_at, count_bytes);
  const auto count = load_integer<uint32_t>(count_bytes.data(), swapped_);
  if (index.bytes != count_at + 4 + uint64_t{count} * 4) {
    archive_->fail(index, count_at,
                   "is said to have " + std::to_string(count) + " rows, but has " +
                       std::to_string(index.bytes) + " bytes");
  }
  if (count > calls.size() || count > row_limit) {
    archive_->fail(index, count_at,
                   std::to_string(count) + " rows: more than call paths (" +
                       std::to_string(calls.size()) + "), or too many in all metrics together");
  }
  std::vector<std::byte> raw(size_t{count} * 4);
  archive_->read(index, count_at + 4, raw);
  std::vector<bool> seen(calls.size(), false);
  paths_.reserve(count);
  for (size_t row = 0; row < count; ++row) {
    const auto number = load_integer<uint32_t>(&raw[row * 4], swapped_);
    if (number >= calls.size() || seen[number]) {
      archive_->fail(index, count_at + 4 + row * 4,
                     "call path " + std::to_string(number) +
                         " is there twice, or is not below their number (" +
                         std::to_string(calls.size()) + ")");
    }
    seen[number] = true;
    paths_.push_back(calls.path_of(order_of(metric_->kind), number));
  }
}

void MetricRows::read_layout(uint64_t locations) {
  const bool plain = has_marker(*archive_, *data_, kDataMarker);
  if (!plain && !has_marker(*archive_, *data_, kCompressedMarker)) {
    archive_->fail(*data_, 0, "begins neither with CUBEX.DATA nor with ZCUBEX.DATA");
  }
  value_bytes_ = metric_->type.bytes;
  const bool size_by_data = value_bytes_ == 0;
  if (size_by_data && !plain) {
    archive_->fail(
        *data_, 0,
        "compressed values of type " + metric_->type_words + " have no size that could be known");
  }
  if (plain) return read_plain_layout(locations, size_by_data);
  row_bytes_ = value_bytes_ * locations;  // below 2^22 * 2^16
  if (row_bytes_ > kMaxRowBytes) {
    archive_->fail(*data_, 0, "a row would have " + std::to_string(row_bytes_) + " bytes");
  }
  read_chunks();
}

void MetricRows::read_plain_layout(uint64_t locations, bool size_by_data) {
  const uint64_t values_bytes = data_->bytes - kDataMarker.size();
  const uint64_t values = paths_.size() * locations;  // below 2^22 * 2^22
  if (size_by_data && values != 0) {
    value_bytes_ = static_cast<size_t>(values_bytes / values);
    if (value_bytes_ == 0 || value_bytes_ > kMaxScaleFuncBytes) {
      archive_->fail(
          *data_, kDataMarker.size(),
          std::to_string(values_bytes) + " bytes for " + std::to_string(values) + " values");
    }
  }
  if (values_bytes != values * value_bytes_) {
    archive_->fail(*data_, kDataMarker.size(),
                   std::to_string(values_bytes) + " bytes of values, but " +
                       std::to_string(paths_.size()) + " rows of " + std::to_string(locations) +
                       " values of " + std::to_string(value_bytes_) + " bytes are expected");
  }
  row_bytes_ = value_bytes_ * locations;
  if (row_bytes_ > kMaxRowBytes) {
    archive_->fail(*data_, 0, "a row has " + std::to_string(row_bytes_) + " bytes");
  }
}

void MetricRows::read_chunks() {
  const uint64_t count_at = kCompressedMarker.size();
  std::array<std::byte, 8> count_bytes{};
  archive_->read(*data_, count_at, count_bytes);
  const auto count = load_integer<uint64_t>(count_bytes.data(), swapped_);
  if (count > paths_.size()) {
    archive_->fail(*data_, count_at,
                   std::to_string(count) + " compressed rows, but the index has " +
                       std::to_string(paths_.size()));
  }
  const uint64_t table_at = count_at + 8;
  std::vector<std::byte> table(static_cast<size_t>(count) * kChunkWords * 8);
  archive_->read(*data_, table_at, table);
  const uint64_t chunks_at = table_at + table.size();
  const uint64_t room = data_->bytes - chunks_at;
  chunks_.assign(paths_.size(), {});
  for (size_t i = 0; i < count; ++i) {
    const auto word = [&](size_t k) {
      return load_integer<uint64_t>(&table[(i * kChunkWords + k) * 8], swapped_);
    };
    const uint64_t at = table_at + i * kChunkWords * 8;
    const uint64_t begin = word(0);
    if (begin % row_bytes_ != 0 || begin / row_bytes_ >= chunks_.size()) {
      archive_->fail(*data_, at, "no row begins at " + std::to_string(begin));
    }
    Chunk& chunk = chunks_[static_cast<size_t>(begin / row_bytes_)];
    if (chunk.bytes != 0) {
      archive_->fail(*data_, at, "row " + std::to_string(begin / row_bytes_) + " is there twice");
    }
    if (word(1) > room || word(2) > room - word(1)) {
      archive_->fail(*data_, at,
                     std::to_string(word(2)) + " bytes at " + std::to_string(word(1)) +
                         " are not in the " + std::to_string(room) + " bytes that follow");
    }
    if (word(2) > most_deflated_bytes(row_bytes_)) {
      archive_->fail(*data_, at,
                     std::to_string(word(2)) + " bytes for a row of " + std::to_string(row_bytes_));
    }
    chunk = {chunks_at + word(1), word(2)};
  }
}

void MetricRows::read_row(size_t row, std::span<std::byte> into,
                          std::vector<std::byte>& buffer) const {
  if (chunks_.empty()) {
    archive_->read(*data_, kDataMarker.size() + uint64_t{row} * row_bytes_, into);
    return;
  }
  const Chunk& chunk = chunks_[row];
  if (chunk.bytes == 0) {
    std::fill(into.begin(), into.end(), std::byte{0});
    return;
  }
  buffer.resize(static_cast<size_t>(chunk.bytes));
  archive_->read(*data_, chunk.offset, buffer);
  const std::string wrong = inflate_exactly(buffer, into);
  if (!wrong.empty())
    archive_->fail(*data_, chunk.offset, "row " + std::to_string(row) + " " + wrong);
}

std::vector<std::byte> make_index(std::span<const uint32_t> numbers, bool swapped) {
  std::vector<std::byte> index;
  index.reserve(kIndexMarker.size() + kIndexHeader + 4 * (numbers.size() + 1));
  const auto put = [&](const auto value) {
    std::array<std::byte, sizeof value> raw;
    std::memcpy(raw.data(), &value, sizeof value);
    if (swapped) std::reverse(raw.begin(), raw.end());
    index.insert(index.end(), raw.begin(), raw.end());
  };
  for (const char c : kIndexMarker) index.push_back(static_cast<std::byte>(c));
  put(uint32_t{1});
  put(uint16_t{0});
  index.push_back(kSparse);
  put(static_cast<uint32_t>(numbers.size()));
  for (const uint32_t number : numbers) put(number);
  return index;
}

}  // namespace cube
