// Where everything lies in the output, known before anything is computed: so each byte is written
// once, at its place. anchor.xml comes last, as its length is only known when it has been made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "archive.hpp"
#include "plan.hpp"

namespace cube {

/// A part of the output.
struct Segment {
  enum class What { kBytes, kRows, kCopy } what = What::kBytes;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::vector<std::byte> content;  // kBytes; shorter than `bytes`: zeros follow
  size_t job = 0;                  // kRows
  const Member* member = nullptr;  // kCopy: of the input
};

/// Immutable; any thread may read.
class Layout {
 public:
  Layout(const Archive& archive, const Plan& plan);

  /// In the order of the file, without gaps from 0 to anchor_offset().
  [[nodiscard]] const std::vector<Segment>& segments() const { return segments_; }
  /// Where the header of anchor.xml lies.
  [[nodiscard]] uint64_t anchor_offset() const { return end_; }
  /// Members of the input that are not taken over, and why.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  void add_bytes(std::vector<std::byte> content, uint64_t bytes);
  void add_member(const std::string& name, std::span<const std::byte> content);
  void add_results(const Plan& plan, size_t job);
  void add_copies(const Archive& archive, const Plan& plan);

  std::vector<Segment> segments_;
  std::vector<std::string> notes_;
  uint64_t end_ = 0;
};

/// Makes the bytes of any part of the output before the anchor, for one thread.
class Filler {
 public:
  Filler(const Archive& archive, const Plan& plan, const Layout& layout, double work)
      : archive_(archive), plan_(plan), layout_(layout), repetition_(work) {}
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;

  void fill(uint64_t offset, std::span<std::byte> into);

 private:
  void fill_segment(const Segment& segment, uint64_t from, std::span<std::byte> into);
  void fill_rows(const Segment& segment, uint64_t from, std::span<std::byte> into);

  const Archive& archive_;
  const Plan& plan_;
  const Layout& layout_;
  Repetition repetition_;
  std::optional<size_t> job_;  // which is open
  std::shared_ptr<const JobData> data_;
  std::unique_ptr<JobRows> rows_;
};

}  // namespace cube
