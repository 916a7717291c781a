#include "calls/mpiio/session.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file_system_kind.hpp"
#include "base/private_descriptors.hpp"
#include "calls/mpiio/ranks.hpp"
#include "calls/mpiio/real_mpi.hpp"
#include "calls/mpiio/report.hpp"

namespace ioweave::calls {
namespace {

/// Threads that fill the page cache.
constexpr uint32_t kThreads = 16;
constexpr uint64_t kMostBufferBytes = 4 << 20;
constexpr uint64_t kMostBuffers = 1024;

bool is_one_machine() noexcept {
  if (const auto told = are_ranks_on_one_machine()) {
    return *told;
  }
  int ranks = 0;
  return real_mpi().Comm_size(real_mpi().world, &ranks) == MPI_SUCCESS && ranks == 1;
}

}  // namespace

std::atomic<Session*> Session::only_{nullptr};

Session* Session::opened() noexcept {
  Session* const session = only_.load(std::memory_order_acquire);
  return session != nullptr ? session->unless_inherited() : nullptr;
}

Session* Session::get() noexcept {
  static Session* const session = []() -> Session* {
    if (::getauxval(AT_SECURE) != 0 || !real_mpi().is_ours) {
      return nullptr;
    }
    try {
      auto* const opened = new Session;
      only_.store(opened, std::memory_order_release);
      return opened;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }();
  return session != nullptr ? session->unless_inherited() : nullptr;
}

Session::Session()
    : settings_(mpiio_settings(warnings_)),
      report_(settings_.report),
      born_(service::fork_generation()) {
  if (!warnings_.empty()) {
    report_.print(warnings_);
  }
}

stream::Plan* Session::open_plan() noexcept {
  const std::lock_guard guard(plan_lock_);
  if (!was_opened_) {
    was_opened_ = true;
    try {
      open_plan_once();
    } catch (const std::bad_alloc&) {
      plan_ = nullptr;
    }
    shown_plan_.store(plan_.get(), std::memory_order_release);
  }
  return plan_.get();
}

bool Session::open_service() {
  if (service_ == nullptr) {
    service::Options options;
    options.threads = kThreads;
    int error = 0;
    service_ = service::Service::open(options, error, why_without_);
  }
  return service_ != nullptr;
}

void Session::open_plan_once() {
  if (!open_service()) {
    return;
  }
  stream::PlanOptions wanted;
  wanted.schedule = settings_.schedule;
  wanted.budget_bytes = settings_.budget_bytes;
  wanted.slice_bytes = std::min<uint64_t>(1 << 20, settings_.budget_bytes / 4);
  wanted.depth = settings_.depth;
  wanted.only_cache = true;
  int error = 0;
  plan_ = stream::Plan::open(*service_, wanted, error, why_without_);
}

stream::WriteStream* Session::open_stream() {
  const std::lock_guard guard(plan_lock_);
  if (stream_ == nullptr && open_service()) {
    stream::WriteStreamOptions options;
    options.path = IOW_PATH_BUFFERED;  // others may read and write the file by MPI's own means
    const uint64_t quarter = settings_.write_behind_bytes / 4;
    options.buffer_bytes = std::min(kMostBufferBytes, quarter - quarter % stream::kPageBytes);
    options.buffers = static_cast<uint32_t>(
        std::min(settings_.write_behind_bytes / options.buffer_bytes, kMostBuffers));
    options.depth = options.buffers;
    stream_ = stream::WriteStream::open(*service_, options);
  }
  return stream_.get();
}

void Session::enter(MPI_File file, const char* name, int mode) noexcept {
  const bool may_write = writes_behind() && (mode & (MPI_MODE_WRONLY | MPI_MODE_RDWR)) != 0;
  if (settings_.schedule == IOW_PLAN_NORMAL && !writes_behind()) {
    return;
  }
  Descriptor fd = open_again(name, mode);
  stream::FileState state;
  if (!fd.is_open() || stream::find_state(fd.get(), state) != 0) {
    return;
  }
  try {
    Tracked tracked;
    tracked.id = state.id;
    stream::WriteStream* const stream = may_write ? open_stream() : nullptr;
    tracked.writer = stream != nullptr ? writers_.share(state.id, fd.get(), *stream) : nullptr;
    if (may_write && tracked.writer == nullptr) {
      counts_.leave_alone(LeftAlone::not_opened);
    }
    PlanKeeper& keeper = *this;
    tracked.file = std::make_shared<OpenFile>(std::move(fd), keeper,
                                              static_cast<int64_t>(settings_.budget_bytes / 2),
                                              settings_.is_eager);
    const std::lock_guard guard(lock_);
    files_[file] = std::move(tracked);
    counts_.files.fetch_add(1, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    counts_.leave_alone(LeftAlone::not_opened);
  }
}

/// The library's own descriptor of the file; none if the file is to be left alone.
Descriptor Session::open_again(const char* name, int mode) noexcept {
  const bool is_write_only = (mode & MPI_MODE_WRONLY) != 0;
  if (is_write_only && !writes_behind()) {
    counts_.leave_alone(LeftAlone::write_only);
    return Descriptor();
  }
  if ((mode & MPI_MODE_SEQUENTIAL) != 0) {
    counts_.leave_alone(LeftAlone::sequential);
    return Descriptor();
  }
  // What stands before a colon may be a file system's name for MPI.
  const char* const colon = std::strchr(name, ':');
  struct stat found {};
  if (::stat(name, &found) != 0 && colon != nullptr) {
    name = colon + 1;
  }
  if (::stat(name, &found) != 0) {
    counts_.leave_alone(LeftAlone::not_opened);
    return Descriptor();
  }
  if (!S_ISREG(found.st_mode)) {
    counts_.leave_alone(LeftAlone::not_regular);  // to open it might do something
    return Descriptor();
  }
  Descriptor fd(make_descriptor_private(::open(name, (is_write_only ? O_WRONLY : O_RDONLY) | O_CLOEXEC | O_NOCTTY),
                                        [](auto... words) { return ::syscall(words...); }));
  if (!fd.is_open()) {
    counts_.leave_alone(LeftAlone::not_opened);
    return Descriptor();
  }
  if (is_memory_file_system(fd.get())) {
    counts_.leave_alone(LeftAlone::in_memory);
    return Descriptor();
  }
  if (!is_local(fd.get(), mode)) {
    counts_.leave_alone(LeftAlone::other_machines);
    return Descriptor();
  }
  return fd;
}

/// Whether all who may write the file share its page cache. Else what is read ahead could be older
/// than what the program would have read.
bool Session::is_local(int fd, int mode) const noexcept {
  return (mode & MPI_MODE_RDONLY) != 0 || is_local_file_system(fd) || is_one_machine();
}

std::shared_ptr<OpenFile> Session::find(MPI_File file) noexcept {
  const std::lock_guard guard(lock_);
  const auto found = files_.find(file);
  return found != files_.end() ? found->second.file : nullptr;
}

int Session::leave(MPI_File file) noexcept {
  Tracked left;  // its end may wait, outside of the lock
  {
    const std::lock_guard guard(lock_);
    const auto found = files_.find(file);
    if (found == files_.end()) {
      return 0;
    }
    left = std::move(found->second);
    files_.erase(found);
  }
  return left.writer != nullptr ? left.writer->take_error() : 0;
}

std::shared_ptr<WriteBehind> Session::find_writer(MPI_File file) noexcept {
  if (!writers_.has_any()) {
    return nullptr;
  }
  const std::lock_guard guard(lock_);
  const auto found = files_.find(file);
  return found != files_.end() ? found->second.writer : nullptr;
}

void Session::settle(MPI_File file) noexcept {
  if (!writers_.has_any()) {
    return;
  }
  std::optional<stream::FileId> id;
  {
    const std::lock_guard guard(lock_);
    if (const auto found = files_.find(file); found != files_.end()) {
      id = found->second.id;
    }
  }
  if (id.has_value()) {
    writers_.settle(*id);  // another handle of the same file may have written
  } else {
    writers_.settle_all();  // which file it is of is not known
  }
}

void Session::finish() noexcept {
  std::unordered_map<MPI_File, Tracked> left;
  {
    const std::lock_guard guard(lock_);
    left.swap(files_);
  }
  for (const auto& [handle, tracked] : left) {
    const int error = tracked.writer != nullptr ? tracked.writer->take_error() : 0;
    if (error != 0) {  // and no close will tell
      report_.print("ioweave: a write behind the program failed, to a file that was not closed: " +
                    std::string(std::strerror(-error)) + "\n");
    }
  }
  left.clear();
  const std::lock_guard guard(plan_lock_);
  if (report_.is_wanted()) {
    try {
      int rank = -1;
      static_cast<void>(real_mpi().Comm_rank(real_mpi().world, &rank));
      const stream::Plan* const plan = this->plan();
      iow_plan_stats idle{};
      idle.schedule = settings_.schedule;
      report_.add(format_mpiio_report(rank, counts_, plan != nullptr ? plan->statistics() : idle,
                                      why_without_));
    } catch (const std::bad_alloc&) {
      // It goes without.
    }
  }
}

}  // namespace ioweave::calls
