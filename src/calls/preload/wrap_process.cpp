// The life of the process: start, fork, exec, exit.

#include <cerrno>
#include <cstdarg>
#include <cstdlib>

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calls/preload/engine_calls.hpp"
#include "calls/preload/prefetcher.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/real.hpp"
#include "calls/preload/table.hpp"
#include "calls/preload/wrap.hpp"

namespace ioweave::calls {
namespace {

using State = stats::Segment::State;

/// Only plain stores: a child of a process with many threads may find any lock taken. Most
/// children exec next; what costs time waits until they do something that counts.
void became_child() noexcept {
  if (!table.active() && !process.unborn()) {
    return;
  }
  table.became_child();
  process.became_child();
  forget_engine();
}

__attribute__((constructor(101))) void start() noexcept {
  const int saved = errno;
  real::resolve();
  if (process.attach() && table.start()) {
    pthread_atfork(nullptr, nullptr, &became_child);
  }
  errno = saved;
}

__attribute__((destructor(101))) void end() noexcept {
  process.mark(State::exited);
}

/// Before an image is replaced; undone where that fails.
template <class Exec>
int replaced(Exec exec) {
  process.mark(State::replaced);
  const int result = exec();
  const int saved = errno;
  process.mark(State::running);
  errno = saved;
  return result;
}

}  // namespace

// ---- fork ---------------------------------------------------------------------------------------

// fork(2) runs the handler; _Fork(3) runs none.
IOWEAVE_WRAP(pid_t, _Fork, ()) {
  const pid_t child = real::_Fork();
  if (child == 0) {
    became_child();
  }
  return child;
}

// vfork(2) returns twice on one stack, so nothing may be left on it: note that memory is shared
// from now on, and go on in the C library. clone(2) with memory shared is rare and treated alike.
#if defined(__x86_64__)
__asm__(
    ".pushsection .text\n"
    ".globl vfork\n.type vfork,@function\nvfork:\n"
    "  endbr64\n"
    "  movl $1, ioweave_memory_was_shared(%rip)\n"
    "  jmp __vfork@PLT\n"
    ".size vfork,.-vfork\n"
    ".globl clone\n.type clone,@function\nclone:\n"
    "  endbr64\n"
    "  movl $1, ioweave_memory_was_shared(%rip)\n"
    "  jmp __clone@PLT\n"
    ".size clone,.-clone\n"
    ".popsection\n");
#elif defined(__aarch64__)
__asm__(
    ".pushsection .text\n"
    ".globl vfork\n.type vfork,%function\nvfork:\n"
    "  hint #34\n"
    "  adrp x16, ioweave_memory_was_shared\n"
    "  mov w17, #1\n"
    "  str w17, [x16, #:lo12:ioweave_memory_was_shared]\n"
    "  b __vfork\n"
    ".size vfork,.-vfork\n"
    ".globl clone\n.type clone,%function\nclone:\n"
    "  hint #34\n"
    "  adrp x16, ioweave_memory_was_shared\n"
    "  mov w17, #1\n"
    "  str w17, [x16, #:lo12:ioweave_memory_was_shared]\n"
    "  b __clone\n"
    ".size clone,.-clone\n"
    ".popsection\n");
#endif

// ---- exec ---------------------------------------------------------------------------------------

IOWEAVE_WRAP(int, execve, (const char* path, char* const* argv, char* const* envp)) {
  return replaced([=] { return real::execve(path, argv, envp); });
}
IOWEAVE_WRAP(int, execv, (const char* path, char* const* argv)) {
  return replaced([=] { return real::execve(path, argv, environ); });
}
IOWEAVE_WRAP(int, execvpe, (const char* file, char* const* argv, char* const* envp)) {
  return replaced([=] { return real::execvpe(file, argv, envp); });
}
IOWEAVE_WRAP(int, execvp, (const char* file, char* const* argv)) {
  return replaced([=] { return real::execvpe(file, argv, environ); });
}
IOWEAVE_WRAP(int, fexecve, (int fd, char* const* argv, char* const* envp)) {
  return replaced([=] { return real::fexecve(fd, argv, envp); });
}
IOWEAVE_WRAP(int, execveat,
             (int dir, const char* path, char* const* argv, char* const* envp, int flags)) {
  return replaced([=] { return real::execveat(dir, path, argv, envp, flags); });
}

// The list forms put their arguments into an array on the stack, as the C library does: exec is
// async-signal-safe and may follow a vfork.
// NOLINTBEGIN(bugprone-macro-parentheses): `argv` and `arguments` are declarations.
#define IOWEAVE_ARGUMENT_ARRAY(argv, arguments, first)                                    \
  va_list counting;                                                                       \
  size_t count = 1;                                                                       \
  va_start(counting, first);                                                              \
  while (va_arg(counting, char*) != nullptr) {                                            \
    ++count;                                                                              \
  }                                                                                       \
  va_end(counting);                                                                       \
  auto** const argv = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*))); \
  argv[0] = const_cast<char*>(first);                                                     \
  va_list arguments;                                                                      \
  va_start(arguments, first);                                                             \
  for (size_t i = 1; i <= count; ++i) {                                                   \
    argv[i] = va_arg(arguments, char*);                                                   \
  }

// NOLINTEND(bugprone-macro-parentheses)

IOWEAVE_WRAP(int, execl, (const char* path, const char* first, ...)) {
  IOWEAVE_ARGUMENT_ARRAY(argv, arguments, first)
  va_end(arguments);
  return wrapped_execve(path, argv, environ);
}
IOWEAVE_WRAP(int, execlp, (const char* file, const char* first, ...)) {
  IOWEAVE_ARGUMENT_ARRAY(argv, arguments, first)
  va_end(arguments);
  return wrapped_execvpe(file, argv, environ);
}
IOWEAVE_WRAP(int, execle, (const char* path, const char* first, ...)) {
  IOWEAVE_ARGUMENT_ARRAY(argv, arguments, first)
  char* const* const envp = va_arg(arguments, char* const*);
  va_end(arguments);
  return wrapped_execve(path, argv, envp);
}

// ---- exit ---------------------------------------------------------------------------------------

IOWEAVE_WRAP(void, _exit, (int status)) {
  process.mark(State::exited);
  while (true) {
    syscall(SYS_exit_group, status);
  }
}
IOWEAVE_ALIAS(void, _Exit, (int), _exit);

IOWEAVE_WRAP(void, quick_exit, (int status)) {
  process.mark(State::exited);
  real::quick_exit(status);
}

// ---- prctl --------------------------------------------------------------------------------------

// A program that is about to confine itself may not allow the system calls that we make beside its
// own, and the punishment may be death: leave it alone, and end our threads first.
IOWEAVE_WRAP(int, prctl, (int option, ...)) {
  va_list arguments;
  va_start(arguments, option);
  const unsigned long a = va_arg(arguments, unsigned long);
  const unsigned long b = va_arg(arguments, unsigned long);
  const unsigned long c = va_arg(arguments, unsigned long);
  const unsigned long d = va_arg(arguments, unsigned long);
  va_end(arguments);
  if ((option == PR_SET_SECCOMP || option == PR_SET_NO_NEW_PRIVS) && !process.is_visitor()) {
    const int saved = errno;
    table.step_aside();
    if (prefetcher.running() && !process.unborn()) {
      prefetcher.stop();
    }
    process.explain("it confines itself (seccomp): left alone from then on");
    errno = saved;
  }
  return real::prctl(option, a, b, c, d);
}

}  // namespace ioweave::calls
