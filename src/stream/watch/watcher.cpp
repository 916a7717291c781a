#include "stream/watch/watcher.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/file_system_kind.hpp"
#include "config/glob.hpp"
#include "device/described.hpp"
#include "engine/available_memory.hpp"
#include "engine/prefetch.hpp"
#include "engine/read_ahead_walk.hpp"
#include "engine/system_facts.hpp"
#include "stream/watch/bandwidth_budget.hpp"
#include "stream/watch/cache_search.hpp"
#include "stream/watch/early_writer.hpp"
#include "stream/watch/mpiio_files.hpp"
#include "stream/watch/proc_files.hpp"
#include "stream/watch/process_segment.hpp"
#include "stream/watch/read_follower.hpp"
#include "stream/watch/replay/replayer.hpp"
#include "stream/watch/replay/run_reads.hpp"
#include "stream/watch/run_state.hpp"
#include "stream/watch/run_thread.hpp"

namespace ioweave::stream {
namespace {

using stats::ReadHelp;

constexpr uint64_t kLeastFileBytes = 1 << 20;
constexpr uint64_t kUntilExecNs = 1'000'000;  // it has nothing open before
constexpr uint64_t kFirstScanNs = 500'000;    // a program that has just started opens files
constexpr uint64_t kMostScanNs = 40'000'000;
constexpr uint64_t kTicksNs = 20'000'000;     // the kernel counts what runs at least once in it
constexpr uint64_t kScanShare = 50;           // of the time, for scans
constexpr uint64_t kLookShare = 20;           // the same for looks
constexpr uint64_t kFreeScanNs = 3'000'000;   // of scans beyond that, in all
constexpr uint64_t kLateNs = 300'000;         // to wake up so late: no processor was idle
constexpr uint64_t kTakenShare = 4;           // a scan costs so much more if it takes one's time
constexpr unsigned kWrittenMoves = 2;         // in a row make a writer
constexpr uint64_t kReleasedNs = 20'000'000;  // in which nothing is opened again
constexpr uint64_t kUnseenListenerNs = 10'000'000'000;  // the same, behind one that is not found
constexpr uint64_t kMostReleaseNs = 20'000'000;         // to wait for a write that is under way
constexpr uint64_t kRequestLookNs = 5'000'000;          // while something is open
constexpr uint64_t kMemoryMeasuredNs = 1'000'000'000;
constexpr uint64_t kMemoryShare = 4;        // at most a quarter of what is available
constexpr uint64_t kLeastTakeNs = 500'000;  // between two looks at the reads that were noted
constexpr uint64_t kMostTakeNs = 10'000'000;
constexpr uint64_t kReplayTakeNs = 2'000'000;  // the most while a plan is replayed
constexpr unsigned kWindowsPerTurn = 16;
constexpr size_t kMostAsked = 16;  // processes, whether they run
constexpr int64_t kPosition = -1;  // in place of a record's number
constexpr int kMapped = -1;        // in place of a descriptor
constexpr uint64_t kLeastMappingBytes = 4u << 20;
constexpr unsigned kScansOfMappings = 3;            // while there are none, one of so many
constexpr uint64_t kMostTouchedBytes = 32u << 20;   // that a look at a mapping goes over
constexpr uint64_t kTouchedAtOnceBytes = 64 << 10;  // the kernel maps 16 pages around a fault
constexpr uint64_t kSearchShare = 50;    // of the time, for opening files to look for readers
constexpr unsigned kMostEmptyLooks = 3;  // in a row at a device, then it has a rest
constexpr uint64_t kEmptyRestNs = 1'000'000'000;
constexpr uint64_t kTotalsAgeNs = 1'000'000;  // of totals that are known
constexpr uint32_t kPlacesToTell = 8;         // that it reads in no order
constexpr uint64_t kFewOfMapping = 8;         // less than such a part was read in order

/// Each takes two descriptors; half of what the command may have is left.
size_t most_readers() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return std::clamp<size_t>(limit.rlim_cur / 4, 16, 4096);
}

/// A reader: a file that a process has open, or mapped.
struct Reader {
  Reader(const OpenFile& what, const FollowLimits& limits)
      : file(what), window_bytes(limits.window_bytes), follower(limits) {}

  OpenFile file;
  Mapping mapping;             ///< where the file is mapped
  uint64_t touched_bytes = 0;  ///< touched part of the mapping, from its beginning
  uint64_t window_bytes;
  ReadFollower follower;
  ProcFile position;
  std::optional<uint64_t> last_offset;  ///< the last position
  uint64_t last_read_bytes = 0;         ///< of its process, by any way, when it was there
  unsigned written_moves = 0;           ///< in a row, by which its process read nothing: it wrote
  bool has_moved = false;               ///< the position, since it was first seen
  CacheSearch search;                   ///< for it, where its position stands still
  IoTotals totals_before;               ///< of the process, when the search found it
  Descriptor own;
  bool is_open_for_search = false;            ///< `own` is, and for nothing else
  std::optional<engine::ReadAheadWalk> walk;  ///< on `own`, while that is open
  std::string path;                           ///< empty: not known yet
  BandwidthBudget* budget = nullptr;          ///< of its device, once `is_placed`; null: none
  bool is_placed = false;                     ///< true once `budget` is known
  bool refused = false;                       ///< this reader cannot, or must not, be helped
  /// Why it is refused, or why what its follower wants cannot be asked for now.
  ReadHelp hindrance = ReadHelp::unknown;
  bool seen = false;     ///< by the last scan
  bool is_kept = false;  ///< see RunState::announce_open()
  uint64_t operations = 0;
  uint64_t next_look_ns = 0;

  /// Returns whether it is refused from now on.
  bool refuse(ReadHelp why, bool is_so = true) {
    refused = is_so;
    if (is_so) hindrance = why;
    return is_so;
  }
  void let_go() {
    walk.reset();
    own.reset();
    is_open_for_search = false;
  }
};

struct Device {
  uint64_t window_bytes = 0;  ///< the window of the kernel's read-ahead
  ProcFile load;
  unsigned empty_looks = 0;  ///< in a row, at files of which nothing was in the page cache
  uint64_t search_ns = 0;    ///< no file is opened for a search before
};

struct Process {
  explicit Process(ProcessSegment* its) : segment(its) {}
  std::unique_ptr<ProcessSegment> segment;
  ProcFile totals;
  ProcFile runs;
  std::string last_runs;           ///< `runs` at the last look into the process
  uint64_t looked_into_ns = 0;     ///< when that look was
  bool hears_of_opens = false;     ///< what that look found
  ProcFile pages;                  ///< open if the process has files mapped
  unsigned scans = 0;              ///< scans of this process
  uint64_t scanned_ns = now_ns();  ///< when the last one was, or when this process was met
  bool maps = false;               ///< it had files mapped at the last look
  bool has_io_uring = false;
  bool has_aio = false;
  IoTotals last_totals;
  uint64_t totals_ns = 0;           ///< when they were read
  uint64_t shown_bytes = 0;         ///< that it has read, as positions and places show
  uint64_t largest_move_bytes = 0;  ///< of a position between two looks
  Descriptor end;                   ///< a pidfd: readable when it has ended
  bool seen = false;

  /// Notes that a position or place has shown where it read so many bytes.
  void note_shown(uint64_t bytes) {
    shown_bytes += bytes;
    largest_move_bytes = std::max(largest_move_bytes, bytes);
  }
  [[nodiscard]] uint64_t unseen_bytes() const {
    return last_totals.read_bytes - std::min(last_totals.read_bytes, shown_bytes);
  }
};

}  // namespace

struct Watcher::Shared {
  Shared(const config::RunConfig& its, std::string where, std::vector<config::Device> described,
         ReadsWanted wanted)
      : config(its),
        run_directory(std::move(where)),
        devices(std::move(described)),
        reads(std::move(wanted)) {}

  const config::RunConfig config;
  const std::string run_directory;
  const std::vector<config::Device> devices;
  const ReadsWanted reads;
  RunThread thread;
  Reports reports;  ///< under its lock
};

/// The thread's own state.
class Watcher::Thread final : private EarlyWriter::Run, private Replayer::Run {
 public:
  Thread(std::shared_ptr<Shared> shared, pid_t program)
      : shared_(std::move(shared)),
        program_(program),
        run_state_(shared_->run_directory),
        mpiio_files_(shared_->run_directory),
        writers_(shared_->config, *this),
        reads_(takes_reads() ? shared_->run_directory : std::string()) {}

  void run();

 private:
  /// Process, descriptor, and record of its segment or kPosition; or process, kMapped, address.
  using Key = std::tuple<pid_t, int, int64_t>;
  using Readers = std::map<Key, Reader>;

  [[nodiscard]] bool takes_reads() const {
    return shared_->reads.are_recorded || shared_->reads.plan.has_value();
  }
  void begin();
  void finish();
  void report_replay(Replayer::Results results);
  bool take_reads();
  void scan();
  [[nodiscard]] uint64_t affordable_scan_ns() const;
  void scan_soon(uint64_t now) {
    next_scan_ns_ = std::min(next_scan_ns_, std::max(now + kFirstScanNs, affordable_scan_ns()));
  }
  void scan_process(pid_t pid, Process& process, bool is_asked_for);
  [[nodiscard]] static bool has_stood_still(pid_t pid, Process& process);
  void scan_mappings(pid_t pid, Process& process);
  Reader* meet(const Key& key, const OpenFile& file);
  [[nodiscard]] bool look();
  void look_at(const Key& key, Reader& reader, uint64_t now);
  void look_for_waits(const Key& key, Reader& reader, uint64_t now);
  void look_at_help(const Key& key, Reader& reader) const;
  static void look_ahead_of_kernel(Reader& reader);
  [[nodiscard]] std::optional<HelpTrial::Look> look_alone(const Key& key, const Reader& reader,
                                                          uint64_t end) const;
  [[nodiscard]] bool waits(const Key& key, const Reader& reader) const;
  [[nodiscard]] bool is_crowded(pid_t reader) const;
  [[nodiscard]] bool sight(const Key& key, Reader& reader, std::optional<Sighting>& seen);
  [[nodiscard]] std::optional<Sighting> sight_position(const Key& key, Reader& reader,
                                                       uint64_t offset);
  [[nodiscard]] bool is_explained(const Key& key, uint64_t offset) const;
  [[nodiscard]] std::optional<Sighting> sight_cache(const Key& key, Process& process,
                                                    Reader& reader);
  void note_empty_look(const Reader& reader, uint64_t now);
  [[nodiscard]] bool begin_search(const Key& key, Process& process, Reader& reader);
  [[nodiscard]] bool reads_unseen(Process& process, Reader& reader);
  [[nodiscard]] static std::optional<IoTotals> totals_of(Process& process, uint64_t age_ns);
  [[nodiscard]] bool is_seen_elsewhere(const Key& key, const Reader& reader) const;
  [[nodiscard]] std::optional<Sighting> sight_places(const Key& key, Reader& reader);
  [[nodiscard]] bool sight_mapping(const Key& key, Reader& reader, std::optional<Sighting>& seen);
  [[nodiscard]] bool is_leased(const Reader& reader) const;
  bool ask_ahead(const Key& key, Reader& reader);
  [[nodiscard]] const std::string& path_of_file(const Key& key, Reader& reader) const;
  [[nodiscard]] BandwidthBudget* budget_of(const Key& key, Reader& reader);
  [[nodiscard]] bool has_ended(pid_t pid) const;
  [[nodiscard]] bool open_own(const Key& key, Reader& reader);
  [[nodiscard]] bool open_file(const Key& key, Reader& reader);
  void leave_to_mpiio();
  Readers::iterator forget(Readers::iterator reader);
  [[nodiscard]] static stats::ReadHelpReport help_of(const Key& key, const Reader& reader);
  void forget_process(pid_t pid);
  void share_budget();
  bool release_on_request();
  [[nodiscard]] bool may_open() override;
  [[nodiscard]] bool may_open(pid_t process) override;
  [[nodiscard]] bool must_let_go() override { return release_on_request(); }
  [[nodiscard]] bool policy_allows(const std::string& path) override;
  [[nodiscard]] BandwidthBudget* budget_for(dev_t device, const std::string& path) override;
  [[nodiscard]] uint64_t window_bytes(dev_t device) override;
  [[nodiscard]] bool is_forgetful(dev_t device) override { return forgetful_.contains(device); }
  void note_forgetful(dev_t device) override { forgetful_.insert(device); }
  void note_open(bool is_kept) override { run_state_.announce_open(is_kept, now_ns()); }
  [[nodiscard]] bool leaves_alone(const FileId& id) override;
  [[nodiscard]] std::optional<uint64_t> written_bytes(pid_t process) override;
  void report(stats::EarlyWriteReport cycle) override;
  void explain(const FileId& id, const std::string& path,
               const stats::EarlyHelpReport& cycle) override;
  [[nodiscard]] bool sleep_until(uint64_t then_ns);

  std::shared_ptr<Shared> shared_;
  pid_t program_;
  RunState run_state_;
  MpiioFiles mpiio_files_;
  uint64_t released_until_ns_ = 0;
  bool must_scan_ = false;  // before any file is opened
  std::map<pid_t, Process> processes_;
  Readers readers_;
  EarlyWriter writers_;
  RunReads reads_;
  PlanRecorder recorder_;
  std::unique_ptr<Replayer> replayer_;  // null: no plan is replayed
  uint64_t next_take_ns_ = 0;
  uint64_t take_period_ns_ = kLeastTakeNs;
  std::map<dev_t, Device> devices_;
  std::vector<device::Described> described_;        // those of this node
  std::map<std::string, BandwidthBudget> budgets_;  // by the names of these devices
  std::set<dev_t> forgetful_;  // devices that empty a file's cache when it is opened again
  size_t most_readers_ = most_readers();
  bool opens_are_heard_ = false;
  const unsigned processors_ = engine::online_cores();
  uint64_t begin_ns_ = now_ns();
  uint64_t scans_ = 0;
  uint64_t scans_took_ns_ = 0;    // spent on scans, those that took somebody's processor weighted
  bool was_late_ = false;         // at the last wake-up, for want of an idle processor
  uint64_t looks_took_ns_ = 0;    // spent on the last looks
  uint64_t opening_took_ns_ = 0;  // of the present look: waiting for the file system
  uint64_t may_search_ns_ = 0;    // no file is opened for a search before
  uint64_t next_scan_ns_ = begin_ns_ + kUntilExecNs;
  uint64_t scan_period_ns_ = kFirstScanNs;
  uint64_t memory_measured_ns_ = 0;
  uint64_t memory_bytes_ = 0;
};

void Watcher::Thread::run() {
  pthread_setname_np(pthread_self(), "ioweave-ahead");
  prctl(PR_SET_TIMERSLACK, 1000UL);
  // It takes a processor that is idle, and waits for one that computes: a process of the run that
  // is interrupted may hold a lock of a file that others write.
  const sched_param none{};
  sched_setscheduler(0, SCHED_BATCH, &none);
  begin();
  bool going = true;
  while (going) {
    release_on_request();
    if (now_ns() >= next_scan_ns_) scan();
    looks_took_ns_ = 0;
    const bool has_more_to_ask = look();
    if (writers_.look()) scan_soon(now_ns());
    if (now_ns() >= next_take_ns_) take_reads();
    if (replayer_ && scans_ > 0) replayer_->look();
    const uint64_t end = now_ns();
    uint64_t next = next_scan_ns_;
    for (const auto& [key, reader] : readers_) {
      if (!reader.refused) next = std::min(next, reader.next_look_ns);
    }
    next = std::max(next, end + looks_took_ns_ * kLookShare);
    next = std::min({next, writers_.next_look_ns(), next_take_ns_});
    if (replayer_) next = std::min(next, replayer_->next_look_ns());
    going = sleep_until(has_more_to_ask ? end : next);
  }
  finish();
}

void Watcher::Thread::begin() {
  // On this thread, since a file system may hang.
  described_ = device::described_devices(shared_->devices, device::this_node());
  if (!config::may_overlap(shared_->config)) next_scan_ns_ = UINT64_MAX;
  if (!takes_reads()) next_take_ns_ = UINT64_MAX;
  const std::optional<ReadPlan>& plan = shared_->reads.plan;
  if (plan) replayer_ = std::make_unique<Replayer>(*plan, static_cast<Replayer::Run&>(*this));
}

void Watcher::Thread::finish() {
  // Processes that were left behind may go on. If there are many logs, each look finds some.
  constexpr unsigned kMostTakes = 1000;
  unsigned empty = 0;
  reads_.take_all();
  for (unsigned i = 0; i < kMostTakes && takes_reads() && empty < 2; ++i) {
    empty = take_reads() ? 0 : empty + 1;
  }
  while (!readers_.empty()) forget(readers_.begin());
  writers_.finish();
  if (replayer_) report_replay(replayer_->finish());
  run_state_.announce_none_open();
  std::optional<PlanRecorder::Recorded> recorded;
  if (shared_->reads.are_recorded) {
    recorded = std::move(recorder_).finish(reads_, shared_->reads.folder);
  }
  const auto guard = shared_->thread.lock();
  shared_->reports.lost_reads = reads_.lost();
  shared_->reports.recorded = std::move(recorded);
}

void Watcher::Thread::report_replay(Replayer::Results results) {
  const auto guard = shared_->thread.lock();
  Reports& reports = shared_->reports;
  reports.replay = std::move(results.report);
  for (const stats::PrefetchReport& file : results.files) {  // perhaps never looked at otherwise
    const stats::ReadHelpReport help{ReadHelp::replayed, file.used_bytes, 0, {}};
    reports.help.add({file.device, file.inode}, file.path, help);
  }
  std::ranges::move(results.files, std::back_inserter(reports.prefetched));
}

/// Takes the reads that processes have noted. Returns false if there were none.
bool Watcher::Thread::take_reads() {
  const std::vector<RunReads::Read>& news = reads_.take();
  if (shared_->reads.are_recorded) {
    for (const RunReads::Read& read : news) recorder_.take(read.file, read.range);
  }
  if (replayer_) replayer_->take(reads_, news);
  const uint64_t most = replayer_ ? kReplayTakeNs : kMostTakeNs;
  take_period_ns_ = news.empty() ? std::min(2 * take_period_ns_, most) : kLeastTakeNs;
  next_take_ns_ = now_ns() + (replayer_ ? take_period_ns_ : most);
  return !news.empty();
}

/// Closes all files if a process asks for it. Such a file may be in the way of an umount(2), or the
/// process begins to listen to opens, which the next scan will see. Returns true if one asked.
bool Watcher::Thread::release_on_request() {
  const RunState::Request request = run_state_.request();
  if (!request.closes) return false;
  for (auto& [key, reader] : readers_) reader.let_go();
  if (replayer_) replayer_->let_go();
  if (!writers_.let_go(kMostReleaseNs)) return true;  // soon once more
  const uint64_t now = now_ns();
  released_until_ns_ = now + kReleasedNs;
  must_scan_ = must_scan_ || request.listens;
  if (must_scan_) next_scan_ns_ = now;
  run_state_.answer();
  return true;
}

/// Returns true if a file may be opened. If so, a process that asks from now on waits until it is
/// closed.
bool Watcher::Thread::may_open() {
  if (opens_are_heard_ || must_scan_ || now_ns() < released_until_ns_) return false;
  return run_state_.announce_opening() && !release_on_request();
}

/// The same of a file of a process. If so, sleep_until() sees when that process ends.
bool Watcher::Thread::may_open(pid_t pid) {
  if (!may_open()) return false;
  const auto process = processes_.find(pid);
  if (process != processes_.end() && !process->second.end.is_open()) {
    process->second.end = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  }
  return true;
}

bool Watcher::Thread::leaves_alone(const FileId& id) {
  leave_to_mpiio();
  return mpiio_files_.contain(id);
}

std::optional<uint64_t> Watcher::Thread::written_bytes(pid_t pid) {
  const auto process = processes_.find(pid);
  if (process == processes_.end()) return std::nullopt;
  const std::optional<IoTotals> totals = totals_of(process->second, 0);
  return totals ? std::optional(totals->written_bytes) : std::nullopt;
}

void Watcher::Thread::report(stats::EarlyWriteReport cycle) {
  const auto guard = shared_->thread.lock();
  shared_->reports.written_early.push_back(std::move(cycle));
}

void Watcher::Thread::explain(const FileId& id, const std::string& path,
                              const stats::EarlyHelpReport& cycle) {
  const auto guard = shared_->thread.lock();
  shared_->reports.help.add(id, path, cycle);
}

/// Sleeps until then, or until a process ends one of whose files is open here. Returns false once
/// the run is over.
bool Watcher::Thread::sleep_until(uint64_t then_ns) {
  std::vector<pollfd> ends{{shared_->thread.wake(), POLLIN, 0}};
  std::vector<pid_t> pids;
  for (const auto& [pid, process] : processes_) {
    if (!process.end.is_open()) continue;
    ends.push_back({process.end.get(), POLLIN, 0});
    pids.push_back(pid);
  }
  const uint64_t now = now_ns();
  bool has_open = writers_.has_open();
  if (has_open) run_state_.announce_open(false, now);
  for (const auto& [key, reader] : readers_) {
    has_open = has_open || reader.own.is_open();
    if (reader.own.is_open()) run_state_.announce_open(reader.is_kept, now);
  }
  if (replayer_ && replayer_->open_files() > 0) {
    has_open = true;
    run_state_.announce_open(replayer_->keeps_file(), now);
  }
  if (has_open) {
    then_ns = std::min(then_ns, now + kRequestLookNs);
  } else {
    run_state_.announce_none_open();
    release_on_request();  // by a process that has just seen is_open
  }
  const uint64_t wait_ns = then_ns > now ? then_ns - now : 0;
  const timespec timeout{static_cast<time_t>(wait_ns / 1'000'000'000),
                         static_cast<long>(wait_ns % 1'000'000'000)};
  const int events = ppoll(ends.data(), ends.size(), &timeout, nullptr);
  if (events <= 0) {
    was_late_ = now_ns() > std::max(now, then_ns) + kLateNs;
    return true;
  }
  for (size_t i = 0; i < pids.size(); ++i) {
    if (ends[i + 1].revents != 0) forget_process(pids[i]);
  }
  return ends[0].revents == 0;
}

// ---- Whom to follow -----------------------------------------------------------------------------

void Watcher::Thread::scan() {
  const uint64_t begin = now_ns();
  const size_t files_before = readers_.size() + writers_.files();
  const size_t processes_before = processes_.size();
  for (auto& [key, reader] : readers_) reader.seen = false;
  writers_.begin_scan();
  for (auto& [pid, process] : processes_) process.seen = false;
  opens_are_heard_ = false;
  const bool is_asked_for = std::exchange(must_scan_, false);
  for (const pid_t pid : family_of(program_)) {
    release_on_request();  // here, too, since a large family takes a while
    auto [found, is_new] = processes_.try_emplace(pid, nullptr);
    if (is_new) {
      found->second.segment = std::make_unique<ProcessSegment>(shared_->run_directory, pid);
      found->second.totals = ProcFile::of_totals(pid);
      found->second.runs = ProcFile::of_runs(pid);
    }
    found->second.seen = true;
    scan_process(pid, found->second, is_asked_for);
  }
  for (auto it = readers_.begin(); it != readers_.end();) {
    it = it->second.seen ? std::next(it) : forget(it);
  }
  writers_.end_scan();
  if (opens_are_heard_) {  // a listener would also hear of reads and closing
    for (auto& [key, reader] : readers_) reader.let_go();
    if (replayer_) replayer_->let_go();
    (void)writers_.let_go(0);
  }
  leave_to_mpiio();
  std::erase_if(processes_, [](const auto& entry) { return !entry.second.seen; });
  share_budget();
  // A change makes further changes likely.
  const bool is_news =
      readers_.size() + writers_.files() != files_before || processes_.size() != processes_before;
  scan_period_ns_ = is_news ? kFirstScanNs : std::min(2 * scan_period_ns_, kMostScanNs);
  ++scans_;
  const uint64_t end = now_ns();
  // A scan on request does not delay other scans.
  if (!is_asked_for) scans_took_ns_ += (end - begin) * (was_late_ ? kTakenShare : 1);
  if (is_asked_for && !opens_are_heard_) released_until_ns_ = end + kUnseenListenerNs;
  next_scan_ns_ = std::max(end + scan_period_ns_, affordable_scan_ns());
}

/// Lets go of the files that processes of the run have begun to read by MPI-IO, for good.
void Watcher::Thread::leave_to_mpiio() {
  if (!mpiio_files_.refresh()) return;
  for (auto& [key, reader] : readers_) {
    if (!mpiio_files_.contain(reader.file.id)) continue;
    reader.let_go();
    reader.refuse(ReadHelp::mpiio);
  }
}

/// Returns the moment from which another scan stays within its share of the time.
uint64_t Watcher::Thread::affordable_scan_ns() const {
  return begin_ns_ +
         (scans_took_ns_ > kFreeScanNs ? (scans_took_ns_ - kFreeScanNs) * kScanShare : 0);
}

/// Returns true if the process has not run since the last look into it. Otherwise the caller looks
/// into it now.
bool Watcher::Thread::has_stood_still(pid_t pid, Process& process) {
  const uint64_t now = now_ns();
  std::string runs = process.runs.runs();
  if (!runs.empty() && runs == process.last_runs && now - process.looked_into_ns > kTicksNs &&
      has_one_thread(pid)) {
    return true;
  }
  process.last_runs = std::move(runs);
  process.looked_into_ns = now;
  return false;
}

void Watcher::Thread::scan_process(pid_t pid, Process& process, bool is_asked_for) {
  if (has_stood_still(pid, process) && !is_asked_for) {
    opens_are_heard_ = opens_are_heard_ || process.hears_of_opens;
    const Key first{pid, kMapped, std::numeric_limits<int64_t>::min()};
    for (auto it = readers_.lower_bound(first); it != readers_.end(); ++it) {
      if (std::get<0>(it->first) != pid) break;
      it->second.seen = true;
    }
    writers_.keep(pid);
    return;
  }
  const OpenFiles open = open_files_of(pid, kLeastFileBytes);
  process.hears_of_opens = open.hears_of_opens;
  process.has_io_uring = open.has_io_uring;
  opens_are_heard_ = opens_are_heard_ || open.hears_of_opens;
  for (const OpenFile& file : open.files) {
    if (file.is_read) meet({pid, file.fd, kPosition}, file);
    if (file.is_written) writers_.meet(pid, file, process.scanned_ns);
  }
  process.scanned_ns = now_ns();
  scan_mappings(pid, process);
  if (open.files.empty() || !process.segment->refresh()) return;
  for (const uint32_t record : process.segment->placed_records()) {
    const std::optional<Places> places = process.segment->places_of(record);
    if (!places) continue;
    const auto file = std::ranges::find_if(
        open.files, [&](const OpenFile& candidate) { return candidate.id == places->id; });
    if (file != open.files.end() && file->is_read) meet({pid, file->fd, record}, *file);
  }
}

void Watcher::Thread::scan_mappings(pid_t pid, Process& process) {
  // Not at every scan: reading them holds the lock that the process takes to map something, and
  // keeps its memory if it ends meanwhile.
  if (++process.scans % kScansOfMappings != 0 && !process.maps) return;
  const Mappings mappings = mappings_of(pid, kLeastMappingBytes);
  process.has_aio = mappings.has_aio;
  process.maps = !mappings.files.empty();
  process.pages = mappings.files.empty() ? ProcFile() : ProcFile::of_pages(pid);
  for (const Mapping& mapping : mappings.files) {
    const Key key{pid, kMapped, static_cast<int64_t>(mapping.address)};
    const OpenFile file{.fd = kMapped,
                        .id = mapping.id,
                        .bytes = std::min(mapping.file_bytes, mapping.file_offset + mapping.bytes),
                        .is_read = true};
    Reader* const reader = meet(key, file);
    if (reader == nullptr) continue;
    const bool is_same = reader->mapping.file_offset == mapping.file_offset &&
                         reader->touched_bytes <= mapping.bytes;
    // Read to its end, but its first pages are untouched: it was mapped again, for another pass.
    const bool is_new = reader->touched_bytes == mapping.bytes &&
                        process.pages.touched_bytes(mapping.address, kTouchedAtOnceBytes) == 0;
    if (!is_same || is_new) reader->touched_bytes = 0;
    reader->mapping = mapping;
    reader->path = mapping.path;
  }
}

/// Finds or adds a reader. Returns null if there are as many readers as descriptors allow.
Reader* Watcher::Thread::meet(const Key& key, const OpenFile& file) {
  auto it = readers_.find(key);
  if (it != readers_.end() && it->second.file.id != file.id) {
    forget(it);
    it = readers_.end();
  }
  if (it == readers_.end()) {
    if (readers_.size() >= most_readers_) return nullptr;
    const FollowLimits limits{window_bytes(file.id.device), shared_->config.lookahead_bytes};
    it = readers_.try_emplace(key, file, limits).first;
    if (file.fd != kMapped) it->second.position = ProcFile::of_position(std::get<0>(key), file.fd);
  }
  it->second.file.bytes = file.bytes;
  it->second.seen = true;
  return &it->second;
}

void Watcher::Thread::share_budget() {
  const uint64_t now = now_ns();
  if (memory_measured_ns_ == 0 || now - memory_measured_ns_ > kMemoryMeasuredNs) {
    memory_measured_ns_ = now;
    memory_bytes_ = engine::available_memory_bytes() / kMemoryShare;
  }
  std::map<dev_t, uint64_t> active;  // readers with an open file, by device
  uint64_t all = 0;
  for (const auto& [key, reader] : readers_) {
    if (!reader.own.is_open()) continue;
    ++active[reader.file.id.device];
    ++all;
  }
  if (replayer_) all += replayer_->open_files();
  const uint64_t of_all =
      std::min(shared_->config.max_lookahead_bytes, memory_bytes_) / std::max<uint64_t>(1, all);
  if (replayer_) replayer_->set_lookahead(std::min(of_all, shared_->config.lookahead_bytes));
  for (auto& [key, reader] : readers_) {
    // More in flight on one device than one reader needs makes the others wait.
    const uint64_t sharing = std::max<uint64_t>(1, active[reader.file.id.device]);
    reader.follower.set_lookahead(std::min(of_all, shared_->config.lookahead_bytes / sharing));
  }
}

Watcher::Thread::Readers::iterator Watcher::Thread::forget(Readers::iterator it) {
  const Reader& reader = it->second;
  const stats::ReadHelpReport help = help_of(it->first, reader);
  if (help.why != ReadHelp::not_followed) {
    const auto guard = shared_->thread.lock();
    shared_->reports.help.add(reader.file.id, reader.path, help);
  }
  if (reader.operations > 0) {
    const std::optional<double> saved = reader.follower.saved_seconds();
    const auto guard = shared_->thread.lock();
    shared_->reports.prefetched.push_back({reader.path, reader.file.id.device, reader.file.id.inode,
                                           reader.operations, reader.follower.asked_bytes(),
                                           reader.follower.used_bytes(now_ns()), saved.value_or(0),
                                           saved.has_value(), reader.follower.trial_seconds()});
  }
  return readers_.erase(it);
}

/// Returns what came of a reader, and why.
stats::ReadHelpReport Watcher::Thread::help_of(const Key& key, const Reader& reader) {
  stats::ReadHelpReport help = reader.follower.help();
  const bool is_held_back = help.why == ReadHelp::helped && reader.hindrance == ReadHelp::budget;
  const bool may_be_hindered = reader.refused || is_held_back ||
                               reader.hindrance == ReadHelp::replayed ||
                               !stats::is_decided(help.why);
  if (may_be_hindered && reader.hindrance != ReadHelp::unknown) {
    help.why = reader.hindrance;
  } else if (std::get<1>(key) == kMapped) {
    const bool is_little = reader.touched_bytes < reader.mapping.bytes / kFewOfMapping;
    if (is_little && help.since_bytes == 0) help.why = ReadHelp::holes;
  } else if (help.read_bytes == 0) {
    const bool was_searched = reader.search.next_ns() != 0;
    help.why = was_searched ? ReadHelp::unseen : ReadHelp::not_followed;
  }
  return help;
}

void Watcher::Thread::forget_process(pid_t pid) {
  for (auto it = readers_.begin(); it != readers_.end();) {
    it = std::get<0>(it->first) == pid ? forget(it) : std::next(it);
  }
  writers_.forget_process(pid);
  if (replayer_) replayer_->forget_process(pid);
  processes_.erase(pid);
  scan_soon(now_ns());
}

// ---- What to ask for ----------------------------------------------------------------------------

/// Looks at the readers whose time has come. Returns true if there is more to ask for at once.
bool Watcher::Thread::look() {
  bool has_more_to_ask = false;
  for (auto it = readers_.begin(); it != readers_.end();) {
    Reader& reader = it->second;
    const uint64_t now = now_ns();
    if (!reader.refused && now >= reader.next_look_ns) look_at(it->first, reader, now);
    const bool is_gone = reader.next_look_ns == UINT64_MAX;
    if (is_gone) scan_soon(now);
    has_more_to_ask = has_more_to_ask || (!reader.refused && !is_gone && reader.next_look_ns == 0);
    it = is_gone ? forget(it) : std::next(it);
  }
  return has_more_to_ask;
}

/// Looks at a reader and sets its next_look_ns: 0 if there is more to ask for, UINT64_MAX if the
/// file is not open any more.
void Watcher::Thread::look_at(const Key& key, Reader& reader, uint64_t now) {
  std::optional<Sighting> seen;
  const bool is_there =
      std::get<1>(key) == kMapped ? sight_mapping(key, reader, seen) : sight(key, reader, seen);
  if (!is_there) {
    reader.next_look_ns = UINT64_MAX;
    return;
  }
  if (reader.refused) {
    reader.let_go();
    return;
  }
  const bool is_led = replayer_ && std::get<1>(key) != kMapped && replayer_->leads(reader.file.id);
  if (!is_led && reader.hindrance == ReadHelp::replayed) reader.hindrance = ReadHelp::unknown;
  if (is_led) {
    reader.hindrance = ReadHelp::replayed;
    reader.let_go();
    reader.next_look_ns = now + kMostScanNs;
    return;
  }
  if (seen) reader.follower.observe(*seen);
  looks_took_ns_ += now_ns() - now - std::exchange(opening_took_ns_, 0);
  // Of a file that the program also writes, the program's own close is to be the first one
  // (early_writer.hpp).
  if (reader.walk && !reader.is_open_for_search && !reader.file.is_written &&
      reader.follower.stands_still(now) && !waits(key, reader)) {
    reader.let_go();  // the program may be done, and remove the file or unmount its file system
    reader.next_look_ns = now + reader.follower.look_again_ns(now);
    return;
  }
  look_for_waits(key, reader, now);
  // Not counted in looks_took_ns_: the program would have spent the cost of asking itself.
  const bool has_more_to_ask = ask_ahead(key, reader);
  reader.next_look_ns = has_more_to_ask ? 0 : now_ns() + reader.follower.look_again_ns(now);
  if (!reader.search.is_due(now)) {
    reader.next_look_ns = std::min(reader.next_look_ns, reader.search.next_ns());
  }
  if (reader.budget != nullptr && reader.budget->free_at_ns() > now) {
    reader.next_look_ns = std::min(reader.next_look_ns, reader.budget->free_at_ns());
  }
  // One that only writes is no reader, and is looked at again lest it become one. Each look takes a
  // processor from somebody who may hold a lock that other writers of the file wait for.
  if (reader.written_moves >= kWrittenMoves) {
    reader.next_look_ns = std::max(reader.next_look_ns, now + kMostScanNs);
  }
  // Wakes up once for the scan and the look, if the look can wait.
  const bool can_wait = !has_more_to_ask && reader.follower.reads_what_is_cached();
  if (can_wait && next_scan_ns_ < reader.next_look_ns + kMostScanNs) {
    reader.next_look_ns = std::max(reader.next_look_ns, next_scan_ns_);
  }
}

/// Looks whether a reader waits, with help or without it, and whether it finds what it will want in
/// the page cache.
void Watcher::Thread::look_for_waits(const Key& key, Reader& reader, uint64_t now) {
  if (reader.walk) look_at_help(key, reader);
  if (const std::optional<uint64_t> end = reader.follower.end_of_read_alone();
      end && (reader.walk || open_own(key, reader))) {
    const uint64_t begin = now_ns();
    reader.follower.note_look(look_alone(key, reader, *end), now);
    looks_took_ns_ += now_ns() - begin;
  }
  if (reader.walk) look_ahead_of_kernel(reader);
}

/// Notes whether a reader that is helped waits: one that computes meanwhile will not have to.
void Watcher::Thread::look_at_help(const Key& key, Reader& reader) const {
  const std::optional<uint64_t> end = reader.follower.end_of_read();
  if (end && !engine::is_ready(reader.own.get(), *end) && waits(key, reader)) {
    reader.follower.note_wait();
  }
}

void Watcher::Thread::look_ahead_of_kernel(Reader& reader) {
  const std::optional<FileRange> ahead = reader.follower.ahead_of_kernel();
  if (!ahead) return;
  reader.follower.note_ahead(
      engine::is_known_resident(reader.own.get(), ahead->offset, ahead->bytes).value_or(false));
}

/// Looks at a reader without help, whose current read ends at `end`. Returns nothing if the kernel
/// does not tell.
std::optional<HelpTrial::Look> Watcher::Thread::look_alone(const Key& key, const Reader& reader,
                                                           uint64_t end) const {
  const std::optional<bool> arrived = engine::has_arrived(reader.own.get(), end);
  if (!arrived) return std::nullopt;
  const uint64_t requests = devices_.at(reader.file.id.device).load.requests().value_or(0);
  return HelpTrial::Look{!*arrived && waits(key, reader), requests != 0,
                         is_crowded(std::get<0>(key))};
}

/// Returns true if a reader waits now for what it reads.
bool Watcher::Thread::waits(const Key& key, const Reader& reader) const {
  const auto [pid, fd, position] = key;
  if (waits_for_storage(pid)) return true;
  // Who waits for a completion sleeps like anybody else.
  const auto process = processes_.find(pid);
  return reader.search.frontier() && process != processes_.end() && process->second.has_io_uring &&
         !is_running(pid);
}

/// Returns true if the reader runs now and the first threads of the run's processes use all
/// processors. A reader that sleeps has a processor to spare, whoever else needs processors.
bool Watcher::Thread::is_crowded(pid_t reader) const {
  // With one processor, a reader that computes always uses all of them.
  if (processors_ == 1 || processes_.size() > kMostAsked || !is_running(reader)) return false;
  const auto running =
      std::ranges::count_if(processes_, [](const auto& entry) { return is_running(entry.first); });
  return static_cast<size_t>(running) >= processors_;
}

/// Looks where the reader of an open file is. Returns false if the file is not open any more.
bool Watcher::Thread::sight(const Key& key, Reader& reader, std::optional<Sighting>& seen) {
  const std::optional<Position> position = reader.position.position();
  if (!position) return false;
  if (reader.refuse(ReadHelp::direct, !position->buffered_read) ||
      reader.refuse(ReadHelp::leased, position->leased)) {
    return true;
  }
  seen = std::get<2>(key) == kPosition ? sight_position(key, reader, position->offset)
                                       : sight_places(key, reader);
  return true;
}

/// Returns what a process has read and written, as it was known at most `age_ns` ago.
std::optional<IoTotals> Watcher::Thread::totals_of(Process& process, uint64_t age_ns) {
  const uint64_t now = now_ns();
  if (process.totals_ns != 0 && now - process.totals_ns <= age_ns) return process.last_totals;
  const std::optional<IoTotals> totals = process.totals.totals();
  if (totals) {
    process.last_totals = *totals;
    process.totals_ns = now;
  }
  return totals;
}

/// Looks at the position. Returns nothing if it has not moved.
std::optional<Sighting> Watcher::Thread::sight_position(const Key& key, Reader& reader,
                                                        uint64_t offset) {
  if (is_explained(key, offset)) return std::nullopt;
  const auto found = processes_.find(std::get<0>(key));
  if (found == processes_.end()) return std::nullopt;
  Process& process = found->second;
  if (reader.last_offset == offset) return sight_cache(key, process, reader);
  const std::optional<IoTotals> totals = totals_of(process, 0);
  reader.refuse(ReadHelp::not_opened, !totals);
  if (!totals) return std::nullopt;
  const uint64_t read_bytes =
      totals->read_bytes - std::exchange(reader.last_read_bytes, totals->read_bytes);
  const uint64_t way = offset - std::min(offset, reader.last_offset.value_or(offset));
  process.note_shown(std::min(way, read_bytes));
  reader.has_moved = reader.last_offset.has_value();
  reader.last_offset = offset;
  reader.search.note_position(process.unseen_bytes());
  reader.is_open_for_search = false;  // but for this reader, from now on
  if (reader.file.is_written && read_bytes == 0) {
    ++reader.written_moves;
    return std::nullopt;
  }
  reader.written_moves = 0;
  return Sighting{offset, reader.file.bytes, totals->read_bytes, totals->read_calls, 0,
                  0,      now_ns()};
}

/// Looks where a reader is whose position stands still while its process reads, by what comes into
/// the page cache.
std::optional<Sighting> Watcher::Thread::sight_cache(const Key& key, Process& process,
                                                     Reader& reader) {
  using Result = CacheSearch::Result;
  CacheSearch& search = reader.search;
  const uint64_t now = now_ns();
  if (reader.file.is_written || !search.is_due(now)) return std::nullopt;
  const bool is_followed = search.frontier() && reader.own.is_open();
  if (!is_followed && !begin_search(key, process, reader)) {
    if (!search.frontier() && reader.is_open_for_search) reader.let_go();
    return std::nullopt;
  }
  const auto cached_bytes = [&](FileRange range) {
    return engine::cached_bytes(reader.own.get(), range.offset, range.bytes);
  };
  const Result result =
      search.look(cached_bytes, reader.file.bytes, reader.follower.asked_until(), now);
  if (result == Result::none) {
    note_empty_look(reader, now);
    if (reader.is_open_for_search && !search.compares_next()) reader.let_go();
    return std::nullopt;
  }
  reader.is_open_for_search = false;
  if (result == Result::stands) return std::nullopt;
  if (result == Result::found) {
    reader.totals_before = totals_of(process, kTotalsAgeNs).value_or(IoTotals{});
  }
  const uint64_t frontier = search.frontier().value_or(0);
  // The kernel reads the last window ahead of the reader by itself.
  return Sighting{frontier - std::min(frontier, reader.window_bytes),
                  reader.file.bytes,
                  reader.totals_before.read_bytes + search.way_bytes(),
                  reader.totals_before.read_calls + search.way_bytes() / reader.window_bytes,
                  0,
                  0,
                  now,
                  true,
                  search.was_elsewhere()};
}

/// Notes a look that found nobody. A file system that empties a file's cache when it is opened
/// shows nothing: its device has a rest.
void Watcher::Thread::note_empty_look(const Reader& reader, uint64_t now) {
  Device& device = devices_.at(reader.file.id.device);
  const bool is_empty = reader.search.saw_nothing() && is_fuse(reader.own.get());
  device.empty_looks = is_empty ? device.empty_looks + 1 : 0;
  if (device.empty_looks >= kMostEmptyLooks) device.search_ns = now + kEmptyRestNs;
}

/// Opens the file for a look at the page cache if somebody may be reading it unseen. Returns false
/// if not.
bool Watcher::Thread::begin_search(const Key& key, Process& process, Reader& reader) {
  const uint64_t begin = now_ns();
  // What is in flight for a position that has moved just now would look like a reader.
  const bool may_be = !reader.has_moved || reader.follower.stands_still(begin);
  const bool is_asked_for = reader.follower.asked_until() >= reader.file.bytes;
  if (!may_be || is_asked_for || !reads_unseen(process, reader) || is_seen_elsewhere(key, reader)) {
    return false;
  }
  if (reader.own.is_open()) return true;
  if (begin < std::max(may_search_ns_, devices_.at(reader.file.id.device).search_ns)) return false;
  reader.is_open_for_search = open_file(key, reader);
  const uint64_t end = now_ns();
  opening_took_ns_ += end - begin;
  may_search_ns_ = end + kSearchShare * (end - begin);
  return reader.is_open_for_search;
}

/// Returns true if the process reads, but no position shows where.
bool Watcher::Thread::reads_unseen(Process& process, Reader& reader) {
  // /proc does not count what these read.
  if (!reader.has_moved && (process.has_io_uring || process.has_aio)) return true;
  const uint64_t now = now_ns();
  if (reader.search.has_read_lately(now)) return true;
  if (!totals_of(process, kTotalsAgeNs)) return false;
  return reader.search.reads_unseen(process.unseen_bytes(), process.largest_move_bytes, now);
}

/// Returns true if something else shows a reader of the file, or if it is read ahead already.
bool Watcher::Thread::is_seen_elsewhere(const Key& key, const Reader& reader) const {
  return std::ranges::any_of(readers_, [&](const auto& entry) {
    const auto& [other_key, other] = entry;
    if (other_key == key || other.file.id != reader.file.id) return false;
    const bool is_same_process = std::get<0>(other_key) == std::get<0>(key);
    return other.walk.has_value() || (is_same_process && (std::get<1>(other_key) == kMapped ||
                                                          std::get<2>(other_key) != kPosition));
  });
}

/// Returns true if the position belongs to a reader that seeks from record to record. Such a reader
/// is followed by its places, since behind each record there is a hole.
bool Watcher::Thread::is_explained(const Key& key, uint64_t offset) const {
  const auto [pid, fd, position] = key;
  for (auto it = readers_.upper_bound(key); it != readers_.end(); ++it) {
    if (std::get<0>(it->first) != pid || std::get<1>(it->first) != fd) break;
    if (it->second.follower.explains(offset)) return true;
  }
  return false;
}

/// Looks at the places that the interposer noted.
std::optional<Sighting> Watcher::Thread::sight_places(const Key& key, Reader& reader) {
  const auto process = processes_.find(std::get<0>(key));
  if (process == processes_.end()) return std::nullopt;
  const std::optional<Places> places =
      process->second.segment->places_of(static_cast<uint32_t>(std::get<2>(key)));
  if (!places) return std::nullopt;
  const uint64_t read_bytes =
      places->read_bytes - std::exchange(reader.last_read_bytes, places->read_bytes);
  process->second.note_shown(read_bytes);
  const std::optional<PlacePattern> pattern = pattern_of(*places);
  if (!pattern) {
    const bool tells = read_bytes > 0 && places->count >= kPlacesToTell;
    if (tells) reader.follower.note_no_order(read_bytes, kPlacesToTell);
    return std::nullopt;
  }
  return Sighting{pattern->offset,
                  reader.file.bytes,
                  places->read_bytes,
                  places->read_calls,
                  pattern->stride,
                  pattern->record_bytes,
                  now_ns()};
}

/// Looks at the pages that the process has touched, from the first one on. Returns false if the
/// mapping is gone.
bool Watcher::Thread::sight_mapping(const Key& key, Reader& reader, std::optional<Sighting>& seen) {
  const auto process = processes_.find(std::get<0>(key));
  if (process == processes_.end()) return false;
  const Mapping& mapping = reader.mapping;
  const uint64_t left = mapping.bytes - reader.touched_bytes;
  if (left == 0) return true;
  const std::optional<uint64_t> touched = process->second.pages.touched_bytes(
      mapping.address + reader.touched_bytes, std::min(left, kMostTouchedBytes));
  if (!touched) return false;
  if (*touched == 0) return true;
  reader.touched_bytes += *touched;
  seen = Sighting{mapping.file_offset + reader.touched_bytes,
                  reader.file.bytes,
                  reader.touched_bytes,
                  reader.touched_bytes / kTouchedAtOnceBytes,
                  0,
                  0,
                  now_ns()};
  return true;
}

/// Asks for what comes next. Returns true if there is more to ask for after the turn of others.
bool Watcher::Thread::ask_ahead(const Key& key, Reader& reader) {
  using Answer = engine::ReadAheadWalk::Answer;
  BandwidthBudget* const budget = budget_of(key, reader);
  bool has_more_to_ask = true;
  for (unsigned i = 0; i < kWindowsPerTurn && !reader.refused; ++i) {
    if (has_ended(std::get<0>(key))) {
      reader.let_go();  // its file system may be unmounted next
      return false;
    }
    if (budget != nullptr && now_ns() < budget->free_at_ns()) {
      reader.hindrance = ReadHelp::budget;
      return false;
    }
    // Checked before next(), which counts the range as asked for.
    if (reader.walk ? release_on_request() : !may_open()) {
      if (opens_are_heard_) reader.hindrance = ReadHelp::listened;
      return false;
    }
    const std::optional<FileRange> range = reader.follower.next();
    has_more_to_ask = range && (reader.walk || open_own(key, reader));
    if (!has_more_to_ask || !reader.walk) break;
    engine::ReadAheadWalk& walk = *reader.walk;
    const Answer answer = reader.follower.is_strided() ? walk.ask_only(range->offset, range->bytes)
                                                       : walk.ask(range->offset, range->bytes);
    reader.refuse(ReadHelp::refused, answer == Answer::failed);
    reader.operations += answer == Answer::asked ? 1 : 0;
    if (budget != nullptr && answer == Answer::asked) budget->spend(range->bytes, now_ns());
    reader.follower.answered(*range, answer == Answer::cached);
  }
  const bool is_done = !reader.follower.wants_more() && !reader.file.is_written;
  if (reader.refused || (is_done && !reader.is_open_for_search)) reader.let_go();
  return has_more_to_ask && !reader.refused;
}

bool Watcher::Thread::has_ended(pid_t pid) const {
  const auto process = processes_.find(pid);
  if (process == processes_.end() || !process->second.end.is_open()) return false;
  pollfd end{process->second.end.get(), POLLIN, 0};
  return poll(&end, 1, 0) > 0;
}

const std::string& Watcher::Thread::path_of_file(const Key& key, Reader& reader) const {
  if (reader.path.empty()) reader.path = path_of(std::get<0>(key), reader.file.fd);
  return reader.path;
}

bool Watcher::Thread::policy_allows(const std::string& path) {
  return config::overlaps(config::policy_of(shared_->config, path));
}

/// Returns the window of the kernel's read-ahead on a device.
uint64_t Watcher::Thread::window_bytes(dev_t number) {
  const auto [device, is_new] = devices_.try_emplace(number);
  if (is_new) {
    device->second.window_bytes = engine::read_ahead_window_bytes(number);
    device->second.load = ProcFile::of_requests(number);
  }
  return device->second.window_bytes;
}

/// Returns the budget of the described device that holds the file, or null.
BandwidthBudget* Watcher::Thread::budget_of(const Key& key, Reader& reader) {
  if (reader.is_placed || described_.empty()) return reader.budget;
  reader.is_placed = true;
  reader.budget = budget_for(reader.file.id.device, path_of_file(key, reader));
  return reader.budget;
}

BandwidthBudget* Watcher::Thread::budget_for(dev_t device, const std::string& path) {
  const device::Described* const found = device::described_of(described_, device, path);
  if (found == nullptr || found->settings.mb_per_s <= 0) return nullptr;
  const config::Device& settings = found->settings;
  return &budgets_.try_emplace(settings.name, settings.mb_per_s).first->second;
}

/// Returns true if somebody would notice that the file of a mapping is opened, as a descriptor of
/// the run tells.
bool Watcher::Thread::is_leased(const Reader& reader) const {
  return std::ranges::any_of(readers_, [&](const auto& entry) {
    const Reader& other = entry.second;
    if (other.file.id != reader.file.id) return false;
    const std::optional<Position> position = other.position.position();
    return position && position->leased;
  });
}

/// Opens the file of a reader of which it is known what it has read.
bool Watcher::Thread::open_own(const Key& key, Reader& reader) {
  if (!open_file(key, reader)) return false;
  // Some FUSE file systems empty a file's cache when it is opened. Files on them are never opened
  // again.
  reader.refuse(ReadHelp::forgetful,
                is_fuse(reader.own.get()) &&
                    !engine::is_resident(reader.own.get(), reader.follower.read_offset(), 1));
  if (reader.refused) forgetful_.insert(reader.file.id.device);
  return !reader.refused;
}

bool Watcher::Thread::open_file(const Key& key, Reader& reader) {
  const bool is_mapped = std::get<1>(key) == kMapped;
  if (!may_open(std::get<0>(key))) return false;
  if (reader.refuse(ReadHelp::mpiio, leaves_alone(reader.file.id)) ||
      reader.refuse(ReadHelp::forgetful, forgetful_.contains(reader.file.id.device)) ||
      reader.refuse(ReadHelp::policy, !policy_allows(path_of_file(key, reader))) ||
      reader.refuse(ReadHelp::leased, is_mapped && is_leased(reader))) {
    return false;
  }
  reader.own = Descriptor(is_mapped ? open_again(std::get<0>(key), reader.mapping)
                                    : open_again(std::get<0>(key), reader.file));
  if (reader.refuse(ReadHelp::not_opened, !reader.own.is_open())) return false;
  reader.walk.emplace(reader.own.get(), reader.window_bytes);
  reader.is_kept = may_keep_removed_files(reader.own.get());
  run_state_.announce_open(reader.is_kept, now_ns());
  return true;
}

// ---- The command's side -------------------------------------------------------------------------

Watcher::Watcher(const config::RunConfig& config, std::string run_directory,
                 std::vector<config::Device> devices, ReadsWanted reads)
    : shared_(std::make_shared<Shared>(config, std::move(run_directory), std::move(devices),
                                       std::move(reads))) {}

Watcher::~Watcher() {
  (void)stop();
}

void Watcher::start(pid_t program) {
  if (!config::may_overlap(shared_->config) && !shared_->reads.are_recorded) return;
  shared_->thread.start(shared_, [shared = shared_, program] { Thread(shared, program).run(); });
}

Watcher::Reports Watcher::stop() {
  const auto guard = shared_->thread.stop();
  return std::move(shared_->reports);
}

}  // namespace ioweave::stream
