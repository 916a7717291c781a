#include "calls/mpiio/session.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_system_kind.hpp"
#include "calls/mpiio/ranks.hpp"
#include "calls/mpiio/real_mpi.hpp"
#include "calls/mpiio/report.hpp"

namespace ioweave::calls {
namespace {

/// Threads that fill the page cache.
constexpr uint32_t kThreads = 16;
constexpr uint64_t kMostBufferBytes = 4 << 20;
constexpr uint64_t kMostBuffers = 1024;
constexpr rlim_t kMostOpen = 256;
constexpr size_t kMostClaimed = 65'536;

int count_ranks(MPI_Comm comm) noexcept {
  int ranks = 0;
  return real_mpi().Comm_size(comm, &ranks) == MPI_SUCCESS ? ranks : 0;
}

/// Whether all who open a file by this communicator run on this machine.
bool is_on_one_machine(MPI_Comm comm) noexcept {
  const int ranks = count_ranks(comm);
  const int all = count_ranks(real_mpi().world);
  // With more than that, some were started later, or by others.
  return ranks == 1 ||
         (ranks <= all && are_ranks_on_one_machine(kRankVariables, all).value_or(false));
}

/// A part of what the program may open.
uint32_t most_open_files() noexcept {
  rlimit limit{};
  const bool is_known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
  return is_known ? static_cast<uint32_t>(std::min<rlim_t>(limit.rlim_cur / 8, kMostOpen)) : 0;
}

/// What a name leads to. To open it for nothing but its place does nothing to it, and its end to
/// nobody's locks.
struct Place {
  Descriptor fd;
  stream::FileState state;
};

/// False if there is nothing. `name` loses a file system's name for MPI, which may stand before a
/// colon.
bool find_place(const char*& name, Place& place) noexcept {
  const char* const colon = std::strchr(name, ':');
  struct stat found {};
  if (colon != nullptr && ::stat(name, &found) != 0) {
    name = colon + 1;
  }
  place.fd = Descriptor(::open(name, O_PATH | O_CLOEXEC));
  return place.fd.is_open() && stream::find_state(place.fd.get(), place.state) == 0;
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
      born_(service::fork_generation()),
      most_open_(most_open_files()) {
  if (!warnings_.empty()) {
    report_.print(warnings_);
  }
}

stream::Plan* Session::open_plan() noexcept {
  if (settings_.schedule == IOW_PLAN_NORMAL) {
    return nullptr;
  }
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
  wanted.reads_cached = settings_.is_eager;
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

void Session::enter(MPI_File file, MPI_Comm comm, const char* name, int mode) noexcept {
  try {
    if (settings_.schedule == IOW_PLAN_NORMAL && !writes_behind()) {
      claim(name);
      return;
    }
    NamedFile named;
    const bool is_followed = find_file(name, comm, mode, named);
    if (!is_followed && !writes_behind()) {
      return;
    }
    Tracked tracked;
    tracked.id = named.id;
    if (!is_followed) {
      const std::lock_guard guard(lock_);
      files_[file] = std::move(tracked);  // so that it is known which writes it is not of
      return;
    }
    if (writes_behind() && (mode & (MPI_MODE_WRONLY | MPI_MODE_RDWR)) != 0) {
      stream::WriteStream* const stream = open_stream();
      tracked.writer = stream != nullptr ? writers_.share(named.id, *stream, most_open_) : nullptr;
      if (tracked.writer == nullptr) {
        counts_.leave_alone(LeftAlone::not_opened);
      }
    }
    PlanKeeper& keeper = *this;
    tracked.file = std::make_shared<OpenFile>(std::move(named), keeper,
                                              static_cast<int64_t>(settings_.budget_bytes / 2),
                                              settings_.is_eager);
    const std::lock_guard guard(lock_);
    files_[file] = std::move(tracked);
    counts_.files.fetch_add(1, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {
    counts_.leave_alone(LeftAlone::not_opened);
  }
}

/// The same for a file that nothing is read ahead of.
void Session::claim(const char* name) {
  Place place;
  if (run_notes_.are_wanted() && find_place(name, place)) {
    claim(place.state.id);
  }
}

/// Has the command of the run, which reads ahead of files from outside, leave this one alone: there
/// the schedule says who goes first.
void Session::claim(const FileId& file) {
  if (!run_notes_.are_wanted()) {
    return;
  }
  {
    const std::lock_guard guard(lock_);
    if (claimed_.size() == kMostClaimed || !claimed_.insert(file).second) {
      return;
    }
  }
  run_notes_.add_file(file);
}

/// False if the file is to be left alone.
bool Session::find_file(const char* name, MPI_Comm comm, int mode, NamedFile& file) {
  const auto leave_alone = [&](LeftAlone why) {
    counts_.leave_alone(why);
    return false;
  };
  if ((mode & MPI_MODE_WRONLY) != 0 && !writes_behind()) {
    return leave_alone(LeftAlone::write_only);
  }
  Place place;
  if (!find_place(name, place)) {
    return leave_alone(LeftAlone::not_opened);
  }
  file.id = place.state.id;
  claim(file.id);
  if ((mode & MPI_MODE_SEQUENTIAL) != 0) {
    return leave_alone(LeftAlone::sequential);
  }
  if (!place.state.is_regular) {
    return leave_alone(LeftAlone::not_regular);
  }
  if (is_memory_file_system(place.fd.get())) {
    return leave_alone(LeftAlone::in_memory);
  }
  // Whether all who may write it share its page cache. Else what is read ahead could be older than
  // what the program would have read.
  if ((mode & MPI_MODE_RDONLY) == 0 && !is_local_file_system(place.fd.get()) &&
      !is_on_one_machine(comm)) {
    return leave_alone(LeftAlone::other_machines);
  }
  char folder[PATH_MAX];
  if (name[0] != '/' && ::getcwd(folder, sizeof folder) != nullptr) {
    file.path.append(folder).append("/");  // the program may go elsewhere
  }
  file.path.append(name);
  return true;
}

/// It keeps the number that it has got, although the program might want that: to move it would be
/// to close one, and take the process's locks on the file.
Descriptor Session::open_file(const NamedFile& file) noexcept {
  if (open_files_.fetch_add(1, std::memory_order_relaxed) >= most_open_) {
    note_closed();
    counts_.leave_alone(LeftAlone::many_files);
    return Descriptor();
  }
  Descriptor fd = open_known(file);
  if (!fd.is_open()) {
    note_closed();
    counts_.leave_alone(LeftAlone::not_opened);
  }
  return fd;
}

Session::Tracked* Session::look_up(MPI_File file) noexcept {
  const auto found = files_.find(file);
  return found != files_.end() ? &found->second : nullptr;
}

std::shared_ptr<OpenFile> Session::find(MPI_File file) noexcept {
  const std::lock_guard guard(lock_);
  const Tracked* const tracked = look_up(file);
  return tracked != nullptr ? tracked->file : nullptr;
}

Session::Left Session::leave(MPI_File file) noexcept {
  Left left;
  {
    const std::lock_guard guard(lock_);
    if (Tracked* const tracked = look_up(file)) {
      left.tracked = std::move(*tracked);
      files_.erase(file);
    }
  }
  left.error = left.tracked.writer != nullptr ? left.tracked.writer->take_error() : 0;
  return left;
}

Session::Tracked Session::find_to_write(MPI_File file) noexcept {
  if (!writers_.has_any()) {
    return {};
  }
  const std::lock_guard guard(lock_);
  const Tracked* const tracked = look_up(file);
  return tracked != nullptr && !tracked->is_atomic ? *tracked : Tracked{};
}

int Session::take_error(MPI_File file) noexcept {
  std::shared_ptr<WriteBehind> writer;
  if (writers_.has_any()) {
    const std::lock_guard guard(lock_);
    const Tracked* const tracked = look_up(file);
    writer = tracked != nullptr ? tracked->writer : nullptr;
  }
  return writer != nullptr ? writer->take_error() : 0;
}

void Session::set_atomic(MPI_File file, bool is_atomic) noexcept {
  drain(file);
  const std::lock_guard guard(lock_);
  if (Tracked* const tracked = look_up(file)) {
    tracked->is_atomic = is_atomic;
  }
}

void Session::end_writes() noexcept {
  const int error = writers_.take_errors();
  if (error == 0) {
    return;
  }
  try {
    report_.print("ioweave: a write behind the program failed, to a file that was not closed: " +
                  std::string(std::strerror(-error)) + "\n");
  } catch (const std::bad_alloc&) {
    // It goes without.
  }
}

void Session::drain(MPI_File file) noexcept {
  if (!writers_.has_any()) {
    return;
  }
  std::optional<FileId> id;
  {
    const std::lock_guard guard(lock_);
    if (const Tracked* const tracked = look_up(file)) {
      id = tracked->id;
    }
  }
  if (id.has_value()) {
    writers_.drain(*id);  // another handle of the same file may have written
  } else {
    writers_.drain_all();  // which file it is of is not known
  }
}

void Session::finish() noexcept {
  end_writes();
  std::unordered_map<MPI_File, Tracked> left;
  {
    const std::lock_guard guard(lock_);
    left.swap(files_);
  }
  left.clear();
  const std::lock_guard guard(plan_lock_);
  if (report_.is_wanted() || run_notes_.are_wanted()) {
    try {
      add_report();
    } catch (const std::bad_alloc&) {
      // It goes without.
    }
  }
}

void Session::add_report() const {
  int rank = -1;
  static_cast<void>(real_mpi().Comm_rank(real_mpi().world, &rank));
  const stream::Plan* const plan = this->plan();
  iow_plan_stats idle{};
  idle.schedule = settings_.schedule;
  const std::string line =
      format_mpiio_report(rank, counts_, plan != nullptr ? plan->statistics() : idle, why_without_);
  if (report_.is_wanted()) {
    report_.add(line);
  }
  run_notes_.add_report(line);
}

}  // namespace ioweave::calls
