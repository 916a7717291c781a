#include "stream/watch/write_follower.hpp"

#include <utility>

namespace ioweave::stream {
namespace {

constexpr uint64_t kGrainsOfPiece = 4;  // behind a writer that moves

uint64_t common_bytes(FileRange a, FileRange b) noexcept {
  const uint64_t begin = std::max(a.offset, b.offset);
  const uint64_t end = std::min(a.end(), b.end());
  return end > begin ? end - begin : 0;
}

}  // namespace

uint64_t WriteFollower::observe(const WriteSighting& seen) noexcept {
  const WriteSighting last = last_;
  // A write may have ended after the last look at the position, and before that at the total.
  const uint64_t written_before = std::exchange(written_before_, last.written_bytes);
  last_ = seen;
  if (!is_seen_) {
    is_seen_ = true;
    written_before_ = seen.written_bytes;
    // Somebody who has written so much has probably written all of it.
    const uint64_t begin = seen.position <= seen.written_bytes ? 0 : seen.position;
    written_ = {begin, seen.position - begin};
    out_to_ = begin;
    return written_.bytes;
  }
  if (seen.position != last.position) {
    const uint64_t most = seen.written_bytes - std::min(seen.written_bytes, written_before);
    const bool was_growing = is_growing_;
    is_growing_ = false;
    if (most == 0) return 0;  // it has read, or only sought
    uint64_t from = last.position;
    if (seen.position < from || seen.position - from > most) {
      from = seen.position - std::min(seen.position, most);  // it sought before it wrote
    }
    if (from == seen.position) return 0;
    const bool is_known = was_growing && from == grown_from_;
    return write({from, seen.position - from}, is_known || from == written_.end());
  }
  if (seen.file_bytes <= last.file_bytes) return 0;
  if (!is_growing_) grown_from_ = last.file_bytes;
  is_growing_ = true;
  return write({last.file_bytes, seen.file_bytes - last.file_bytes},
               last.file_bytes == written_.end());
}

/// Notes that the program has written a range, and returns how much of it is news. `continues`: it
/// follows all that was written before, apart from what is known of it already.
uint64_t WriteFollower::write(FileRange range, bool continues) noexcept {
  if (continues) {
    const uint64_t place = written_.end();
    const uint64_t news = std::max(place, range.end()) - place;
    rewritten_ += common_bytes({place, news}, former_early_);
    written_.bytes += news;
    return news;
  }
  if (early_.bytes != 0) former_early_ = early_;
  early_ = {};
  rewritten_ += common_bytes(range, former_early_);
  written_ = range;
  out_to_ = range.offset;
  return range.bytes;
}

/// A folio has up to 2 MiB where pages have 4 KiB, and up to 2048 pages where they are larger.
uint64_t WriteFollower::grain_bytes() const noexcept {
  constexpr uint64_t kPages = 512;
  constexpr uint64_t kLargePages = 2048;
  return page_bytes_ * (page_bytes_ == kPageBytes ? kPages : kLargePages);
}

std::optional<uint64_t> WriteFollower::witness() const noexcept {
  const uint64_t pages = written_.end() / page_bytes_;
  // The page of the place itself may be in the middle of a write.
  return pages >= 2 ? std::optional((pages - 2) * page_bytes_) : std::nullopt;
}

std::optional<FileRange> WriteFollower::next(bool stands_still,
                                             uint64_t most_bytes) const noexcept {
  const uint64_t grain = grain_bytes();
  const uint64_t piece = stands_still ? grain : kGrainsOfPiece * grain;
  uint64_t end = witness().value_or(0) / piece * piece;
  if (end - std::min(end, out_to_) > most_bytes) end = (out_to_ + most_bytes) / grain * grain;
  if (end <= out_to_) return std::nullopt;
  return FileRange{out_to_, end - out_to_};
}

void WriteFollower::handed_out(FileRange range, uint64_t bytes) noexcept {
  out_to_ = range.end();
  if (bytes == 0) return;
  early_ = early_.bytes == 0 ? range : FileRange{early_.offset, range.end() - early_.offset};
}

uint64_t WriteFollower::end_cycle() noexcept {
  early_ = {};
  former_early_ = {};
  return std::exchange(rewritten_, 0);
}

}  // namespace ioweave::stream
