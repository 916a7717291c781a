// libioweave_tasks.so, linked before the C library or preloaded: pread(2) and its relatives of an
// unchanged task program pause the task instead of its core, as in the TASIO paper. Outside tasks,
// and where no runtime is known, each is the real call.
//
// Kept out of tasks' way as well: calls in a signal handler, and writes of a program whose files
// are limited in size (the kernel would signal another thread). One system call's worth is moved,
// as the real call would: nothing is continued. errno is the caller's, of whatever thread the task
// is on when the call returns.

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "calls/libc/file_size_limit.hpp"
#include "calls/libc/real.hpp"
#include "calls/libc/signal_context.hpp"
#include "calls/libc/wrap.hpp"
#include "calls/report_file.hpp"
#include "calls/task_preload/report.hpp"
#include "calls/task_preload/settings.hpp"
#include "calls/thread_errno.hpp"
#include "service/service.hpp"

namespace ioweave::calls {
namespace {

using engine::Op;

/// Everything but the phase is written once, by the thread that takes it out of `fresh`, and never
/// destroyed: tasks may run to the very end of the process.
enum class Phase : uint32_t { fresh, starting, without, ready };
std::atomic<Phase> phase{Phase::fresh};
service::Service* task_service = nullptr;
std::string* why_without = nullptr;  ///< where there is no service
pid_t reporter = 0;

/// What held when the process started, as a run of the interposer's does: from then on the program
/// may change its environment, folder and descriptors, and fork.
struct Beginning {
  TaskSettings settings;
  std::string warnings;
  ReportFile report;
};
Beginning* beginning = nullptr;

void read_beginning() {
  std::string warnings;
  TaskSettings settings = task_settings(warnings);
  ReportFile report(settings.report);
  beginning = new Beginning{std::move(settings), std::move(warnings), std::move(report)};
}

/// At exit.
void write_report() noexcept {
  if (::getpid() != reporter || (task_service != nullptr && task_service->is_inherited())) {
    return;  // a forked child: what is counted is the parent's, who reports it
  }
  TaskReport report{"none", *why_without, {}};
  if (task_service != nullptr) {
    report.tasks = task_service->task_host_name();
    report.why = task_service->task_host_reason();
    task_service->task_statistics(report.stats);
  }
  if (beginning->report.is_wanted()) {
    beginning->report.add(format_report(report));
  }
  if (const std::string warning = describe_lack_of_room(report); !warning.empty()) {
    beginning->report.print(warning);
  }
}

/// Finds the runtime and opens the service. False where the calls stay plain for good.
bool open_service() {
  const TaskSettings& settings = beginning->settings;
  std::string text = beginning->warnings;
  std::string why;
  auto found = tasking::open_task_host(settings.service.tasks, why);
  if (settings.service.tasks == tasking::HostKind::none) {
    why = "IOWEAVE_TASKS is none";
  } else if (found == nullptr && settings.service.tasks != tasking::HostKind::automatic) {
    text += "ioweave: I/O in tasks stays plain: " + why + "\n";
  }
  if (found != nullptr) {
    int error = 0;
    auto opened = service::Service::open(settings.service, error, why);
    if (opened == nullptr) {
      text += "ioweave: I/O in tasks stays plain: " + why + "\n";
    } else {
      task_service = opened.release();
    }
  }
  if (!text.empty()) {
    beginning->report.print(text);
  }
  if (task_service != nullptr || beginning->report.is_wanted()) {
    why_without = new std::string(why);
    reporter = ::getpid();
    std::atexit([] { write_report(); });
  }
  return task_service != nullptr;
}

/// Signals blocked on this thread, as they usually are. A handler blocks its own signal as a rule:
/// it shows in a mask that is not the usual one.
struct UsualMask {
  static constexpr uint32_t kConvincing = 16;
  static constexpr uint64_t kConvincingNs = 1'000'000'000;
  uint64_t mask;       ///< known not to be that of a handler; at first: nothing blocked
  uint64_t candidate;  ///< may be a handler's, or a thread's that blocks signals for good:
  uint32_t seen;       ///< how many calls have met it in a row,
  uint64_t since_ns;   ///< and since when. A handler may read a lot, but not for long
};
thread_local constinit UsualMask usual{};

/// One system call, as a rule. Not to be inlined: the thread is another one after a pause.
__attribute__((noinline)) bool is_in_signal_handler() noexcept {
  uint64_t blocked = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &blocked, sizeof blocked);
  if (blocked == usual.mask || blocked == 0) [[likely]] {
    usual.seen = 0;
    return false;
  }
  if (!may_be_in_signal_handler()) {
    usual.mask = blocked;
    return false;
  }
  const uint64_t now = now_ns();
  if (usual.seen == 0 || usual.candidate != blocked) {
    usual.candidate = blocked;
    usual.seen = 0;
    usual.since_ns = now;
  }
  if (++usual.seen >= UsualMask::kConvincing && now - usual.since_ns >= UsualMask::kConvincingNs) {
    usual.mask = blocked;
  }
  return true;
}

/// The first call in the process. Those that come meanwhile stay plain, and those of constructors
/// before ours.
void start_service() noexcept {
  Phase fresh = Phase::fresh;
  if (beginning == nullptr || is_in_signal_handler() ||
      !phase.compare_exchange_strong(fresh, Phase::starting, std::memory_order_acq_rel)) {
    return;
  }
  const int kept = errno;
  bool opened = false;
  try {
    opened = open_service();
  } catch (const std::bad_alloc&) {
    // The calls stay plain.
  }
  errno = kept;
  phase.store(opened ? Phase::ready : Phase::without, std::memory_order_release);
}

/// Whether this call is one of a task, which can be paused.
bool pauses_a_task() noexcept {
  Phase now = phase.load(std::memory_order_acquire);  // pairs with start_service()
  if (now == Phase::fresh) [[unlikely]] {
    start_service();
    now = phase.load(std::memory_order_acquire);
  }
  return now == Phase::ready && task_service->is_in_pausable_task() && !is_in_signal_handler();
}

/// As a system call: -1 and errno for an error, errno untouched otherwise.
ssize_t transfer_in_task(Op op, int fd, const void* buffer, uint64_t bytes, off_t offset) {
  pthread_testcancel();  // the call it stands for is a cancellation point; nothing below is one
  const int kept = errno_of_this_thread();
  const int64_t result =
      task_service->transfer({op, fd, const_cast<void*>(buffer), bytes, offset, true});
  set_errno_of_this_thread(result < 0 ? static_cast<int>(-result) : kept);
  return result < 0 ? -1 : static_cast<ssize_t>(result);
}

bool write_pauses_a_task() noexcept {
  return pauses_a_task() && !file_size_is_limited();
}

}  // namespace

__attribute__((constructor)) void begin_process() noexcept {
  const int kept = errno;
  real::resolve();
  try {
    read_beginning();
  } catch (const std::bad_alloc&) {
    // The calls stay plain.
  }
  errno = kept;
}

IOWEAVE_WRAP(ssize_t, pread, (int fd, void* buffer, size_t bytes, off_t offset)) {
  return pauses_a_task() ? transfer_in_task(Op::read, fd, buffer, bytes, offset)
                         : real::pread(fd, buffer, bytes, offset);
}

// The checked variants abort where the buffer is too small: then the real one must see the call.
IOWEAVE_WRAP(ssize_t, __pread_chk,
             (int fd, void* buffer, size_t bytes, off_t offset, size_t size)) {
  return bytes <= size ? wrapped_pread(fd, buffer, bytes, offset)
                       : real::__pread_chk(fd, buffer, bytes, offset, size);
}

IOWEAVE_WRAP(ssize_t, pwrite, (int fd, const void* buffer, size_t bytes, off_t offset)) {
  return write_pauses_a_task() ? transfer_in_task(Op::write, fd, buffer, bytes, offset)
                               : real::pwrite(fd, buffer, bytes, offset);
}

// A count below zero is the kernel's to refuse.
IOWEAVE_WRAP(ssize_t, preadv, (int fd, const iovec* vectors, int count, off_t offset)) {
  return count >= 0 && pauses_a_task()
             ? transfer_in_task(Op::readv, fd, vectors, static_cast<uint64_t>(count), offset)
             : real::preadv(fd, vectors, count, offset);
}

IOWEAVE_WRAP(ssize_t, pwritev, (int fd, const iovec* vectors, int count, off_t offset)) {
  return count >= 0 && write_pauses_a_task()
             ? transfer_in_task(Op::writev, fd, vectors, static_cast<uint64_t>(count), offset)
             : real::pwritev(fd, vectors, count, offset);
}

IOWEAVE_WRAP(int, fsync, (int fd)) {
  return pauses_a_task() ? static_cast<int>(transfer_in_task(Op::fsync, fd, nullptr, 0, 0))
                         : real::fsync(fd);
}

IOWEAVE_WRAP(int, fdatasync, (int fd)) {
  return pauses_a_task() ? static_cast<int>(transfer_in_task(Op::fdatasync, fd, nullptr, 0, 0))
                         : real::fdatasync(fd);
}
IOWEAVE_VARIANTS(IOWEAVE_TASK_CALLS)

}  // namespace ioweave::calls
