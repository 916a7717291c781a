#include "cli/run_directory.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dirent.h>

#include "base/atomic_file.hpp"
#include "cli/held_writes.hpp"
#include "stats/read_log.hpp"

namespace ioweave::cli {
namespace {

constexpr std::string_view kNamePrefix = "ioweave-run-";
constexpr const char* kKeepName = "keep";
constexpr const char* kPreloadName = "libioweave_preload.so";
/// The interposer keeps the directory's path in a buffer of fixed size.
constexpr size_t kMostPlaceBytes = 150;
/// Younger directories stay: a new one has no lock yet between mkdtemp and flock.
constexpr time_t kYoungestStaleSeconds = 60;

std::vector<std::string> names_in(int directory) {
  std::vector<std::string> names;
  // By another descriptor, which closedir() closes, and which has a position of its own.
  const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const stream = fd >= 0 ? fdopendir(fd) : nullptr;
  if (stream == nullptr) {
    if (fd >= 0) close(fd);
    return names;
  }
  while (const dirent* const entry = readdir(stream)) {
    const std::string_view name(entry->d_name);
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(stream);
  return names;
}

/// Empties and removes a directory. Processes that still map a segment keep their mapping.
void remove_directory(int directory, const std::string& path) {
  for (const std::string& name : names_in(directory)) unlinkat(directory, name.c_str(), 0);
  rmdir(path.c_str());
}

std::vector<std::string> places() {
  std::vector<std::string> list;
  const auto add_variable = [&](const char* variable) {
    const char* const value = std::getenv(variable);
    if (value == nullptr || value[0] != '/' || std::strlen(value) > kMostPlaceBytes) return;
    list.emplace_back(value);
  };
  add_variable("XDG_RUNTIME_DIR");
  list.emplace_back("/dev/shm");
  add_variable("TMPDIR");
  list.emplace_back("/tmp");
  return list;
}

bool is_stale(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0 || status.st_uid != geteuid()) return false;
  if (time(nullptr) - status.st_mtime < kYoungestStaleSeconds) return false;
  if (faccessat(fd, kKeepName, F_OK, 0) == 0) return false;
  return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/// Opens and locks a directory that mkdtemp has just made. Returns -errno on failure.
int open_and_lock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -errno;
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = -errno;
    close(fd);
    return error;
  }
  return fd;
}

void remark_once(std::string remark, std::vector<std::string>& remarks) {
  if (std::ranges::find(remarks, remark) == remarks.end()) remarks.push_back(std::move(remark));
}

/// Returns true if nothing will be added to the process's segment any more: the process said that
/// it ends, and it is gone. Neither is enough alone: after a process said so, destructors of other
/// libraries still read and write, and a failed exec revokes it; and a process of another pid
/// namespace seems to be gone from here.
bool is_final(const stats::ProcessReport& process) {
  const bool said_so = process.end == stats::ProcessReport::End::exited ||
                       process.end == stats::ProcessReport::End::replaced;
  return said_so && kill(process.pid, 0) != 0 && errno == ESRCH;
}

/// Returns the name of the log of single reads beside a segment.
std::string log_name(const std::string& segment) {
  return segment.substr(0, segment.rfind('.')) + std::string(stats::kReadLogSuffix);
}

/// Returns true if all that the process has noted there was taken, or if there is no log.
bool is_log_taken(int directory, const std::string& segment) {
  const int fd = openat(directory, log_name(segment).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return true;
  uint64_t begun = 0;
  uint64_t taken = 0;
  const bool are_known =
      pread(fd, &begun, sizeof begun, offsetof(stats::ReadLog, begun)) == sizeof begun &&
      pread(fd, &taken, sizeof taken, offsetof(stats::ReadLog, taken)) == sizeof taken;
  close(fd);
  return !are_known || taken >= begun;
}

}  // namespace

void sweep_stale_run_directories(const std::string& parent) {
  const int directory = open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  for (const std::string& name : names_in(directory)) {
    if (!name.starts_with(kNamePrefix)) continue;
    const int fd = openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    if (is_stale(fd)) remove_directory(fd, std::string(parent).append("/").append(name));
    close(fd);
  }
  close(directory);
}

std::unique_ptr<RunDirectory> RunDirectory::create(std::string& why) {
  why.clear();
  for (const std::string& place : places()) {
    std::string path = place + "/" + std::string(kNamePrefix) + "XXXXXX";
    int fd = mkdtemp(path.data()) != nullptr ? 0 : -errno;
    if (fd == 0) {
      fd = open_and_lock(path);
      if (fd < 0) rmdir(path.c_str());
    }
    if (fd >= 0) {
      sweep_stale_run_directories(place);
      return std::unique_ptr<RunDirectory>(new RunDirectory(std::move(path), fd));
    }
    why += (why.empty() ? "" : "; ") + place + ": " + std::strerror(-fd);
  }
  return nullptr;
}

RunDirectory::~RunDirectory() {
  if (!keep_) remove_directory(fd_, path_);
  close(fd_);
}

void RunDirectory::keep() noexcept {
  keep_ = true;
  const int fd = openat(fd_, kKeepName, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
}

int RunDirectory::write_config(const config::RunConfig& config) const {
  const int fd = openat(fd_, config::kConfigName, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return -errno;
  const auto* const bytes = reinterpret_cast<const char*>(&config);
  int error = write_all(fd, std::string_view(bytes, sizeof config));
  // Written, not left as a hole, so that a full file system is an error here and does not kill the
  // program later.
  const std::string state(sizeof(stats::RunState), '\0');
  if (error == 0 && lseek(fd, stats::kRunStateOffset, SEEK_SET) < 0) error = -errno;
  if (error == 0) error = write_all(fd, state);
  return close(fd) != 0 && error == 0 ? -errno : error;
}

std::string RunDirectory::preload_entry(const std::string& library) const {
  constexpr const char* kSpecial = " :$\t\n";
  if (library.find_first_of(kSpecial) == std::string::npos) return library;
  if (path_.find_first_of(kSpecial) != std::string::npos) return {};
  if (symlinkat(library.c_str(), fd_, kPreloadName) != 0) return {};
  return path_ + "/" + kPreloadName;
}

std::string RunDirectory::content(const char* name) const {
  constexpr size_t kMostBytes = 16 << 20;
  std::string text;
  const int fd = openat(fd_, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return text;
  char block[4096];
  ssize_t got = 0;
  while (text.size() < kMostBytes && (got = read(fd, block, sizeof block)) > 0) {
    text.append(block, static_cast<size_t>(got));
  }
  close(fd);
  return text;
}

/// Writes what a process has left that was killed, and takes its figures over.
void RunDirectory::end_writes(const std::string& name, bool last,
                              std::vector<std::string>& remarks) {
  HeldWrites held(fd_, name);
  if (!held.is_readable()) return;
  const bool is_over = last ? held.await_end() : held.process_is_gone();
  if ((!is_over && !last) || !held.load()) return;
  held.add_figures(behind_);
  if (is_over) held.write_rest(behind_, remarks);
  if (!keep_) unlinkat(fd_, name.c_str(), 0);
}

void RunDirectory::gather(stats::RunGatherer& gatherer, bool last,
                          std::vector<std::string>& remarks) {
  if (keep_ && !last) return;
  std::vector<std::string> names = names_in(fd_);
  for (const std::string& name : names) {
    if (name.ends_with(stats::kBehindSuffix)) end_writes(name, last, remarks);
  }
  std::erase_if(names, [](const std::string& name) { return !stats::is_segment_name(name); });
  std::ranges::sort(names);
  for (const std::string& name : names) {
    stats::SegmentContents contents;
    std::string why;
    const stats::SegmentState state =
        stats::read_segment(fd_, name, stats::ClockPair::now(), contents, why);
    if (!last && (state != stats::SegmentState::usable || !is_final(contents.process))) continue;
    if (!last && !is_log_taken(fd_, name)) continue;
    if (state == stats::SegmentState::usable) {
      gatherer.add(std::move(contents.process), std::move(contents.files));
    } else if (state == stats::SegmentState::incomplete) {
      remark_once("A process ended before it could report anything.", remarks);
    } else {
      remark_once("The figures of a process are lost: its segment " + why + ".", remarks);
    }
    if (keep_) continue;
    unlinkat(fd_, name.c_str(), 0);
    unlinkat(fd_, log_name(name).c_str(), 0);
  }
}

}  // namespace ioweave::cli
