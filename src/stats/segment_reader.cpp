#include "stats/segment_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.hpp"

namespace ioweave::stats {
namespace {

constexpr std::string_view kSuffix = ".segment";
constexpr size_t kHeadBytes = offsetof(Segment, file);
constexpr size_t kSeriesOffset = offsetof(Segment, series);
constexpr size_t kChoiceOffset = offsetof(Segment, choice);

/// Sums counters that may still change. All loads are relaxed, except that of the record's state,
/// whose acquire pairs with the release of the thread that filled the record.
uint64_t load(const std::atomic<uint64_t>& counter) noexcept {
  return counter.load(std::memory_order_relaxed);
}

template <size_t N>
std::string text(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

template <typename Enum, size_t N>
Enum checked(uint32_t value, const std::array<std::string_view, N>& names, Enum otherwise) {
  return value < names.size() ? static_cast<Enum>(value) : otherwise;
}

double finite(float value) {
  return std::isfinite(value) ? static_cast<double>(value) : 0;
}

bool read_fully(int fd, void* buffer, size_t bytes, off_t offset) noexcept {
  auto* at = static_cast<char*>(buffer);
  while (bytes > 0) {
    const ssize_t got = pread(fd, at, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    offset += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

/// Turns ticks into seconds at the rate between two pairs of one process.
class TickScale {
 public:
  TickScale(ClockPair start, ClockPair end) noexcept {
    if (end.ticks > start.ticks && end.ns > start.ns) {
      seconds_per_tick_ = static_cast<double>(end.ns - start.ns) * 1e-9 /
                          static_cast<double>(end.ticks - start.ticks);
    }
  }
  /// Returns the moment of `ticks` on the monotonic clock.
  [[nodiscard]] double moment_s(ClockPair start, uint64_t ticks) const noexcept {
    return static_cast<double>(start.ns) * 1e-9 +
           signed_seconds(static_cast<int64_t>(ticks - start.ticks));
  }
  [[nodiscard]] double seconds(uint64_t ticks) const noexcept {
    return static_cast<double>(ticks) * seconds_per_tick_;
  }
  [[nodiscard]] double signed_seconds(int64_t ticks) const noexcept {
    return static_cast<double>(ticks) * seconds_per_tick_;
  }

 private:
  double seconds_per_tick_ = 0;
};

bool is_used(const SeriesSlot& slot) noexcept {
  return load(slot.read_calls) + load(slot.write_calls) + load(slot.sync_ticks) > 0;
}

/// Returns the series as plain values, without slots behind the last one in use. Nothing if it is
/// empty or makes no sense.
std::vector<Series> series_report(const FileSeries& series, int32_t pid, ClockPair start,
                                  const TickScale& scale) {
  const uint32_t shift = series.shift.load(std::memory_order_relaxed);
  uint32_t slots = FileSeries::kSlots;
  while (slots > 0 && !is_used(series.slot[slots - 1])) --slots;
  if (slots == 0 || shift >= 64) return {};
  Series out;
  out.pid = pid;
  out.start_s = scale.moment_s(start, load(series.start_ticks));
  out.slot_s = scale.seconds(uint64_t{1} << shift);
  out.jumps = load(series.jumps);
  out.resize(slots);
  for (uint32_t i = 0; i < slots; ++i) {
    const SeriesSlot& slot = series.slot[i];
    out.read_calls[i] = load(slot.read_calls);
    out.read_bytes[i] = load(slot.read_bytes);
    out.read_seconds[i] = scale.seconds(load(slot.read_ticks));
    out.read_turns[i] = slot.read_turns.load(std::memory_order_relaxed);
    out.write_calls[i] = load(slot.write_calls);
    out.write_bytes[i] = load(slot.write_bytes);
    out.write_seconds[i] = scale.seconds(load(slot.write_ticks));
    out.write_turns[i] = slot.write_turns.load(std::memory_order_relaxed);
    out.sync_seconds[i] = scale.seconds(load(slot.sync_ticks));
  }
  return {std::move(out)};
}

FileReport file_report(const FileRecord& record, bool is_overflow, const TickScale& scale) {
  FileReport file;
  if (!is_overflow) file.path = text(record.path);
  file.device = record.device;
  file.inode = record.inode;
  file.policy = checked(static_cast<uint32_t>(record.policy), config::kRunPolicyNames,
                        config::RunPolicy::off);
  file.degrade =
      checked(record.degrade.load(std::memory_order_relaxed), kDegradeNames, Degrade::none);
  file.opens = record.opens;
  for (size_t i = 0; i < kCallClasses; ++i) {
    const CallCounters& counters = record.call[i];
    file.call[i] = {counters.calls.value(), counters.bytes.value(), counters.errors.value(),
                    scale.seconds(counters.ticks.value())};
  }
  return file;
}

/// Nothing if the record makes no sense.
std::optional<ChoiceReport> choice_report(const ChoiceRecord& record, int32_t pid) {
  const choice::WayChoice& choice = record.choice;
  const auto is_way = [](choice::Way way) { return static_cast<size_t>(way) < choice::kWays; };
  if (static_cast<size_t>(record.operation) >= choice::kOperations ||
      record.size_class >= choice::kSizeClasses || !is_way(choice.in_use()) ||
      !is_way(choice.first())) {
    return {};
  }
  ChoiceReport out;
  out.pid = pid;
  out.operation = record.operation;
  out.size_class = record.size_class;
  out.in_use = choice.in_use();
  out.first = choice.first();
  out.used_since_bytes = choice.used_since_bytes();
  out.pieces = record.pieces;
  for (size_t i = 0; i < choice::kWays; ++i) {
    const auto way = static_cast<choice::Way>(i);
    const choice::WayChoice::Seen& seen = choice.seen(way);
    out.of[i] = {choice.usable().has(way),
                 seen.calls,
                 seen.bytes,
                 static_cast<double>(seen.ns) * 1e-9,
                 seen.refused,
                 seen.examined,
                 finite(choice.expected(way)),
                 finite(choice.measured(way))};
  }
  return out;
}

/// Adds the choices that a file's calls were made by.
void add_choices(const Segment& segment, uint32_t number, FileReport& file) {
  for (const ChoiceRecord& record : segment.choice) {
    if (record.state.load(std::memory_order_acquire) != 1 || record.file != number) continue;
    if (auto choice = choice_report(record, segment.pid)) file.choices.push_back(*choice);
  }
}

LargePagesReport large_pages_report(const choice::LargePages& trial) {
  using choice::LargePages;
  LargePagesReport out;
  out.bytes = trial.converted_bytes();
  out.seconds = static_cast<double>(trial.converting_ns()) * 1e-9;
  for (size_t operation = 0; operation < choice::kOperations; ++operation) {
    for (size_t size = 0; size < choice::kVectored; ++size) {
      const auto which = static_cast<choice::Operation>(operation);
      const LargePages::Kind& kind = trial.kind(which, size);
      const auto verdict = static_cast<size_t>(kind.verdict);
      const bool is_used = kind.large.count() > 0 || kind.verdict != LargePages::Verdict::unknown;
      if (!is_used || verdict >= LargePages::kVerdicts) continue;
      const float large = kind.large.median();
      out.kinds.push_back({which, static_cast<uint32_t>(size),
                           large > 0 ? finite(kind.small.median() / large) : 0, kind.verdict});
    }
  }
  return out;
}

bool was_used(const FileReport& file) {
  return file.opens > 0 || std::any_of(file.call.begin(), file.call.end(),
                                       [](const CallTotals& totals) { return totals.calls > 0; });
}

ProcessReport::End how_it_ended(const Segment& segment) {
  switch (segment.state.load(std::memory_order_relaxed)) {
    case Segment::State::exited:
      return ProcessReport::End::exited;
    case Segment::State::replaced:
      return ProcessReport::End::replaced;
    case Segment::State::running:
      break;
  }
  const bool gone = segment.pid <= 0 || (kill(segment.pid, 0) != 0 && errno == ESRCH);
  return gone ? ProcessReport::End::killed : ProcessReport::End::running;
}

/// Returns a pair after the start, for the rate: the process's own if it left one.
ClockPair end_pair(const Segment& segment, ClockPair now) {
  const ClockPair own{load(segment.end_ns), load(segment.end_ticks)};
  return own.ns > segment.start_ns && own.ticks > segment.start_ticks ? own : now;
}

ProcessReport process_report(const Segment& segment, ClockPair end) {
  ProcessReport process;
  process.pid = segment.pid;
  process.parent_pid = segment.parent_pid;
  process.active = segment.active != 0;
  process.end = how_it_ended(segment);
  process.seconds =
      end.ns > segment.start_ns ? static_cast<double>(end.ns - segment.start_ns) * 1e-9 : 0;
  process.program = text(segment.program);
  process.engine = text(segment.engine);
  process.why = text(segment.why);
  process.engine_operations = load(segment.engine_operations);
  process.large_pages = large_pages_report(segment.large_pages.trial);
  return process;
}

SegmentState check_head(const Segment& segment, std::string& why) {
  if (segment.magic == 0) return SegmentState::incomplete;
  if (segment.magic != kSegmentMagic) {
    why = "is not a segment (wrong magic number)";
    return SegmentState::invalid;
  }
  if (segment.version != config::kLayoutVersion || segment.bytes != sizeof(Segment)) {
    why = "was written by another version of libioweave_preload.so";
    return SegmentState::invalid;
  }
  return SegmentState::usable;
}

/// Reads head and used records into `segment`, whose rest stays zero.
SegmentState load_segment(int fd, Segment& segment, uint32_t& records, std::string& why) {
  struct stat status {};
  if (fstat(fd, &status) != 0 || static_cast<size_t>(status.st_size) < kHeadBytes) {
    return SegmentState::incomplete;
  }
  if (!read_fully(fd, &segment, kHeadBytes, 0)) return SegmentState::incomplete;
  const SegmentState state = check_head(segment, why);
  if (state != SegmentState::usable) return state;
  records = std::min(segment.files.load(std::memory_order_relaxed), Segment::kFiles);
  const uint32_t series =
      std::min(segment.series_in_use.load(std::memory_order_relaxed), Segment::kSeries);
  if (!read_fully(fd, segment.file, records * sizeof(FileRecord), off_t{kHeadBytes}) ||
      !read_fully(fd, segment.series, series * sizeof(FileSeries), off_t{kSeriesOffset})) {
    why = "is shorter than its own head says";
    return SegmentState::invalid;
  }
  if (load(segment.choices) != 0 &&
      !read_fully(fd, segment.choice, sizeof(Segment) - kChoiceOffset, off_t{kChoiceOffset})) {
    why = "is shorter than its own head says";
    return SegmentState::invalid;
  }
  return SegmentState::usable;
}

}  // namespace

ClockPair ClockPair::now() noexcept {
  return {now_ns(), now_ticks()};
}

bool is_segment_name(std::string_view name) noexcept {
  if (!name.ends_with(kSuffix)) return false;
  name.remove_suffix(kSuffix.size());
  const char* const end = name.data() + name.size();
  uint32_t number = 0;
  const auto pid = std::from_chars(name.data(), end, number);
  if (pid.ec != std::errc{} || pid.ptr == end || *pid.ptr != '-') return false;
  const auto count = std::from_chars(pid.ptr + 1, end, number);
  return count.ec == std::errc{} && count.ptr == end;
}

SegmentState read_segment(int directory, const std::string& name, ClockPair now,
                          SegmentContents& out, std::string& why) {
  const int fd = openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    why = std::strerror(errno);
    return SegmentState::invalid;
  }
  // The kernel gives zeroed pages, and only the records in use are touched.
  const std::unique_ptr<void, decltype(&std::free)> memory(std::calloc(1, sizeof(Segment)),
                                                           &std::free);
  if (memory == nullptr) {
    close(fd);
    why = std::strerror(ENOMEM);
    return SegmentState::invalid;
  }
  auto* const segment = static_cast<Segment*>(memory.get());
  uint32_t records = 0;
  const SegmentState state = load_segment(fd, *segment, records, why);
  close(fd);
  if (state != SegmentState::usable) return state;

  const ClockPair end = end_pair(*segment, now);
  const ClockPair start{segment->start_ns, segment->start_ticks};
  const TickScale scale(start, end);
  out.process = process_report(*segment, end);
  out.process.start_seconds = static_cast<double>(start.ns) * 1e-9;
  out.process.series = series_report(segment->series[0], segment->pid, start, scale);
  out.files.clear();
  for (uint32_t i = 0; i < records; ++i) {
    const FileRecord& record = segment->file[i];
    // Record 0 is the shared one and is never claimed by a path.
    if (i != 0 && record.state.load(std::memory_order_acquire) != 2) continue;
    FileReport file = file_report(record, i == 0, scale);
    const uint32_t number = record.series.load(std::memory_order_relaxed);
    if (number != 0 && number < Segment::kSeries) {
      file.series = series_report(segment->series[number], segment->pid, start, scale);
    }
    add_choices(*segment, i, file);
    for (const ChoiceReport& choice : file.choices) {
      out.process.engine_cost_seconds += choice.engine_cost_seconds();
    }
    if (was_used(file)) out.files.push_back(std::move(file));
  }
  return SegmentState::usable;
}

}  // namespace ioweave::stats
