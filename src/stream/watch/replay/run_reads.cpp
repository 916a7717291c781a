#include "stream/watch/replay/run_reads.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dirent.h>

#include "base/clock.hpp"
#include "stats/read_log.hpp"
#include "stats/segment.hpp"

namespace ioweave::stream {
namespace {

using stats::FileRecord;
using stats::LoggedRead;
using stats::ReadLog;
using stats::Segment;

constexpr size_t kAtOnce = 8192;        // reads of a log, so that the logs keep in step
constexpr size_t kMostReads = 1 << 17;  // of one call
constexpr size_t kMostFiles = 1 << 17;
constexpr size_t kMostPaths = 4;     // of a file
constexpr uint64_t kFindShare = 50;  // of the time, to look for new logs
constexpr uint64_t kLeastFindNs = 1'000'000;
constexpr uint64_t kMostStuckNs = 100'000'000;
constexpr uint32_t kUsed = 2;  // FileRecord::state
constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

/// Each takes two descriptors; readers and writers have three quarters of what the command may
/// have.
size_t most_logs() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return std::clamp<size_t>(limit.rlim_cur / 8, 8, 4096);
}

/// A slot as another process may be writing it.
const LoggedRead& slot_at(const std::vector<std::byte>& slots, size_t number) {
  return *reinterpret_cast<const LoggedRead*>(slots.data() + number * sizeof(LoggedRead));
}

template <class Value>
bool read_value(int fd, size_t at, Value& value) {
  return pread(fd, &value, sizeof value, static_cast<off_t>(at)) == ssize_t{sizeof value};
}

}  // namespace

RunReads::RunReads(std::string run_directory)
    : directory_(std::move(run_directory)), most_logs_(most_logs()) {}

uint64_t RunReads::lost() const noexcept {
  uint64_t sum = lost_;
  for (const auto& [name, log] : logs_) sum += log.lost;
  return sum;
}

// ---- Which logs there are -----------------------------------------------------------------------

void RunReads::find_logs() {
  const uint64_t begin = now_ns();
  if (directory_.empty() || (begin < find_ns_ && !takes_all_)) return;
  DIR* const directory = opendir(directory_.c_str());
  std::set<std::string> closed;
  if (directory != nullptr) {
    while (const dirent* const entry = readdir(directory)) {
      const std::string name(entry->d_name);
      if (!name.ends_with(stats::kReadLogSuffix) || logs_.contains(name)) continue;
      if (closed_.contains(name)) {
        closed.insert(name);
      } else {
        add_log(name);
      }
    }
    closedir(directory);
  }
  closed_ = std::move(closed);
  if (logs_.size() >= most_logs_) close_ended();
  const uint64_t end = now_ns();
  find_ns_ = end + std::max(kLeastFindNs, (end - begin) * kFindShare);
}

/// Closes logs of processes that are gone, which the command has not removed yet, to make room for
/// others. (Those of another name space of processes seem to be gone, too: this is for need only.)
void RunReads::close_ended() {
  for (auto it = logs_.begin(); it != logs_.end();) {
    Log& log = it->second;
    const bool is_gone = kill(log.process, 0) != 0 && errno == ESRCH;
    if (!is_gone || take_from(log) || log.stuck_ns != 0) {
      ++it;
      continue;
    }
    lost_ += log.lost;
    closed_.insert(it->first);
    it = logs_.erase(it);
  }
}

void RunReads::add_log(const std::string& name) {
  if (logs_.size() >= most_logs_) return;
  Log log;
  const std::string path = directory_ + "/" + name;
  const std::string image = path.substr(0, path.size() - stats::kReadLogSuffix.size());
  log.file = Descriptor(open(path.c_str(), O_RDWR | kFlags));
  log.segment = Descriptor(open((image + ".segment").c_str(), O_RDONLY | kFlags));
  uint64_t magic = 0;
  uint32_t version = 0;
  const bool is_usable = log.file.is_open() && log.segment.is_open() &&
                         read_value(log.file.get(), offsetof(ReadLog, magic), magic) &&
                         read_value(log.file.get(), offsetof(ReadLog, version), version) &&
                         magic == stats::kReadLogMagic && version == config::kLayoutVersion;
  if (!is_usable) return;  // perhaps it is being made
  std::from_chars(name.data(), name.data() + name.size(), log.process);
  log.numbers.resize(Segment::kFiles);
  logs_.emplace(name, std::move(log));
}

/// Returns true if the log was removed: its process is gone, and all that it noted was taken.
bool RunReads::is_over(const Log& log) {
  struct stat status {};
  return fstat(log.file.get(), &status) != 0 || status.st_nlink == 0;
}

// ---- What is in them ----------------------------------------------------------------------------

const std::vector<RunReads::Read>& RunReads::take() {
  reads_.clear();
  find_logs();  // may take some
  bool is_more = true;
  while (is_more && reads_.size() < kMostReads) {
    is_more = false;
    for (auto it = logs_.begin(); it != logs_.end();) {
      const bool took = take_from(it->second);
      is_more = is_more || took;
      if (!took && is_over(it->second)) {
        lost_ += it->second.lost;
        it = logs_.erase(it);
      } else {
        ++it;
      }
    }
  }
  std::ranges::stable_sort(reads_, {}, &Read::ticks);
  return reads_;
}

/// Takes the next reads of a log. Returns false if there are none.
bool RunReads::take_from(Log& log) {
  uint64_t begun[2] = {};
  static_assert(offsetof(ReadLog, lost) == offsetof(ReadLog, begun) + sizeof(uint64_t));
  if (!read_value(log.file.get(), offsetof(ReadLog, begun), begun)) return false;
  log.lost = begun[1];
  if (begun[0] <= log.taken) return false;
  if (begun[0] - log.taken > ReadLog::kReads) {  // no process of ours does this
    lost_ += begun[0] - log.taken;
    log.taken = begun[0];
    return false;
  }
  const uint64_t to_ring_end = ReadLog::kReads - log.taken % ReadLog::kReads;
  const size_t wanted = std::min({begun[0] - log.taken, to_ring_end, uint64_t{kAtOnce}});
  const size_t count = published(log, wanted);
  add_reads(log, count);
  log.taken += count;
  const uint64_t now = count > 0 ? 0 : now_ns();
  const bool is_stuck = log.stuck_ns != 0 && now - log.stuck_ns > kMostStuckNs;
  const bool passes_over = count == 0 && (is_stuck || takes_all_);
  log.stuck_ns = count > 0 || passes_over ? 0 : log.stuck_ns != 0 ? log.stuck_ns : now;
  if (passes_over) {
    const size_t skipped = unpublished(log, wanted);
    log.taken += skipped;
    lost_ += skipped;
  }
  if (count == 0 && !passes_over) return false;
  (void)!pwrite(log.file.get(), &log.taken, sizeof log.taken, offsetof(ReadLog, taken));
  return true;
}

/// Reads slots, and returns how many from the first on are published. They are read once more
/// behind that look: only then is it certain that all of a slot is what its number says.
size_t RunReads::published(Log& log, size_t wanted) {
  slots_.resize(kAtOnce * sizeof(LoggedRead));
  const auto at = static_cast<off_t>(offsetof(ReadLog, read) +
                                     log.taken % ReadLog::kReads * sizeof(LoggedRead));
  const size_t bytes = wanted * sizeof(LoggedRead);
  if (pread(log.file.get(), slots_.data(), bytes, at) != static_cast<ssize_t>(bytes)) return 0;
  size_t count = 0;
  while (count < wanted &&
         slot_at(slots_, count).number.load(std::memory_order_relaxed) == log.taken + count + 1) {
    ++count;
  }
  const size_t again = count * sizeof(LoggedRead);
  return pread(log.file.get(), slots_.data(), again, at) == static_cast<ssize_t>(again) ? count : 0;
}

/// Returns how many of the slots that were just read, at least one, come before a published one.
size_t RunReads::unpublished(const Log& log, size_t wanted) const {
  for (size_t i = 1; i < wanted; ++i) {
    const bool is_there =
        slot_at(slots_, i).number.load(std::memory_order_relaxed) == log.taken + i + 1;
    if (is_there) return i;
  }
  return takes_all_ ? wanted : 1;
}

void RunReads::add_reads(Log& log, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const LoggedRead& slot = slot_at(slots_, i);
    Read read;
    read.ticks = slot.ticks.load(std::memory_order_relaxed);
    read.process = log.process;
    read.range = {slot.offset.load(std::memory_order_relaxed),
                  slot.bytes.load(std::memory_order_relaxed)};
    const uint32_t file = file_of(log, slot.file.load(std::memory_order_relaxed));
    const bool is_sound = file != 0 && read.range.bytes > 0 &&
                          read.range.offset <= uint64_t{INT64_MAX} - read.range.bytes;
    if (!is_sound) {
      ++lost_;
      continue;
    }
    read.file = file - 1;
    reads_.push_back(read);
  }
}

/// Returns the number of the file + 1 that a record of the log's segment describes; 0: none.
uint32_t RunReads::file_of(Log& log, uint32_t record) {
  if (record == 0 || record >= Segment::kFiles) return 0;  // 0: files beyond the capacity
  uint32_t& known = log.numbers[record];
  if (known != 0) return known;
  alignas(FileRecord) std::byte bytes[sizeof(FileRecord)];
  const size_t at = offsetof(Segment, file) + record * sizeof(FileRecord);
  if (!read_value(log.segment.get(), at, bytes)) return 0;
  const auto& file = *reinterpret_cast<const FileRecord*>(bytes);
  if (file.state.load(std::memory_order_relaxed) != kUsed) return 0;
  char path[FileRecord::kPathBytes + 1] = {};
  std::memcpy(path, file.path, FileRecord::kPathBytes);
  known = number_of({file.device, file.inode}, path);
  return known;
}

uint32_t RunReads::number_of(const FileId& id, const char* path) {
  auto found = numbers_.find(id);
  if (found == numbers_.end()) {
    if (files_.size() == kMostFiles) return 0;
    files_.push_back({id, {}});
    found = numbers_.emplace(id, static_cast<uint32_t>(files_.size())).first;
  }
  std::vector<std::string>& paths = files_[found->second - 1].paths;
  if (paths.size() < kMostPaths && std::ranges::find(paths, path) == paths.end()) {
    paths.emplace_back(path);
  }
  return found->second;
}

}  // namespace ioweave::stream
