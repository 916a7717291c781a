// Calls that could tell that writes were held back (write_behind.hpp), of
// libioweave_preload_behind.so alone. Where nothing is held, each is a load and a jump more than
// the real call.

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <ctime>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/errno_kept.hpp"
#include "calls/libc/real.hpp"
#include "calls/libc/wrap.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/write_behind.hpp"
#include "engine/raw_syscall.hpp"
#include "stats/behind_pool.hpp"

namespace ioweave::calls {

using engine::raw_syscall;

extern "C" const bool ioweave_has_exposures = true;

__attribute__((constructor(101))) static void resolve_exposures() noexcept {
  real::resolve_exposures();
}

#define IOWEAVE_EXPOSURE(name, result, parameters, arguments, ...) \
  IOWEAVE_WRAP(result, name, parameters) {                         \
    come_after_writes();                                           \
    return real::name arguments;                                   \
  }
IOWEAVE_EXPOSURES(IOWEAVE_EXPOSURE, IOWEAVE_ALIAS, IOWEAVE_SKIP)

#define IOWEAVE_CREDENTIAL(name, result, parameters, arguments, ...) \
  IOWEAVE_WRAP(result, name, parameters) {                           \
    stop_holding_writes();                                           \
    return real::name arguments;                                     \
  }
IOWEAVE_CREDENTIALS(IOWEAVE_CREDENTIAL, IOWEAVE_SKIP, IOWEAVE_SKIP)

// ---- What the C library does by itself ----------------------------------------------------------

namespace {

/// Of a stream that was opened.
FILE* announce_stream(FILE* stream) noexcept {
  if (stream != nullptr) {
    write_behind.keep_plain(fileno(stream));
  }
  return stream;
}

void announce_request(const aiocb* request) noexcept {
  if (write_behind.is_wanted() && request != nullptr) {
    write_behind.keep_plain(request->aio_fildes);
  }
}

}  // namespace

IOWEAVE_WRAP(FILE*, fopen, (const char* path, const char* mode)) {
  come_after_writes();
  return announce_stream(real::fopen(path, mode));
}
IOWEAVE_WRAP(FILE*, freopen, (const char* path, const char* mode, FILE* stream)) {
  come_after_writes();
  return announce_stream(real::freopen(path, mode, stream));
}

IOWEAVE_WRAP(int, aio_read, (aiocb * request)) {
  announce_request(request);
  return real::aio_read(request);
}
IOWEAVE_WRAP(int, aio_write, (aiocb * request)) {
  announce_request(request);
  return real::aio_write(request);
}
IOWEAVE_WRAP(int, lio_listio, (int mode, aiocb* const* requests, int count, sigevent* event)) {
  for (int i = 0; write_behind.is_wanted() && i < count; ++i) {
    announce_request(requests[i]);
  }
  return real::lio_listio(mode, requests, count, event);
}

IOWEAVE_WRAP(int, dprintf, (int fd, const char* format, ...)) {
  come_after_writes();
  va_list arguments;
  va_start(arguments, format);
  const int result = real::vdprintf(fd, format, arguments);
  va_end(arguments);
  return result;
}
IOWEAVE_WRAP(int, __dprintf_chk, (int fd, int flag, const char* format, ...)) {
  come_after_writes();
  va_list arguments;
  va_start(arguments, format);
  const int result = real::__vdprintf_chk(fd, flag, format, arguments);
  va_end(arguments);
  return result;
}

IOWEAVE_WRAP(int, flock, (int fd, int operation)) {
  come_after_writes();
  uses_file_locks.store(true, std::memory_order_relaxed);
  return real::flock(fd, operation);
}
IOWEAVE_WRAP(int, lockf, (int fd, int command, off_t bytes)) {
  come_after_writes();
  uses_file_locks.store(true, std::memory_order_relaxed);
  return real::lockf(fd, command, bytes);
}

// ---- One thread ---------------------------------------------------------------------------------

IOWEAVE_WRAP(int, unshare, (int flags)) {
  if ((flags & (CLONE_FILES | CLONE_NEWNS)) != 0) {  // the command would not find its files
    stop_holding_writes();
  } else if (write_behind.is_wanted()) {
    call_uncancelled([] { write_behind.end_threads(); });
  }
  return real::unshare(flags);
}
IOWEAVE_WRAP(int, setns, (int fd, int type)) {
  stop_holding_writes();
  return real::setns(fd, type);
}
// ---- The end of children ------------------------------------------------------------------------

namespace {

/// A child that was killed may have left writes, which the command makes within its next look. Who
/// has heard of the end must not see the file before.
void await_rest_of(pid_t child) noexcept {
  const ErrnoKept kept;
  constexpr int kImages = 8;  // of one process: by exec
  constexpr int kPatience = 2500;
  constexpr timespec kMoment{0, 2'000'000};
  char path[Process::kPathBytes];
  for (int image = 0; image < kImages; ++image) {
    process.path_of_image(path, child, image, stats::kBehindSuffix.data());
    for (int i = 0; i < kPatience && raw_syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0; ++i) {
      raw_syscall(SYS_nanosleep, &kMoment, nullptr);
    }
  }
}

/// Makes a call that tells of a child's end. `status` is where the program wants to have it, or
/// null.
template <class Call>
pid_t wait_for_child(int* status, Call call) {
  int own = 0;
  int* const told = status != nullptr ? status : &own;
  const pid_t child = call(told);
  if (child > 0 && WIFSIGNALED(*told) && write_behind.is_possible()) {
    await_rest_of(child);
  }
  return child;
}

}  // namespace

IOWEAVE_WRAP(pid_t, wait, (int* status)) {
  return wait_for_child(status, [=](int* told) { return real::wait(told); });
}
IOWEAVE_WRAP(pid_t, waitpid, (pid_t which, int* status, int options)) {
  return wait_for_child(status, [=](int* told) { return real::waitpid(which, told, options); });
}
IOWEAVE_WRAP(pid_t, wait3, (int* status, int options, struct rusage* usage)) {
  return wait_for_child(status, [=](int* told) { return real::wait3(told, options, usage); });
}
IOWEAVE_WRAP(pid_t, wait4, (pid_t which, int* status, int options, struct rusage* usage)) {
  return wait_for_child(status,
                        [=](int* told) { return real::wait4(which, told, options, usage); });
}
IOWEAVE_WRAP(int, waitid, (idtype_t type, id_t id, siginfo_t* info, int options)) {
  siginfo_t own{};
  siginfo_t* const told = info != nullptr ? info : &own;
  const int result = real::waitid(type, id, told, options);
  if (result == 0 && write_behind.is_possible() && told->si_pid > 0 &&
      (told->si_code == CLD_KILLED || told->si_code == CLD_DUMPED)) {
    await_rest_of(told->si_pid);
  }
  return result;
}

// ---- Memory of several processes ----------------------------------------------------------------

IOWEAVE_WRAP(void*, shmat, (int id, const void* address, int flags)) {
  share_memory();
  return real::shmat(id, address, flags);
}
IOWEAVE_VARIANTS(IOWEAVE_HANDOVERS)

}  // namespace ioweave::calls
