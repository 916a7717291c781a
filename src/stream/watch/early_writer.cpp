#include "stream/watch/early_writer.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/page_bytes.hpp"
#include "config/glob.hpp"
#include "engine/prefetch.hpp"
#include "stream/watch/write_follower.hpp"

namespace ioweave::stream {
namespace {

constexpr uint64_t kMostAtOnceBytes = 16u << 20;
constexpr uint64_t kFewBytes = 8u << 20;        // written between two looks at a writer
constexpr uint64_t kLeastPeriodNs = 1'000'000;  // between two looks
constexpr uint64_t kMovingPeriodNs = 10'000'000;
constexpr uint64_t kSyncPeriodNs = 40'000'000;   // at one that stands still and may sync
constexpr uint64_t kIdlePeriodNs = 200'000'000;  // at one that stands still and has synced
constexpr uint64_t kStillNs = 20'000'000;        // then as much as possible is written
constexpr uint64_t kIdleNs = 10'000'000'000;     // then it gives way to other files
constexpr uint64_t kRestNs = 20'000'000;         // that what is under way may take for the rest
constexpr uint64_t kLookShare = 40;              // of the time, for looks
constexpr size_t kMostFiles = 1024;
constexpr uint64_t kLeastEarlyBytes = 2u << 20;  // that are written early at once
constexpr unsigned long kXfsMagic = 0x58465342;
using stats::EarlyHelp;

/// Each takes two descriptors; readers have half of what the command may have.
size_t most_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return std::clamp<size_t>(limit.rlim_cur / 8, 8, kMostFiles);
}

/// Returns what files of a program in a folder have in common. Numbers in the folder's name do not
/// count: a program that makes a new one for each checkpoint numbers them.
std::string use_of(const std::string& program, const std::string& path) {
  std::string use = program + '\n';
  for (const char letter : path.substr(0, path.rfind('/') + 1)) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(letter)) != 0;
    if (!is_digit) use += letter;
    if (is_digit && !use.ends_with('#')) use += '#';
  }
  return use;
}

}  // namespace

/// A descriptor by which a process may write a file.
struct EarlyWriter::Opener {
  pid_t process = 0;
  OpenFile file;
  ProcFile position;
  WriteFollower follower{page_bytes()};
  /// The follower's witness, once it was seen that the page is changed.
  std::optional<uint64_t> witness;
  bool sees_growth = false;  ///< writes that move no position count as its own
  bool is_seen = true;       ///< by the present scan

  /// Returns nothing if the descriptor is not this file any more.
  [[nodiscard]] std::optional<Position> find_position() const {
    const std::optional<Position> found = position.position();
    const bool is_same = found && (found->inode == 0 || found->inode == file.id.inode);
    return is_same ? found : std::nullopt;
  }
};

/// A file that processes have open for writing.
struct EarlyWriter::File {
  std::vector<Opener> openers;
  std::vector<uint64_t> witnesses;        ///< of those that are gone
  std::shared_ptr<const Descriptor> own;  ///< null: not open
  std::string path;                       ///< empty: not known yet
  bool is_xfs = false;                    ///< known when it is open
  uint64_t bytes = 0;
  EarlyTrial* trial = nullptr;  ///< of its use; null: too little was written yet
  EarlyTrial::Cycle cycle;      ///< the present one
  uint64_t cycle_begin_ns = 0;
  /// When the last look was; before the first one, a moment at which it was not open yet.
  uint64_t looked_at_ns = 0;
  uint64_t moved_ns = 0;  ///< when it was last written to
  uint64_t look_ns = 0;
  bool is_refused = false;  ///< it cannot, or must not, be helped
  /// Why the present cycle is helped or not, or why the file is refused.
  EarlyHelp why = EarlyHelp::small;
};

EarlyWriter::EarlyWriter(const config::RunConfig& config, Run& run)
    : config_(config), run_(run), most_files_(most_files()) {}
EarlyWriter::~EarlyWriter() = default;

// ---- Whom to follow -----------------------------------------------------------------------------

void EarlyWriter::begin_scan() {
  for (auto& [id, file] : files_) {
    for (Opener& opener : file.openers) opener.is_seen = false;
  }
}

void EarlyWriter::meet(pid_t process, const OpenFile& file, uint64_t since_ns) {
  // File systems without a block device are none of those that are followed.
  if (config_.early_writeback == config::EarlyWriteback::never || major(file.id.device) == 0)
    return;
  auto it = files_.find(file.id);
  if (it != files_.end()) {
    for (Opener& opener : it->second.openers) {
      if (opener.process != process || opener.file.fd != file.fd) continue;
      opener.is_seen = true;
      return;
    }
  }
  ProcFile position = ProcFile::of_position(process, file.fd);
  const bool is_known = position.position() && run_.written_bytes(process);
  if (!is_known || (it == files_.end() && !make_room())) return;
  if (it == files_.end()) {
    it = files_.try_emplace(file.id).first;
    it->second.looked_at_ns = since_ns;
    it->second.moved_ns = now_ns();
  }
  Opener opener;
  opener.process = process;
  opener.file = file;
  opener.position = std::move(position);
  opener.sees_growth = it->second.openers.empty();
  it->second.openers.push_back(std::move(opener));
}

/// Returns true if one more file can be followed.
bool EarlyWriter::make_room() {
  if (files_.size() < most_files_) return true;
  const auto idle = std::ranges::min_element(files_, {}, [](const auto& entry) {
    return entry.second.own != nullptr ? UINT64_MAX : entry.second.moved_ns;
  });
  if (idle->second.own != nullptr || now_ns() - idle->second.moved_ns < kIdleNs) return false;
  forget(idle);
  return true;
}

void EarlyWriter::keep(pid_t process) {
  for (auto& [id, file] : files_) {
    for (Opener& opener : file.openers) {
      opener.is_seen = opener.is_seen || opener.process == process;
    }
  }
}

void EarlyWriter::end_scan() {
  for (auto it = files_.begin(); it != files_.end();) {
    // One that has become small is not met any more.
    drop_openers(it->second,
                 [](const Opener& opener) { return !opener.is_seen && !opener.find_position(); });
    it = it->second.openers.empty() ? forget(it) : std::next(it);
  }
}

void EarlyWriter::forget_process(pid_t process) {
  for (auto it = files_.begin(); it != files_.end();) {
    drop_openers(it->second, [&](const Opener& opener) { return opener.process == process; });
    it = it->second.openers.empty() ? forget(it) : std::next(it);
  }
}

/// Forgets openers, but not what they tell of the present cycle.
template <class Predicate>
void EarlyWriter::drop_openers(File& file, Predicate is_dropped) {
  std::erase_if(file.openers, [&](Opener& opener) {
    if (!is_dropped(opener)) return false;
    if (opener.witness) file.witnesses.push_back(*opener.witness);
    file.cycle.lost_bytes += opener.follower.end_cycle();
    return true;
  });
}

EarlyWriter::Files::iterator EarlyWriter::forget(Files::iterator it) {
  File& file = it->second;
  const bool is_synced = was_synced(file);
  const bool is_begun = !is_synced && file.cycle.early_bytes != 0;
  end_cycle(it->first, file, is_synced, now_ns());
  struct stat status {};
  const bool has_name =
      file.own != nullptr && fstat(file.own->get(), &status) == 0 && status.st_nlink != 0;
  if (!has_name && in_thread_ == it->first) (void)thread_.cancel(0);
  if (has_name && file.is_xfs && is_begun && thread_.cancel(kRestNs)) {
    (void)thread_.write(file.own, {0, static_cast<uint64_t>(status.st_size)});
  }
  return files_.erase(it);
}

void EarlyWriter::finish() {
  while (!files_.empty()) forget(files_.begin());
}

bool EarlyWriter::has_open() const noexcept {
  return !thread_.is_idle() ||
         std::ranges::any_of(files_, [](const auto& entry) { return entry.second.own != nullptr; });
}

bool EarlyWriter::let_go(uint64_t most_ns) {
  for (auto& [id, file] : files_) file.own.reset();
  return thread_.cancel(most_ns);
}

// ---- What to do about them ----------------------------------------------------------------------

uint64_t EarlyWriter::next_look_ns() const noexcept {
  uint64_t next = UINT64_MAX;
  for (const auto& [id, file] : files_) next = std::min(next, file.look_ns);
  return next == UINT64_MAX ? next : std::max(next, may_look_ns_);
}

bool EarlyWriter::look() {
  const uint64_t begin = now_ns();
  if (begin < may_look_ns_) return false;
  bool has_closed = false;
  for (auto it = files_.begin(); it != files_.end();) {
    File& file = it->second;
    const uint64_t now = now_ns();
    if (now >= file.look_ns) look_at(it->first, file, now);
    const bool is_gone = file.openers.empty();
    has_closed = has_closed || is_gone;
    it = is_gone ? forget(it) : std::next(it);
  }
  const uint64_t end = now_ns();
  may_look_ns_ = end + (end - begin) * kLookShare;
  return has_closed;
}

/// Looks at a file and sets its look_ns. Without an opener it is not open any more.
void EarlyWriter::look_at(const FileId& id, File& file, uint64_t now) {
  const uint64_t before = file.looked_at_ns;
  const uint64_t written_before = file.cycle.bytes;
  if (!see(id, file, now)) {
    file.look_ns = now + kIdlePeriodNs;
    return;
  }
  const uint64_t still_ns = now - file.moved_ns;
  if (file.own == nullptr && file.cycle.bytes >= EarlyTrial::kLeastBytes && !open_own(id, file)) {
    file.look_ns = now + kSyncPeriodNs;
    return;
  }
  if (file.own != nullptr) {
    if (file.cycle.bytes != 0 && was_synced(file)) end_cycle(id, file, true, now);
    if (file.cycle.is_early) write_early(id, file, still_ns >= kStillNs);
  }
  const uint64_t news = file.cycle.bytes - std::min(file.cycle.bytes, written_before);
  uint64_t period = kMovingPeriodNs;
  if (news != 0 && file.cycle.is_early) {
    const double pace = static_cast<double>(now - before) / static_cast<double>(news);
    period = std::clamp(static_cast<uint64_t>(pace * kFewBytes), kLeastPeriodNs, kMovingPeriodNs);
  } else if (still_ns > kMovingPeriodNs) {
    period = std::min(still_ns, file.cycle.bytes != 0 ? kSyncPeriodNs : kIdlePeriodNs);
  }
  file.look_ns = now + period;
}

/// Looks where its writers are. Returns false if there is nothing to do about it.
bool EarlyWriter::see(const FileId& id, File& file, uint64_t now) {
  uint64_t news = 0;
  std::optional<NamedBytes> status;
  std::vector<pid_t> processes;
  bool waits = false;
  bool is_leased = false;
  drop_openers(file, [&](Opener& opener) {
    const std::optional<Position> position = opener.find_position();
    if (position && !status) status = bytes_of(opener.process, opener.file);
    const std::optional<uint64_t> written =
        position && status ? run_.written_bytes(opener.process) : std::nullopt;
    if (!written) return true;
    waits = waits || !position->deferred_write;
    is_leased = is_leased || position->leased;
    // Of several descriptors of a process the first one counts: most are one description.
    if (std::ranges::find(processes, opener.process) != processes.end()) return false;
    processes.push_back(opener.process);
    news += opener.follower.observe(
        {position->offset, opener.sees_growth ? status->bytes : 0, *written});
    return false;
  });
  if (!status || file.openers.empty()) return false;
  if (status->bytes < file.bytes) {  // truncated: that is no sync
    end_cycle(id, file, false, now);
    news = 0;
  }
  file.bytes = status->bytes;
  note_news(file, news, now);
  // A file without a name will be gone soon.
  if ((waits || is_leased || !status->has_name) && !file.is_refused) {
    file.is_refused = true;
    file.why = waits ? EarlyHelp::waits : is_leased ? EarlyHelp::leased : EarlyHelp::nameless;
    end_cycle(id, file, false, now);
    run_.explain(id, file.path, {file.why, {}});
    if (in_thread_ == id) (void)thread_.cancel(0);
  }
  return !file.is_refused;
}

void EarlyWriter::note_news(File& file, uint64_t news, uint64_t now) {
  const uint64_t before = std::exchange(file.looked_at_ns, now);
  if (news == 0) return;
  if (file.cycle.bytes == 0) {
    file.cycle_begin_ns = before;
    decide(file);
  }
  file.cycle.bytes += news;
  file.moved_ns = now;
}

/// Decides whether what is written to it from now on should be written early.
void EarlyWriter::decide(File& file) const noexcept {
  const bool is_always = config_.early_writeback == config::EarlyWriteback::always;
  file.cycle.is_early = is_always || (file.trial != nullptr && file.trial->wants_early());
  if (file.is_refused) return;
  file.why = is_always               ? EarlyHelp::early
             : file.trial != nullptr ? file.trial->why()
                                     : EarlyHelp::small;
}

bool EarlyWriter::open_own(const FileId& id, File& file) {
  const Opener& opener = file.openers.front();
  if (!run_.may_open(opener.process)) {
    if (file.trial == nullptr) file.why = EarlyHelp::listened;
    return false;
  }
  const EarlyHelp why_not = why_not_opened(id, file);
  file.is_refused = why_not != EarlyHelp::early;
  if (file.is_refused) {
    file.why = why_not;
    return false;
  }
  if (file.trial == nullptr) {
    file.trial = &trials_[use_of(program_of(opener.process), file.path)];
    decide(file);
  }
  return true;
}

/// Opens the file, or returns why it is refused.
EarlyHelp EarlyWriter::why_not_opened(const FileId& id, File& file) {
  const Opener& opener = file.openers.front();
  if (run_.leaves_alone(id)) return EarlyHelp::mpiio;
  // Asked before it is opened: opening a file on FUSE could be noticed.
  file.path = path_of(opener.process, opener.file.fd);
  if (!config::overlaps(config::policy_of(config_, file.path))) return EarlyHelp::policy;
  const std::optional<unsigned long> kind = file_system_of(opener.process, opener.file.fd);
  if (kind != EXT4_SUPER_MAGIC && kind != kXfsMagic) return EarlyHelp::file_system;
  auto own = std::make_shared<Descriptor>(open_again(opener.process, opener.file));
  if (!own->is_open()) return EarlyHelp::not_opened;
  const bool tells = engine::unwritten_bytes(own->get(), 0, 1).has_value();
  if (!tells && config_.early_writeback != config::EarlyWriteback::always) {
    return EarlyHelp::not_told;
  }
  file.is_xfs = kind == kXfsMagic;
  file.own = std::move(own);
  return EarlyHelp::early;
}

/// Returns true if all that was written by the last look is on the device.
bool EarlyWriter::was_synced(File& file) const {
  struct stat status {};
  if (file.own == nullptr || fstat(file.own->get(), &status) != 0) return false;
  const auto is_changed = [&](uint64_t page) {
    return engine::unwritten_bytes(file.own->get(), page, page_bytes()).value_or(0) != 0;
  };
  bool was_changed = false;
  bool is_still_changed = false;
  const auto ask = [&](uint64_t witness) {
    if (witness >= static_cast<uint64_t>(status.st_size)) return;  // cut off
    was_changed = true;
    is_still_changed = is_still_changed || is_changed(witness);
  };
  for (const uint64_t witness : file.witnesses) ask(witness);
  for (Opener& opener : file.openers) {
    if (opener.witness) ask(*opener.witness);
    const std::optional<uint64_t> now = opener.follower.witness();
    if (now && now != opener.witness && is_changed(*now)) opener.witness = now;
  }
  return was_changed && !is_still_changed;
}

void EarlyWriter::write_early(const FileId& id, File& file, bool stands_still) {
  if (!thread_.is_idle()) return;
  const bool is_always = config_.early_writeback == config::EarlyWriteback::always;
  for (Opener& opener : file.openers) {
    const uint64_t most =
        is_always ? kMostAtOnceBytes : std::min(kMostAtOnceBytes, file.trial->allowance());
    const std::optional<FileRange> range = opener.follower.next(stands_still, most);
    if (!range) continue;
    const uint64_t bytes = engine::unwritten_bytes(file.own->get(), range->offset, range->bytes)
                               .value_or(range->bytes);
    if (bytes != 0) {
      if (!thread_.write(file.own, *range)) return;
      in_thread_ = id;
    }
    opener.follower.handed_out(*range, bytes);
    file.cycle.early_bytes += bytes;
    file.trial->note_early(bytes);
  }
}

/// Returns why something was done in a cycle that has ended, or nothing.
EarlyHelp EarlyWriter::why(const File& file, const EarlyTrial::Cycle& cycle) const noexcept {
  if (cycle.early_bytes != 0) return EarlyHelp::early;
  if (file.is_refused || file.why == EarlyHelp::listened) return file.why;
  if (cycle.bytes < EarlyTrial::kLeastBytes) return EarlyHelp::small;
  if (file.why == EarlyHelp::first && !cycle.is_synced) return EarlyHelp::unsynced;
  if (file.why != EarlyHelp::early) return file.why;
  const bool is_limited = config_.early_writeback != config::EarlyWriteback::always;
  return is_limited && file.trial->allowance() < kLeastEarlyBytes ? EarlyHelp::lost
                                                                  : EarlyHelp::late;
}

void EarlyWriter::end_cycle(const FileId& id, File& file, bool is_synced, uint64_t now) {
  EarlyTrial::Cycle cycle = std::exchange(file.cycle, {});
  file.witnesses.clear();
  for (Opener& opener : file.openers) {
    cycle.lost_bytes += opener.follower.end_cycle();
    opener.witness.reset();
  }
  if (cycle.bytes == 0) return;
  cycle.ns = now - file.cycle_begin_ns;
  cycle.is_synced = is_synced;
  const EarlyHelp why = this->why(file, cycle);
  if (file.trial == nullptr) {
    run_.explain(id, file.path, {why, {}});
    return;
  }
  const uint64_t lost_before = file.trial->lost_bytes();
  file.trial->note_end(cycle);
  run_.explain(id, file.path, {why, file.trial->paces()});
  if (cycle.early_bytes == 0) return;
  const std::optional<double> saved = file.trial->saved_seconds(cycle);
  run_.report({file.path,
               id.device,
               id.inode,
               {1, cycle.early_bytes, file.trial->lost_bytes() - lost_before},
               saved.value_or(0),
               saved.has_value()});
}

}  // namespace ioweave::stream
