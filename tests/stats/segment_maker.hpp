#pragma once

// Fabricated segments, as the interposer would leave them. Shared by the tests of stats and cli.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "stats/segment.hpp"

namespace ioweave::stats::test {

inline constexpr uint64_t kTicksPerSecond = 1'000'000;

template <size_t N>
void set_text(char (&field)[N], std::string_view text) {
  const size_t length = text.copy(field, N - 1);
  field[length] = '\0';
}

/// Clocks of fabricated processes: one tick is a microsecond, and they run for ten seconds.
inline std::unique_ptr<Segment> make_segment(int32_t pid) {
  auto segment = std::make_unique<Segment>();
  segment->magic = kSegmentMagic;
  segment->version = config::kLayoutVersion;
  segment->bytes = sizeof(Segment);
  segment->state = Segment::State::exited;
  segment->pid = pid;
  segment->parent_pid = 1;
  segment->active = 1;
  segment->start_ns = 5'000'000'000;
  segment->start_ticks = 77 * kTicksPerSecond;
  segment->end_ns = 15'000'000'000;
  segment->end_ticks = 87 * kTicksPerSecond;
  set_text(segment->program, "/bin/fabricated");
  segment->files = 1;  // record 0
  return segment;
}

inline FileRecord& add_file(Segment& segment, std::string_view path) {
  FileRecord& record = segment.file[segment.files.fetch_add(1)];
  record.state = 2;
  record.opens = 1;
  record.policy = config::RunPolicy::overlap;
  set_text(record.path, path);
  return record;
}

inline void add_calls(FileRecord& record, CallClass which, uint64_t calls, uint64_t bytes,
                      double seconds) {
  CallCounters& counters = record.call[static_cast<size_t>(which)];
  counters.calls.add(calls, true);
  counters.bytes.add(bytes, false);
  counters.ticks.add(static_cast<uint64_t>(seconds * kTicksPerSecond), true);
}

inline void write_segment(const Segment& segment, const std::string& path,
                          size_t bytes = sizeof(Segment)) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return;
  std::fwrite(static_cast<const void*>(&segment), 1, bytes, file);
  std::fclose(file);
}

}  // namespace ioweave::stats::test
