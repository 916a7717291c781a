#include "stream/watch/replay/replayer.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <tuple>

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/file_system_kind.hpp"
#include "base/file_time.hpp"
#include "engine/prefetch.hpp"
#include "engine/read_ahead_walk.hpp"
#include "stream/watch/replay/plan_follower.hpp"

namespace ioweave::stream {
namespace {

constexpr uint64_t kBusyLookNs = 500'000;     // while the program reads what the plan names
constexpr uint64_t kIdleLookNs = 5'000'000;   // while it does not
constexpr uint64_t kIdleNs = 50'000'000;      // behind its last read
constexpr uint64_t kStillNs = 100'000'000;    // then its file is closed here
constexpr uint64_t kOpenAgainNs = 5'000'000;  // behind a file whose opener was not found
constexpr unsigned kAsksPerTurn = 64;
constexpr unsigned kAsksAhead = 32;               // of a file that was not read yet
constexpr size_t kFilesAhead = 32;                // of such files
constexpr uint64_t kBegunBytes = 8u << 20;        // of all of them
constexpr uint64_t kBegunOfFileBytes = 2u << 20;  // of one
constexpr uint64_t kStretchBytes = 8u << 20;      // mean way in order that is left to the follower

/// Returns true if the ordinary follower reads it ahead as well, and cheaper.
bool is_in_order(const PlannedReads& reads) {
  return reads.bytes() / (reads.jumps() + 1) >= kStretchBytes;
}

/// Returns the files on which somebody holds a lease, by /proc/locks: opening one would be noticed.
std::set<std::tuple<unsigned, unsigned, ino_t>> leased_files() {
  std::set<std::tuple<unsigned, unsigned, ino_t>> found;
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    const size_t kind = line.find("LEASE");
    const size_t colon = line.find(':', kind);
    const size_t begin = colon == std::string::npos ? colon : line.rfind(' ', colon);
    if (kind == std::string::npos || begin == std::string::npos) continue;
    unsigned major = 0;
    unsigned minor = 0;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str() + begin, " %x:%x:%lu", &major, &minor, &inode) == 3) {
      found.emplace(major, minor, inode);
    }
  }
  return found;
}

}  // namespace

/// A file of the plan.
struct Replayer::File {
  File(const PlannedFile& its, size_t number) : planned(&its), index(number) {}

  const PlannedFile* planned;
  size_t index;
  std::string path;
  FileId id;
  uint64_t window_bytes = 0;
  std::unique_ptr<PlanFollower> follower;  ///< null: there is no such file
  BandwidthBudget* budget = nullptr;
  bool is_changed = false;
  bool is_refused = false;  ///< it cannot, or must not, be helped
  bool is_met = false;      ///< a process has read it
  bool is_active = false;
  pid_t process = 0;  ///< that has read it last
  FileRange last;     ///< what it read
  uint64_t moved_ns = 0;
  uint64_t open_again_ns = 0;
  // While it is open:
  OpenFile opened;  ///< by `opener`
  pid_t opener = 0;
  ProcFile position;
  Descriptor own;
  std::optional<engine::ReadAheadWalk> walk;
  bool is_kept = false;
  uint64_t operations = 0;

  void let_go() {
    walk.reset();
    own.reset();
    position = {};
    opener = 0;
  }
  /// Returns true if the process has it open no more, by this descriptor.
  [[nodiscard]] bool is_closed() const {
    const std::optional<Position> found = position.position();
    return !found || (found->inode != 0 && found->inode != id.inode);
  }
};

Replayer::Replayer(const ReadPlan& plan, Run& run) : run_(run) {
  report_.files = plan.files.size();
  report_.reads = plan.reads();
  report_.bytes = plan.bytes();
  files_.reserve(plan.files.size());
  for (const PlannedFile& planned : plan.files) {
    files_.push_back(std::make_unique<File>(planned, files_.size()));
    find_file(*files_.back());
  }
}

Replayer::~Replayer() = default;

/// Looks whether the file is there, and whether it is the one that was recorded.
void Replayer::find_file(File& file) {
  char folder[4096] = {};
  const std::string& name = file.planned->name;
  const bool is_absolute = name.starts_with('/');
  if (!is_absolute && getcwd(folder, sizeof folder) == nullptr) folder[0] = '\0';
  file.path = is_absolute ? name : std::string(folder) + "/" + name;
  by_path_.emplace(file.path, &file);
  struct stat status {};
  if (stat(file.path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const int64_t mtime_ns = in_ns(status.st_mtim);
  file.id = FileId::of(status);
  file.is_changed = file.is_changed || mtime_ns != file.planned->mtime_ns ||
                    static_cast<uint64_t>(status.st_size) != file.planned->size;
  file.follower =
      std::make_unique<PlanFollower>(file.planned->reads, static_cast<uint64_t>(status.st_size));
  file.window_bytes = run_.window_bytes(file.id.device);
  file.budget = run_.budget_for(file.id.device, file.path);
  file.is_refused = !run_.policy_allows(file.path);
  by_id_[file.id] = &file;
}

// ---- What the program reads ---------------------------------------------------------------------

void Replayer::take(const RunReads& reads, const std::vector<RunReads::Read>& news) {
  if (news.empty()) return;
  const uint64_t now = now_ns();
  for (const RunReads::Read& read : news) {
    ++report_.seen_reads;
    report_.seen_bytes += read.range.bytes;
    File* const file = file_of(reads, read.file);
    if (file == nullptr) continue;
    meet(*file);
    (void)file->follower->observe(read.range);
    file->process = read.process;
    file->last = read.range;
    file->moved_ns = now;
    moved_ns_ = now;
    look_ns_ = 0;
  }
}

/// Returns the file of the plan that is read, or null.
Replayer::File* Replayer::file_of(const RunReads& reads, uint32_t number) {
  const auto known = by_number_.find(number);
  if (known != by_number_.end()) return known->second;
  const ReadFile& read = reads.file(number);
  const auto found = by_id_.find(read.id);
  File* const file = found != by_id_.end() ? found->second : find_by_path(read);
  by_number_.emplace(number, file);
  return file;
}

/// Finds a file that was made, or replaced, since the run began.
Replayer::File* Replayer::find_by_path(const ReadFile& read) {
  for (const std::string& path : read.paths) {
    const auto found = by_path_.find(path);
    if (found == by_path_.end() || found->second->is_met) continue;
    File& file = *found->second;
    file.is_changed = true;
    find_file(file);
    if (file.follower && file.id == read.id) return &file;
  }
  return nullptr;
}

void Replayer::meet(File& file) {
  if (!file.is_met) {
    file.is_met = true;
    met_ = std::max(met_, file.index + 1);
    while (!begun_.empty() && begun_.front().first->index < met_) {
      begun_bytes_ -= begun_.front().second;
      begun_.pop_front();
    }
  }
  const bool has_more = !file.is_refused && !file.follower->is_done();
  if (file.is_active || !has_more || is_in_order(file.planned->reads)) return;
  file.is_active = true;
  active_.push_back(&file);
}

bool Replayer::leads(const FileId& id) const {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  const File& file = *found->second;
  return file.is_met && !file.is_refused && !file.follower->is_done() &&
         !is_in_order(file.planned->reads);
}

// ---- What to ask for ----------------------------------------------------------------------------

void Replayer::look() {
  const uint64_t now = now_ns();
  if (now < look_ns_) return;
  look_ns_ = now + (now - moved_ns_ < kIdleNs ? kBusyLookNs : kIdleLookNs);
  begin_unread();
  for (File* const file : active_) look_at(*file, now);
  std::erase_if(active_, [](const File* file) { return !file->is_active; });
}

/// Returns true if the file must be closed here now.
bool Replayer::is_over(File& file, uint64_t now) const {
  if (file.own.is_open() && file.is_closed()) return true;
  // Of a file that the program also writes, the program's own close is to be the first one
  // (early_writer.hpp).
  return !file.opened.is_written && now - file.moved_ns > kStillNs;
}

void Replayer::look_at(File& file, uint64_t now) {
  if (is_over(file, now)) file.let_go();
  const bool is_done = file.is_refused || file.follower->is_done();
  if (is_done && (!file.own.is_open() || !file.opened.is_written)) {
    file.let_go();
    file.is_active = false;
    return;
  }
  const bool stands_still = now - file.moved_ns > kStillNs;
  if (is_done || stands_still || now < file.open_again_ns) return;
  file.follower->set_lookahead(lookahead_bytes_);
  if (ask(file, kAsksPerTurn)) look_ns_ = 0;
}

/// Asks for the next ranges of a file. Returns true if there are more.
bool Replayer::ask(File& file, unsigned most) {
  for (unsigned i = 0; i < most; ++i) {
    if (!file.follower->has_next()) return false;
    if (file.budget != nullptr && now_ns() < file.budget->free_at_ns()) return false;
    // Checked before next(), which counts the range as asked for.
    if (file.walk ? run_.must_let_go() : !open_own(file)) return false;
    if (!file.walk) return false;
    const std::optional<FileRange> range = file.follower->next(file.window_bytes);
    if (!range) return false;
    const auto answer = file.walk->ask_only(range->offset, range->bytes);
    file.is_refused = answer == engine::ReadAheadWalk::Answer::failed;
    if (file.is_refused) return false;
    const bool is_asked = answer == engine::ReadAheadWalk::Answer::asked;
    file.operations += is_asked ? 1 : 0;
    if (file.budget != nullptr && is_asked) file.budget->spend(range->bytes, now_ns());
    file.follower->answered(*range, !is_asked);
  }
  return true;
}

bool Replayer::may_help(const File& file) {
  return !file.is_refused && !run_.leaves_alone(file.id) && !run_.is_forgetful(file.id.device);
}

/// Finds the descriptor by which the process has the file open. Returns false if there is none.
bool Replayer::find_opener(File& file) {
  const OpenFiles open = open_files_of(file.process, 1);
  const auto found = std::ranges::find_if(
      open.files, [&](const OpenFile& each) { return each.id == file.id && each.is_read; });
  if (found == open.files.end() || open.hears_of_opens) return false;
  file.opened = *found;
  file.position = ProcFile::of_position(file.process, found->fd);
  const std::optional<Position> position = file.position.position();
  // An open that is noticed by who holds a lease.
  return position && !position->leased && position->buffered_read;
}

bool Replayer::open_own(File& file) {
  if (!run_.may_open(file.process)) return false;
  file.is_refused = !may_help(file);
  if (file.is_refused) return false;
  if (!find_opener(file)) {
    file.open_again_ns = now_ns() + kOpenAgainNs;
    return false;
  }
  file.own = Descriptor(open_again(file.process, file.opened));
  file.is_refused = !file.own.is_open();
  if (file.is_refused) return false;
  file.opener = file.process;
  file.walk.emplace(file.own.get(), file.window_bytes);
  file.is_kept = may_keep_removed_files(file.own.get());
  run_.note_open(file.is_kept);
  // As the watcher does: the page that was just read tells.
  file.is_refused =
      is_fuse(file.own.get()) && !engine::is_resident(file.own.get(), file.last.offset, 1);
  if (file.is_refused) run_.note_forgetful(file.id.device);
  return !file.is_refused;
}

// ---- Files that were not read yet ---------------------------------------------------------------

/// Asks for the first reads of files that the program has not read yet.
void Replayer::begin_unread() {
  const size_t last = std::min(files_.size(), met_ + kFilesAhead);
  unread_ = std::max(unread_, met_);
  while (unread_ < last && begun_bytes_ < kBegunBytes) {
    File& file = *files_[unread_];
    if (file.follower && !file.is_met && !is_in_order(file.planned->reads)) {
      if (!run_.may_open()) return;
      begin_file(file);
    }
    ++unread_;
  }
}

/// Opens the file for a moment to ask for its first reads.
void Replayer::begin_file(File& file) {
  static thread_local const auto kLeased = leased_files();
  const bool is_leased =
      kLeased.contains({major(file.id.device), minor(file.id.device), file.id.inode});
  if (is_leased || !may_help(file)) return;
  Mapping name;
  name.id = file.id;
  name.path = file.path;
  file.own = Descriptor(open_again(getpid(), name));
  if (!file.own.is_open()) return;
  run_.note_open(may_keep_removed_files(file.own.get()));
  file.walk.emplace(file.own.get(), file.window_bytes);
  file.follower->set_lookahead(kBegunOfFileBytes);
  (void)ask(file, kAsksAhead);
  file.let_go();
  begun_.emplace_back(&file, file.follower->asked_bytes());
  begun_bytes_ += file.follower->asked_bytes();
}

// ---- Open files, and the end --------------------------------------------------------------------

size_t Replayer::open_files() const noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(active_, [](const File* file) { return file->own.is_open(); }));
}

bool Replayer::keeps_file() const noexcept {
  return std::ranges::any_of(active_,
                             [](const File* file) { return file->own.is_open() && file->is_kept; });
}

void Replayer::let_go() {
  for (const auto& file : files_) file->let_go();
}

void Replayer::forget_process(pid_t process) {
  for (File* const file : active_) {
    if (file->opener == process) file->let_go();
  }
}

Replayer::Results Replayer::finish() {
  let_go();
  Results results;
  results.report = report_;
  for (const auto& file : files_) {
    if (!file->follower) {
      ++results.report.missing_files;
      continue;
    }
    const PlanFollower& follower = *file->follower;
    results.report.changed_files += file->is_changed ? 1 : 0;
    results.report.followed_files += is_in_order(file->planned->reads) ? 1 : 0;
    results.report.given_up_files += follower.has_given_up() ? 1 : 0;
    results.report.named_reads += follower.named_reads();
    results.report.named_bytes += follower.named_bytes();
    results.report.asked_bytes += follower.asked_bytes();
    results.report.asked_operations += file->operations;
    if (file->operations == 0) continue;
    results.files.push_back({file->path, file->id.device, file->id.inode, file->operations,
                             follower.asked_bytes(), follower.used_bytes(), 0, false, 0});
  }
  return results;
}

}  // namespace ioweave::stream
