#include "stream/watch/process_segment.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace ioweave::stream {
namespace {

using stats::FileRecord;
using stats::Segment;

constexpr uint32_t kUsed = 2;
constexpr size_t kAlike = 3;  // places that show a pattern

/// The plain bytes of a record. Another process may write to it meanwhile; every value is a hint.
struct RecordBytes {
  alignas(FileRecord) std::byte bytes[sizeof(FileRecord)];
  [[nodiscard]] const FileRecord& record() const {
    return *reinterpret_cast<const FileRecord*>(bytes);
  }
};

/// Returns the mean size of a read times the reads behind a seek. The last may be under way.
uint64_t bytes_behind_seek(const Places& places) {
  const uint64_t seeks = std::max<uint64_t>(places.count, 1);
  const uint64_t calls = std::max<uint64_t>(places.read_calls, 1);
  return places.read_bytes / calls * ((calls + seeks - 1) / seeks);
}

}  // namespace

std::optional<PlacePattern> pattern_of(const Places& places) {
  const size_t known = places.last.size();
  if (known < kAlike) return std::nullopt;
  const Places::Place* const last = places.last.data() + known - kAlike;
  const auto step = [&](size_t i) {
    return static_cast<int64_t>(last[i + 1].offset - last[i].offset);
  };
  const bool are_reads =
      std::all_of(last, last + kAlike, [](const auto& p) { return p.bytes != 0; });
  if (are_reads && last[0].offset + last[0].bytes == last[1].offset &&
      last[1].offset + last[1].bytes == last[2].offset) {
    return PlacePattern{last[2].offset + last[2].bytes, 0, 0};
  }
  if (step(0) != step(1) || step(0) == 0) return std::nullopt;
  const uint64_t record = last[2].bytes != 0 ? last[2].bytes : bytes_behind_seek(places);
  const auto forward = static_cast<uint64_t>(step(0));
  const uint64_t way = step(0) < 0 ? 0 - forward : forward;
  // If records touch or overlap, the position shows it.
  if (record == 0 || way <= record) return std::nullopt;
  return PlacePattern{last[2].offset, step(0), record};
}

ProcessSegment::ProcessSegment(const std::string& run_directory, pid_t process) {
  if (!run_directory.empty()) prefix_ = run_directory + "/" + std::to_string(process) + "-";
}

bool ProcessSegment::refresh() {
  while (!prefix_.empty()) {
    const std::string path = prefix_ + std::to_string(image_ + 1) + ".segment";
    Descriptor newer(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!newer.is_open()) break;
    file_ = std::move(newer);
    ++image_;
  }
  return file_.is_open();
}

bool ProcessSegment::read_at(uint64_t offset, void* to, size_t bytes) const {
  return file_.is_open() &&
         pread(file_.get(), to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

std::vector<uint32_t> ProcessSegment::placed_records() const {
  std::vector<uint32_t> placed;
  uint64_t magic = 0;
  uint32_t version = 0;
  uint32_t files = 0;
  if (!read_at(offsetof(Segment, magic), &magic, sizeof magic) || magic != stats::kSegmentMagic ||
      !read_at(offsetof(Segment, version), &version, sizeof version) ||
      version != config::kLayoutVersion ||
      !read_at(offsetof(Segment, files), &files, sizeof files)) {
    return placed;
  }
  files = std::min(files, Segment::kFiles);
  const auto records = std::make_unique<RecordBytes[]>(files);
  if (!read_at(offsetof(Segment, file), records.get(), files * sizeof(FileRecord))) return placed;
  for (uint32_t i = 1; i < files; ++i) {  // record 0 gathers files beyond the capacity
    const FileRecord& record = records[i].record();
    if (record.state.load(std::memory_order_relaxed) == kUsed &&
        record.places.load(std::memory_order_relaxed) >= kAlike) {
      placed.push_back(i);
    }
  }
  return placed;
}

std::optional<Places> ProcessSegment::places_of(uint32_t record) const {
  RecordBytes bytes;
  if (record >= Segment::kFiles ||
      !read_at(offsetof(Segment, file) + record * sizeof(FileRecord), &bytes, sizeof bytes)) {
    return std::nullopt;
  }
  const FileRecord& file = bytes.record();
  Places places;
  places.id = {file.device, file.inode};
  places.count = file.places.load(std::memory_order_relaxed);
  const stats::CallCounters& reads = file.call[static_cast<size_t>(stats::CallClass::read)];
  places.read_bytes = reads.bytes.value();
  places.read_calls = reads.calls.value();
  const auto kept = static_cast<uint32_t>(file.place.size());
  for (uint32_t n = places.count - std::min(places.count, kept); n != places.count; ++n) {
    const stats::Place& place = file.place[n % kept];
    places.last.push_back({place.offset.load(std::memory_order_relaxed),
                           place.bytes.load(std::memory_order_relaxed)});
  }
  return places;
}

}  // namespace ioweave::stream
