#include "stream/watch/early_writer.hpp"

#include <algorithm>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "config/glob.hpp"
#include "engine/prefetch.hpp"

namespace ioweave::stream {
namespace {

constexpr uint64_t kMostAtOnceBytes = 64u << 20;
constexpr uint64_t kFewBytes = 8u << 20;        // written between two looks at a writer
constexpr uint64_t kLeastPeriodNs = 1'000'000;  // between two looks
constexpr uint64_t kMostPeriodNs = 10'000'000;  // while the writer moves, or may sync soon
constexpr uint64_t kIdlePeriodNs = 40'000'000;  // afterwards
constexpr uint64_t kStillNs = 20'000'000;       // then as much as possible is written
constexpr uint64_t kKeptNs = 1'000'000'000;     // then a file is closed
constexpr uint64_t kLetGoNs = 1'000'000'000;    // that a request waits for the kernel at most

uint64_t page_bytes() noexcept {
  static const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/') + 1);
}

}  // namespace

struct EarlyWriter::Writer {
  explicit Writer(const OpenFile& what) : file(what), follower(page_bytes()) {}

  OpenFile file;
  ProcFile position;
  WriteFollower follower;
  std::shared_ptr<const Descriptor> own;  ///< null: not open
  std::string path;                       ///< empty: not known yet
  EarlyTrial* trial = nullptr;            ///< of its folder; null: too little was written yet
  EarlyTrial::Cycle cycle;                ///< the present one
  uint64_t cycle_begin_ns = 0;
  std::optional<uint64_t> witness;  ///< the follower's, at the last look
  uint64_t looked_at_ns = 0;        ///< when the last look was
  uint64_t moved_ns = 0;            ///< when it last wrote something
  uint64_t look_ns = 0;
  bool refused = false;  ///< it cannot, or must not, be helped
  bool seen = true;      ///< by the present scan
};

EarlyWriter::EarlyWriter(const config::RunConfig& config, Run& run) : config_(config), run_(run) {}
EarlyWriter::~EarlyWriter() = default;

// ---- Whom to follow -----------------------------------------------------------------------------

void EarlyWriter::begin_scan() {
  for (auto& [key, writer] : writers_) writer.seen = false;
}

void EarlyWriter::meet(pid_t process, const OpenFile& file) {
  if (config_.early_writeback == config::EarlyWriteback::never) return;
  auto it = writers_.find({process, file.fd});
  if (it != writers_.end() &&
      (it->second.file.inode != file.inode || it->second.file.device != file.device)) {
    forget(it);
    it = writers_.end();
  }
  if (it == writers_.end()) {
    if (writers_.size() >= kMostWriters) return;
    it = writers_.try_emplace({process, file.fd}, file).first;
    it->second.position = ProcFile::of_position(process, file.fd);
  }
  it->second.seen = true;
}

void EarlyWriter::keep(pid_t process) {
  for (auto it = writers_.lower_bound({process, 0}); it != writers_.end(); ++it) {
    if (it->first.first != process) break;
    it->second.seen = true;
  }
}

void EarlyWriter::end_scan() {
  for (auto it = writers_.begin(); it != writers_.end();) {
    it = it->second.seen ? std::next(it) : forget(it);
  }
  std::erase_if(totals_, [&](const auto& entry) {
    const auto writer = writers_.lower_bound({entry.first, 0});
    return writer == writers_.end() || writer->first.first != entry.first;
  });
}

void EarlyWriter::forget_process(pid_t process) {
  for (auto it = writers_.lower_bound({process, 0}); it != writers_.end();) {
    if (it->first.first != process) break;
    it = forget(it);
  }
  totals_.erase(process);
}

EarlyWriter::Writers::iterator EarlyWriter::forget(Writers::iterator it) {
  end_cycle(it->second, was_synced(it->second), now_ns());
  return writers_.erase(it);
}

bool EarlyWriter::has_open() const noexcept {
  return !thread_.is_idle() || std::ranges::any_of(writers_, [](const auto& entry) {
    return entry.second.own != nullptr;
  });
}

void EarlyWriter::let_go() {
  for (auto& [key, writer] : writers_) writer.own.reset();
  thread_.cancel(kLetGoNs);
}

// ---- What to do about them ----------------------------------------------------------------------

uint64_t EarlyWriter::next_look_ns() const noexcept {
  uint64_t next = UINT64_MAX;
  for (const auto& [key, writer] : writers_) {
    if (!writer.refused) next = std::min(next, writer.look_ns);
  }
  return next;
}

bool EarlyWriter::look() {
  looked_ns_ = 0;
  bool has_closed = false;
  for (auto it = writers_.begin(); it != writers_.end();) {
    Writer& writer = it->second;
    const uint64_t now = now_ns();
    if (!writer.refused && now >= writer.look_ns) {
      look_at(it->first, writer, now);
      looked_ns_ += now_ns() - now;
    }
    const bool is_gone = writer.look_ns == UINT64_MAX;
    has_closed = has_closed || is_gone;
    it = is_gone ? forget(it) : std::next(it);
  }
  return has_closed;
}

/// Looks at a writer and sets its look_ns: UINT64_MAX if the file is not open any more.
void EarlyWriter::look_at(const Key& key, Writer& writer, uint64_t now) {
  const std::optional<Position> position = writer.position.position();
  if (!position || (position->inode != 0 && position->inode != writer.file.inode)) {
    writer.look_ns = UINT64_MAX;
    return;
  }
  const auto [process, is_new] = totals_.try_emplace(key.first);
  if (is_new) process->second = ProcFile::of_totals(key.first);
  const std::optional<IoTotals> totals = process->second.totals();
  const std::optional<uint64_t> bytes = bytes_of(key.first, key.second);
  writer.refused = !position->deferred_write || position->leased || !totals || !bytes;
  if (writer.refused) {
    writer.own.reset();
    return;
  }
  const bool is_first = writer.looked_at_ns == 0;
  const uint64_t before = std::exchange(writer.looked_at_ns, now);
  const uint64_t news = writer.follower.observe({position->offset, *bytes, totals->written_bytes});
  if (is_first) writer.moved_ns = now;
  if (news != 0) {
    if (writer.cycle.bytes == 0) {
      writer.cycle_begin_ns = before;
      writer.cycle.is_early = is_wanted(writer);
    }
    writer.cycle.bytes += news;
    writer.moved_ns = now;
  }
  const uint64_t still_ns = now - writer.moved_ns;
  const bool matters = writer.cycle.bytes >= EarlyTrial::kLeastBytes;
  if (writer.own == nullptr && matters && still_ns < kKeptNs && !open_own(key, writer)) {
    writer.look_ns = now + kIdlePeriodNs;
    return;
  }
  if (writer.own != nullptr) {
    if (writer.cycle.bytes != 0 && was_synced(writer)) end_cycle(writer, true, now);
    if (writer.cycle.is_early) write_early(writer, still_ns >= kStillNs);
    if (still_ns >= kKeptNs) writer.own.reset();
  }
  uint64_t period = still_ns >= kKeptNs ? kIdlePeriodNs : kMostPeriodNs;
  if (news != 0 && writer.cycle.is_early) {
    const double pace = static_cast<double>(now - before) / static_cast<double>(news);
    period = std::clamp(static_cast<uint64_t>(pace * kFewBytes), kLeastPeriodNs, kMostPeriodNs);
  }
  writer.look_ns = now + period;
}

/// Returns true if what it writes from now on should be written early.
bool EarlyWriter::is_wanted(const Writer& writer) const noexcept {
  return config_.early_writeback == config::EarlyWriteback::always ||
         (writer.trial != nullptr && writer.trial->wants_early());
}

bool EarlyWriter::open_own(const Key& key, Writer& writer) {
  if (!run_.may_open()) return false;
  if (writer.path.empty()) writer.path = path_of(key.first, key.second);
  writer.refused = run_.leaves_alone(writer.file.device, writer.file.inode) ||
                   config::policy_of(config_, writer.path) != config::RunPolicy::overlap ||
                   !is_on_local_disk(key.first, key.second);
  if (writer.refused) return false;
  auto own = std::make_shared<Descriptor>(open_again(key.first, writer.file));
  struct stat status {};
  // A file without a name will be gone soon.
  writer.refused = !own->is_open() || fstat(own->get(), &status) != 0 || status.st_nlink == 0;
  if (writer.refused) return false;
  writer.own = std::move(own);
  if (writer.trial == nullptr) {
    writer.trial = &trials_[folder_of(writer.path)];
    writer.cycle.is_early = is_wanted(writer);
  }
  return true;
}

/// Returns true if all that it had written by the last look is on the device. The kernel alone
/// writes the last page of a file that gets longer much later.
bool EarlyWriter::was_synced(Writer& writer) const {
  if (writer.own == nullptr) return false;
  const auto is_clean = [&](uint64_t page) {
    return engine::unwritten_bytes(writer.own->get(), page, page_bytes()) == 0u;
  };
  const std::optional<uint64_t> before = std::exchange(writer.witness, writer.follower.witness());
  return (writer.witness && is_clean(*writer.witness)) || (before && is_clean(*before));
}

void EarlyWriter::write_early(Writer& writer, bool stands_still) {
  if (!thread_.is_idle()) return;
  const bool is_always = config_.early_writeback == config::EarlyWriteback::always;
  const uint64_t most =
      is_always ? kMostAtOnceBytes : std::min(kMostAtOnceBytes, writer.trial->allowance());
  const std::optional<FileRange> range = writer.follower.next(stands_still, most);
  if (!range) return;
  const uint64_t bytes = engine::unwritten_bytes(writer.own->get(), range->offset, range->bytes)
                             .value_or(range->bytes);
  if (bytes != 0 && !thread_.write(writer.own, *range)) return;
  writer.follower.handed_out(*range, bytes);
  writer.cycle.early_bytes += bytes;
  writer.trial->note_early(bytes);
}

void EarlyWriter::end_cycle(Writer& writer, bool is_synced, uint64_t now) {
  EarlyTrial::Cycle cycle = std::exchange(writer.cycle, {});
  cycle.lost_bytes = writer.follower.end_cycle();
  if (writer.trial == nullptr || cycle.bytes == 0) return;
  cycle.ns = now - writer.cycle_begin_ns;
  cycle.is_synced = is_synced;
  const uint64_t lost_before = writer.trial->lost_bytes();
  writer.trial->note_end(cycle);
  if (cycle.early_bytes == 0) return;
  stats::EarlyWriteReport& report = reports_[writer.path];
  report.path = writer.path;
  report.device = writer.file.device;
  report.inode = writer.file.inode;
  ++report.cycles;
  report.bytes += cycle.early_bytes;
  report.lost_bytes += writer.trial->lost_bytes() - lost_before;
  if (const std::optional<double> saved = writer.trial->saved_seconds(cycle)) {
    report.saved_seconds += *saved;
    report.is_compared = true;
  }
}

std::vector<stats::EarlyWriteReport> EarlyWriter::finish() {
  while (!writers_.empty()) forget(writers_.begin());
  std::vector<stats::EarlyWriteReport> reports;
  for (auto& [path, report] : reports_) reports.push_back(std::move(report));
  reports_.clear();
  return reports;
}

}  // namespace ioweave::stream
