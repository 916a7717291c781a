#include "calls/preload/process.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/append_number.hpp"
#include "base/clock.hpp"
#include "calls/libc/real.hpp"
#include "calls/preload/read_log.hpp"
#include "calls/preload/records.hpp"
#include "calls/preload/shared_file.hpp"
#include "calls/preload/table.hpp"

namespace ioweave::calls {

extern "C" {
constinit std::atomic<uint32_t> ioweave_memory_was_shared{0};
}
constinit Process process;

namespace {

constexpr int kMostImages = 4096;  // segments of one pid: each exec and each reuse of the pid

}  // namespace

bool Process::is_of_run_directory(const char* path) const noexcept {
  const size_t length = strlen(directory_);
  return length > 0 && strncmp(path, directory_, length) == 0 && path[length] == '/';
}

/// "DIRECTORY/PID-N.segment" or its like without stdio, which is not async-signal-safe.
void Process::path_of_image(char* out, pid_t pid, int image, const char* suffix) const noexcept {
  char* at = stpcpy(out, directory_);
  *at++ = '/';
  at = append_number(at, static_cast<uint64_t>(pid));
  *at++ = '-';
  at = append_number(at, static_cast<uint64_t>(image));
  stpcpy(at, suffix);
}

const char* Process::run_directory() noexcept {
  const char* const directory = secure_getenv(config::kRunDirVariable);
  return directory != nullptr && *directory != '\0' ? directory : nullptr;
}

bool Process::attach() noexcept {
  const char* const directory = run_directory();
  if (directory == nullptr || strlen(directory) >= sizeof directory_) {
    return false;
  }
  stpcpy(directory_, directory);
  pid_ = getpid();
  return map_config() && create_segment();
}

bool Process::map_config() noexcept {
  char path[sizeof directory_ + 8];
  stpcpy(stpcpy(stpcpy(path, directory_), "/"), config::kConfigName);
  const int fd = real::open(path, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) {
    return false;
  }
  struct stat status {};
  void* mapped = MAP_FAILED;
  void* state = MAP_FAILED;
  if (fstat(fd, &status) == 0 && status.st_size >= static_cast<off_t>(stats::kConfigBytes)) {
    mapped = mmap(nullptr, sizeof(config::RunConfig), PROT_READ, MAP_PRIVATE, fd, 0);
    state = mmap(nullptr, sizeof(stats::RunState), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                 stats::kRunStateOffset);
  }
  real::close(fd);
  if (mapped == MAP_FAILED || state == MAP_FAILED) {
    return false;
  }
  config_ = static_cast<const config::RunConfig*>(mapped);
  const bool is_ours =
      config_->magic == config::kConfigMagic && config_->version == config::kLayoutVersion &&
      config_->bytes == sizeof(config::RunConfig) && config_->rules <= config::RunConfig::kMaxRules;
  run_state_ = is_ours ? static_cast<stats::RunState*>(state) : nullptr;
  return is_ours;
}

stats::Segment* Process::map_new_segment() noexcept {
  for (image_ = 0; image_ < kMostImages; ++image_) {
    char path[kPathBytes];
    path_beside_segment(path, ".segment");
    void* const mapped = map_new_file(path, sizeof(stats::Segment));
    if (mapped != nullptr || errno != EEXIST) {
      return static_cast<stats::Segment*>(mapped);
    }
  }
  return nullptr;
}

bool Process::create_segment() noexcept {
  stats::Segment* const segment = map_new_segment();
  if (segment == nullptr || !records.attach(*segment, *config_)) {
    return false;
  }
  segment->version = config::kLayoutVersion;
  segment->bytes = sizeof(stats::Segment);
  segment->pid = pid_;
  segment->parent_pid = getppid();
  segment->active = 1;
  segment->start_ns = now_ns();
  segment->start_ticks = now_ticks();
  const ssize_t length = readlink("/proc/self/exe", segment->program, sizeof segment->program - 1);
  segment->program[length > 0 ? length : 0] = '\0';
  segment->magic = stats::kSegmentMagic;
  segment_.store(segment, std::memory_order_release);  // pairs with segment()
  if (config_->logs_reads != 0) {
    begin_read_log();
  }
  return true;
}

void Process::begin_read_log() noexcept {
  char path[kPathBytes];
  path_beside_segment(path, stats::kReadLogSuffix.data());
  if (!read_log.create(path)) {
    explain(
        "its reads could not be noted one by one: no room in the run's directory, or the limit "
        "on file sizes (ulimit -f) is below 17 MiB");
  }
}

void Process::became_child() noexcept {
  if (config_ == nullptr || (segment() == nullptr && !unborn())) {
    return;
  }
  pid_ = static_cast<pid_t>(syscall(SYS_getpid));
  ioweave_memory_was_shared.store(0, std::memory_order_relaxed);
  segment_.store(nullptr, std::memory_order_relaxed);
  read_log.forget();
  birth_.store(0, std::memory_order_relaxed);
  explained_.store(0, std::memory_order_relaxed);
  unborn_.store(true, std::memory_order_relaxed);
}

bool Process::be_born() noexcept {
  uint32_t nobody = 0;
  // Pairs with the store below: whoever is second finds the child born, or not asked again.
  if (!birth_.compare_exchange_strong(nobody, 1, std::memory_order_acq_rel)) {
    return false;
  }
  const int saved = errno;
  const bool created = create_segment();
  if (created) {
    table.adopt();
  }
  unborn_.store(false, std::memory_order_release);
  errno = saved;
  return created;
}

bool Process::pid_differs() const noexcept {
  return pid_ != static_cast<pid_t>(syscall(SYS_getpid));
}

void Process::leave_alone() noexcept {
  if (!left_alone() && segment() != nullptr && !is_visitor()) {
    mark(stats::Segment::State::running);  // the last times there will be
  }
  left_alone_.store(true, std::memory_order_seq_cst);  // pairs with carry_out()
  unborn_.store(false, std::memory_order_relaxed);
}

void Process::mark(stats::Segment::State state) noexcept {
  stats::Segment* const segment = this->segment();
  if (left_alone()) {
    if (segment != nullptr && ioweave_memory_was_shared.load(std::memory_order_relaxed) == 0) {
      segment->state.store(state, std::memory_order_release);
    }
    return;
  }
  if (segment == nullptr || is_visitor()) {
    return;
  }
  segment->end_ns.store(now_ns(), std::memory_order_relaxed);
  segment->end_ticks.store(now_ticks(), std::memory_order_relaxed);
  segment->state.store(state, std::memory_order_release);  // pairs with the command's reader
}

void Process::explain(const char* why) noexcept {
  stats::Segment* const segment = this->segment();
  if (segment != nullptr && explained_.exchange(1, std::memory_order_relaxed) == 0) {
    strncpy(segment->why, why, sizeof segment->why - 1);
  }
}

void Process::name_engine(const char* name) noexcept {
  if (stats::Segment* const segment = this->segment(); segment != nullptr) {
    strncpy(segment->engine, name, sizeof segment->engine - 1);
  }
}

}  // namespace ioweave::calls
