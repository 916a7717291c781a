#include "stream/watch/position_recorder.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <poll.h>

#include "base/clock.hpp"
#include "stream/watch/proc_files.hpp"
#include "stream/watch/run_thread.hpp"

namespace ioweave::stream {
namespace {

constexpr uint64_t kLeastFileBytes = 1 << 20;
constexpr uint64_t kFirstSlotNs = 2'000'000;
constexpr uint64_t kMostLookNs = 50'000'000;
constexpr uint64_t kLooksInSlot = 2;
constexpr uint64_t kLookShare = 50;  // of the time
constexpr unsigned kLooksForScan = 8;
constexpr size_t kMostReaders = 256;

/// How long the first thread of a process ran and waited for a processor so far.
struct Runs {
  uint64_t ran_ns = 0;
  uint64_t queued_ns = 0;
};

Runs parse_runs(std::string_view text) {
  Runs runs;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, runs.ran_ns);
  if (first.ec == std::errc{} && first.ptr < end) {
    std::from_chars(first.ptr + 1, end, runs.queued_ns);
  }
  return runs;
}

template <class Number>
void join_list(std::vector<Number>& list) {
  const size_t half = list.size() / 2;
  for (size_t i = 0; i < half; ++i) list[i] = list[2 * i] + list[2 * i + 1];
  std::fill(list.begin() + static_cast<std::ptrdiff_t>(half), list.end(), Number{});
}

}  // namespace

void GrowingSeries::join_pairs() {
  join_list(values_.read_calls);
  join_list(values_.read_bytes);
  join_list(values_.read_turns);
  join_list(values_.read_seconds);
  slot_ns_ *= 2;
}

void GrowingSeries::add_read(uint64_t now_ns, uint64_t calls, uint64_t bytes, double seconds) {
  const uint64_t since = now_ns > start_ns_ ? now_ns - start_ns_ : 0;
  while (since / slot_ns_ >= kSlots) join_pairs();
  const size_t slot = since / slot_ns_;
  values_.read_calls[slot] += calls;
  values_.read_turns[slot] += calls;
  values_.read_bytes[slot] += bytes;
  values_.read_seconds[slot] += seconds;
}

stats::Series GrowingSeries::finished() const {
  stats::Series series = values_;
  size_t slots = kSlots;
  while (slots > 0 && series.read_bytes[slots - 1] == 0 && series.read_seconds[slots - 1] == 0) {
    --slots;
  }
  series.resize(slots);
  series.source = stats::Series::Source::positions;
  series.start_s = static_cast<double>(start_ns_) * 1e-9;
  series.slot_s = static_cast<double>(slot_ns_) * 1e-9;
  return series;
}

struct PositionRecorder::Shared {
  RunThread thread;
  std::vector<stats::FileReport> files;  ///< under its lock
};

class PositionRecorder::Thread {
 public:
  Thread(std::shared_ptr<Shared> shared, pid_t program)
      : shared_(std::move(shared)), program_(program) {}

  void run() {
    while (sleep()) {
      const uint64_t begin = now_ns();
      if (looks_++ % kLooksForScan == 0) scan(begin);
      for (auto& [pid, process] : processes_) look_at(pid, process);
      look_ns_ = now_ns() - begin;
    }
    publish();
  }

 private:
  struct Reader {
    FileId id;
    std::string path;
    ProcFile position;
    uint64_t offset = 0;
    bool has_moved = false;
    GrowingSeries series;
  };
  struct Process {
    ProcFile runs;
    ProcFile totals;
    Runs last_runs;
    uint64_t last_calls = 0;
    uint64_t last_ns = 0;
    double waited_s = 0;  ///< since one of its readers moved
    bool is_seen = true;
    std::map<int, Reader> readers;  ///< by descriptor
  };

  /// Returns false when the run has ended.
  [[nodiscard]] bool sleep() const {
    const uint64_t slot = processes_.empty() ? kFirstSlotNs : shortest_slot_ns();
    const uint64_t wanted = std::min(slot / kLooksInSlot, kMostLookNs);
    const uint64_t pause_ns = std::max(wanted, look_ns_ * kLookShare);
    const timespec pause{static_cast<time_t>(pause_ns / 1'000'000'000),
                         static_cast<long>(pause_ns % 1'000'000'000)};
    pollfd stop{shared_->thread.wake(), POLLIN, 0};
    return ppoll(&stop, 1, &pause, nullptr) == 0;
  }

  [[nodiscard]] uint64_t shortest_slot_ns() const {
    uint64_t shortest = UINT64_MAX;
    for (const auto& [pid, process] : processes_) {
      for (const auto& [fd, reader] : process.readers) {
        shortest = std::min(shortest, reader.series.slot_ns());
      }
    }
    return shortest == UINT64_MAX ? 4 * kFirstSlotNs : shortest;
  }

  void scan(uint64_t now) {
    for (auto& [pid, process] : processes_) process.is_seen = false;
    for (const pid_t pid : family_of(program_)) {
      const auto [found, is_new] = processes_.try_emplace(pid);
      Process& process = found->second;
      process.is_seen = true;
      if (is_new) begin(pid, process, now);
      scan_files(pid, process, now);
    }
    for (auto entry = processes_.begin(); entry != processes_.end();) {
      if (entry->second.is_seen) {
        ++entry;
        continue;
      }
      for (auto& [fd, reader] : entry->second.readers) keep(entry->first, reader);
      entry = processes_.erase(entry);
    }
  }

  static void begin(pid_t pid, Process& process, uint64_t now) {
    process.runs = ProcFile::of_runs(pid);
    process.totals = ProcFile::of_totals(pid);
    process.last_runs = parse_runs(process.runs.runs());
    process.last_ns = now;
    if (const auto totals = process.totals.totals()) process.last_calls = totals->read_calls;
  }

  void scan_files(pid_t pid, Process& process, uint64_t now) {
    std::set<int> open;
    for (const OpenFile& file : open_files_of(pid, kLeastFileBytes).files) {
      if (!file.is_read) continue;
      open.insert(file.fd);
      const auto found = process.readers.find(file.fd);
      if (found != process.readers.end()) {
        if (found->second.id == file.id) continue;
        keep(pid, found->second);
        process.readers.erase(found);
      }
      if (readers_ >= kMostReaders) continue;
      ++readers_;
      process.readers.emplace(
          file.fd, Reader{file.id, path_of(pid, file.fd), ProcFile::of_position(pid, file.fd), 0,
                          false, GrowingSeries(now, kFirstSlotNs)});
    }
    std::erase_if(process.readers, [&](auto& entry) {
      if (open.contains(entry.first)) return false;
      keep(pid, entry.second);
      return true;
    });
  }

  static void look_at(pid_t pid, Process& process) {
    (void)pid;
    const std::string text = process.runs.runs();
    if (text.empty()) return;
    const uint64_t now = now_ns();
    const Runs runs = parse_runs(text);
    const auto busy = static_cast<double>(runs.ran_ns - process.last_runs.ran_ns) +
                      static_cast<double>(runs.queued_ns - process.last_runs.queued_ns);
    process.waited_s += std::max(0.0, static_cast<double>(now - process.last_ns) - busy) * 1e-9;
    process.last_runs = runs;
    process.last_ns = now;
    share_out(process, now);
  }

  /// Returns how many bytes the reader has come further since the last look. The first look finds
  /// how far it came before.
  static uint64_t advance(Reader& reader) {
    const std::optional<Position> position = reader.position.position();
    if (!position.has_value() || !position->buffered_read) return 0;
    if (position->inode != 0 && position->inode != reader.id.inode) {
      return 0;  // the descriptor is another file's by now, which the next scan will find
    }
    const uint64_t now = position->offset;
    const uint64_t before = std::exchange(reader.offset, now);
    return now > before ? now - before : 0;
  }

  /// Returns how many calls of any kind read since the last look, or 1 where nobody can tell.
  static uint64_t count_new_calls(Process& process) {
    const std::optional<IoTotals> totals = process.totals.totals();
    if (!totals.has_value()) return 1;
    const uint64_t before = std::exchange(process.last_calls, totals->read_calls);
    return std::max<uint64_t>(1, totals->read_calls - before);
  }

  /// Gives the time that the process waited to those of its files in which it has moved, by bytes.
  static void share_out(Process& process, uint64_t now) {
    uint64_t moved = 0;
    std::map<int, uint64_t> moves;
    for (auto& [fd, reader] : process.readers) {
      const uint64_t way = advance(reader);
      if (way == 0) continue;
      moves[fd] = way;
      moved += way;
    }
    if (moved == 0) return;
    const uint64_t calls = count_new_calls(process);
    for (const auto& [fd, way] : moves) {
      const double share = static_cast<double>(way) / static_cast<double>(moved);
      Reader& reader = process.readers.at(fd);
      reader.has_moved = true;
      const auto its_calls = static_cast<uint64_t>(share * static_cast<double>(calls));
      reader.series.add_read(now, std::max<uint64_t>(1, its_calls), way, share * process.waited_s);
    }
    process.waited_s = 0;
  }

  void keep(pid_t pid, const Reader& reader) {
    if (!reader.has_moved || reader.path.empty()) return;
    stats::FileReport file;
    file.path = reader.path;
    file.device = reader.id.device;
    file.inode = reader.id.inode;
    file.policy = config::RunPolicy::off;
    file.series.push_back(reader.series.finished());
    file.series.back().pid = pid;
    kept_.push_back(std::move(file));
  }

  void publish() {
    for (auto& [pid, process] : processes_) {
      for (auto& [fd, reader] : process.readers) keep(pid, reader);
    }
    const auto guard = shared_->thread.lock();
    shared_->files = std::move(kept_);
  }

  std::shared_ptr<Shared> shared_;
  pid_t program_;
  std::map<pid_t, Process> processes_;
  std::vector<stats::FileReport> kept_;
  uint64_t looks_ = 0;
  uint64_t look_ns_ = 0;  ///< how long the last look took
  size_t readers_ = 0;    ///< met so far
};

PositionRecorder::PositionRecorder() : shared_(std::make_shared<Shared>()) {}
PositionRecorder::~PositionRecorder() = default;

void PositionRecorder::start(pid_t program) {
  shared_->thread.start(shared_, [shared = shared_, program] { Thread(shared, program).run(); });
}

std::vector<stats::FileReport> PositionRecorder::stop() {
  const auto guard = shared_->thread.stop();
  return std::move(shared_->files);
}

}  // namespace ioweave::stream
