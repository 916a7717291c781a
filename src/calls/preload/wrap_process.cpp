// The life of the process: start, fork, exec, exit.

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calls/libc/real.hpp"
#include "calls/libc/wrap.hpp"
#include "calls/preload/bounce.hpp"
#include "calls/preload/engine_calls.hpp"
#include "calls/preload/large_buffers.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/table.hpp"
#include "calls/preload/write_behind.hpp"

namespace ioweave::calls {

extern "C" {
constinit void* ioweave_real_syscall = nullptr;
}

namespace {

using State = stats::Segment::State;

/// Only plain stores: a child of a process with many threads may find any lock taken. Most
/// children exec next; what costs time waits until they do something that counts.
void became_child() noexcept {
  if (write_behind.is_possible()) {
    write_behind.after_fork_in_child();
  }
  if (process.left_alone()) {
    process.drop_segment();
    return;
  }
  if (!table.active() && !process.unborn()) {
    return;
  }
  table.became_child();
  process.became_child();
  forget_engine();
  forget_bounces();
  large_buffers.became_child();
}

void before_fork() noexcept {
  if (write_behind.is_possible()) {
    call_uncancelled([] { write_behind.forbid(); });
  }
}

void stayed_parent() noexcept {
  if (write_behind.is_possible()) {
    write_behind.allow();
  }
}

__attribute__((constructor(101))) void attach_to_run() noexcept {
  const int saved = errno;
  real::resolve();
  ioweave_real_syscall = dlsym(RTLD_NEXT, "syscall");
  // Inherited: what set it may not be ours to see, and our clock would be the end.
  int tsc = PR_TSC_ENABLE;
  if (Process::run_directory() == nullptr) {
    errno = saved;
    return;  // without a system call: a filter may forbid what the program does not need
  }
  (void)real::prctl(PR_GET_TSC, reinterpret_cast<unsigned long>(&tsc), 0, 0, 0);
  if (tsc == PR_TSC_SIGSEGV) {
    process.leave_alone();
  } else if (process.attach() && table.start()) {
    write_behind.begin(process.config());
    pthread_atfork(&before_fork, &stayed_parent, &became_child);
  }
  errno = saved;
}

__attribute__((destructor(101))) void mark_end() noexcept {
  if (write_behind.is_wanted()) {
    write_behind.stop();
  }
  process.mark(State::exited);
}

/// Before an image is replaced; undone where that fails.
template <class Exec>
int replace_image(Exec exec) {
  const bool holds_back = write_behind.is_possible() && !process.is_visitor();
  if (holds_back) {
    call_uncancelled([] { write_behind.forbid(); });
  }
  process.mark(State::replaced);
  const int result = exec();
  const int saved = errno;
  process.mark(State::running);
  if (holds_back) {
    write_behind.allow();
  }
  errno = saved;
  return result;
}

}  // namespace

// ---- fork ---------------------------------------------------------------------------------------

// fork(2) runs the handler; _Fork(3) runs none.
IOWEAVE_WRAP(pid_t, _Fork, ()) {
  before_fork();
  const pid_t child = real::_Fork();
  if (child == 0) {
    became_child();
  } else {
    stayed_parent();
  }
  return child;
}

extern "C" void ioweave_before_clone() {
  come_after_writes();
}

// vfork(2) returns twice on one stack, so nothing may be left on it: note that memory is shared
// from now on, and go on in the C library. clone(2) with memory shared is rare and treated alike.
#if defined(__x86_64__)
__asm__(
    ".pushsection .text\n"
    ".globl vfork\n.type vfork,@function\nvfork:\n"
    "  endbr64\n"
    "  subq $8, %rsp\n"
    "  call ioweave_before_clone\n"
    "  addq $8, %rsp\n"
    "  movl $1, ioweave_memory_was_shared(%rip)\n"
    "  jmp __vfork@PLT\n"
    ".size vfork,.-vfork\n"
    ".globl clone\n.type clone,@function\nclone:\n"
    "  endbr64\n"
    "  pushq %rdi\n  pushq %rsi\n  pushq %rdx\n  pushq %rcx\n  pushq %r8\n  pushq %r9\n"
    "  subq $8, %rsp\n"
    "  xorl %eax, %eax\n"
    "  call ioweave_before_clone\n"
    "  addq $8, %rsp\n"
    "  popq %r9\n  popq %r8\n  popq %rcx\n  popq %rdx\n  popq %rsi\n  popq %rdi\n"
    "  movl $1, ioweave_memory_was_shared(%rip)\n"
    "  jmp __clone@PLT\n"
    ".size clone,.-clone\n"
    ".popsection\n");
#elif defined(__aarch64__)
__asm__(
    ".pushsection .text\n"
    ".globl vfork\n.type vfork,%function\nvfork:\n"
    "  hint #34\n"
    "  stp x29, x30, [sp, #-16]!\n"
    "  bl ioweave_before_clone\n"
    "  ldp x29, x30, [sp], #16\n"
    "  adrp x16, ioweave_memory_was_shared\n"
    "  mov w17, #1\n"
    "  str w17, [x16, #:lo12:ioweave_memory_was_shared]\n"
    "  b __vfork\n"
    ".size vfork,.-vfork\n"
    ".globl clone\n.type clone,%function\nclone:\n"
    "  hint #34\n"
    "  stp x29, x30, [sp, #-80]!\n"
    "  stp x0, x1, [sp, #16]\n  stp x2, x3, [sp, #32]\n"
    "  stp x4, x5, [sp, #48]\n  stp x6, x7, [sp, #64]\n"
    "  bl ioweave_before_clone\n"
    "  ldp x0, x1, [sp, #16]\n  ldp x2, x3, [sp, #32]\n"
    "  ldp x4, x5, [sp, #48]\n  ldp x6, x7, [sp, #64]\n"
    "  ldp x29, x30, [sp], #80\n"
    "  adrp x16, ioweave_memory_was_shared\n"
    "  mov w17, #1\n"
    "  str w17, [x16, #:lo12:ioweave_memory_was_shared]\n"
    "  b __clone\n"
    ".size clone,.-clone\n"
    ".popsection\n");
#endif

// ---- exec ---------------------------------------------------------------------------------------

IOWEAVE_WRAP(int, execve, (const char* path, char* const* argv, char* const* envp)) {
  return replace_image([=] { return real::execve(path, argv, envp); });
}
IOWEAVE_WRAP(int, execv, (const char* path, char* const* argv)) {
  return replace_image([=] { return real::execve(path, argv, environ); });
}
IOWEAVE_WRAP(int, execvpe, (const char* file, char* const* argv, char* const* envp)) {
  return replace_image([=] { return real::execvpe(file, argv, envp); });
}
IOWEAVE_WRAP(int, execvp, (const char* file, char* const* argv)) {
  return replace_image([=] { return real::execvpe(file, argv, environ); });
}
IOWEAVE_WRAP(int, fexecve, (int fd, char* const* argv, char* const* envp)) {
  return replace_image([=] { return real::fexecve(fd, argv, envp); });
}
IOWEAVE_WRAP(int, execveat,
             (int dir, const char* path, char* const* argv, char* const* envp, int flags)) {
  return replace_image([=] { return real::execveat(dir, path, argv, envp, flags); });
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
  come_after_writes();
  process.mark(State::exited);
  while (true) {
    syscall(SYS_exit_group, status);
  }
}
IOWEAVE_ALIAS(_Exit, _exit)

IOWEAVE_WRAP(void, quick_exit, (int status)) {
  come_after_writes();
  process.mark(State::exited);
  real::quick_exit(status);
}

// ---- prctl --------------------------------------------------------------------------------------

// A program that is about to confine itself may not allow the system calls that we make beside its
// own, and the punishment may be death: leave it alone. Strict seccomp forbids the cycle counter as
// well, as PR_SET_TSC does.

namespace {

bool confines_itself(long option, unsigned long argument) noexcept {
  return option == PR_SET_SECCOMP || option == PR_SET_NO_NEW_PRIVS ||
         (option == PR_SET_TSC && argument == PR_TSC_SIGSEGV);
}

/// What it starts inherits the filter: nothing of ours may begin there.
void hide_run_from_children() noexcept {
  constexpr size_t kLength = std::char_traits<char>::length(config::kRunDirVariable);
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    char* const text = *variable;
    if (strncmp(text, config::kRunDirVariable, kLength) == 0 && text[kLength] == '=') {
      text[kLength + 1] = '\0';
    }
  }
}

void leave_alone(bool filters) noexcept {
  if (!process.left_alone()) {
    if (process.is_visitor()) {
      return;
    }
    const int saved = errno;
    stop_holding_writes();
    table.step_aside();
    process.explain("it confines itself (seccomp, PR_SET_TSC): left alone from then on");
    process.leave_alone();
    wait_for_transfers();
    errno = saved;
  }
  if (filters) {
    hide_run_from_children();
  }
}

}  // namespace

IOWEAVE_WRAP(int, prctl, (int option, ...)) {
  va_list arguments;
  va_start(arguments, option);
  const unsigned long a = va_arg(arguments, unsigned long);
  const unsigned long b = va_arg(arguments, unsigned long);
  const unsigned long c = va_arg(arguments, unsigned long);
  const unsigned long d = va_arg(arguments, unsigned long);
  va_end(arguments);
  if (confines_itself(option, a)) {
    leave_alone(option == PR_SET_SECCOMP);
  }
  return real::prctl(option, a, b, c, d);
}

// ---- syscall(2) ---------------------------------------------------------------------------------

// The same by its number, as libraries for seccomp do. All else goes on at once to the next
// definition, arguments and stack untouched, or to the kernel before that has been looked up.
#if defined(__x86_64__)
static_assert(SYS_prctl == 157 && SYS_seccomp == 317 && SYS_unshare == 272 &&
              SYS_close_range == 436 && SYS_mmap == 9 && SYS_shmat == 30);

extern "C" void ioweave_before_syscall(long number, long a, unsigned long b, unsigned long c,
                                       unsigned long d) {
  come_after_writes();
  if (number == SYS_shmat || (number == SYS_mmap && (d & MAP_SHARED) != 0)) {
    share_memory();
  }
  const bool has_own_descriptors =
      (number == SYS_unshare && (static_cast<unsigned long>(a) & CLONE_FILES) != 0) ||
      (number == SYS_close_range && (c & CLOSE_RANGE_UNSHARE) != 0);
  if (has_own_descriptors) {
    stop_holding_writes();
  }
  if (number != SYS_prctl && number != SYS_seccomp) {
    return;
  }
  constexpr long kSetModeStrict = 0, kSetModeFilter = 1;
  if (number == SYS_prctl ? confines_itself(a, b) : a == kSetModeStrict || a == kSetModeFilter) {
    leave_alone(number == SYS_seccomp || a == PR_SET_SECCOMP);
  }
}

__asm__(
    ".pushsection .text\n"
    ".globl syscall\n.type syscall,@function\nsyscall:\n"
    "  endbr64\n"
    "  cmpl $0, ioweave_held_blocks(%rip)\n  jne 1f\n"
    "  cmpl $9, %edi\n  je 1f\n"
    "  cmpl $30, %edi\n  je 1f\n"
    "  cmpl $157, %edi\n  je 1f\n"
    "  cmpl $272, %edi\n  je 1f\n"
    "  cmpl $436, %edi\n  je 1f\n"
    "  cmpl $317, %edi\n  je 1f\n"
    "0: movq ioweave_real_syscall(%rip), %rax\n"
    "  testq %rax, %rax\n  je 2f\n"
    "  jmp *%rax\n"
    "1: pushq %rdi\n  pushq %rsi\n  pushq %rdx\n  pushq %rcx\n  pushq %r8\n  pushq %r9\n"
    "  subq $8, %rsp\n"
    "  call ioweave_before_syscall\n"
    "  addq $8, %rsp\n"
    "  popq %r9\n  popq %r8\n  popq %rcx\n  popq %rdx\n  popq %rsi\n  popq %rdi\n"
    "  jmp 0b\n"
    "2: movq %rdi, %rax\n  movq %rsi, %rdi\n  movq %rdx, %rsi\n  movq %rcx, %rdx\n"
    "  movq %r8, %r10\n  movq %r9, %r8\n  movq 8(%rsp), %r9\n"
    "  syscall\n"
    "  cmpq $-4095, %rax\n  jae 3f\n  ret\n"
    "3: negl %eax\n  pushq %rax\n  call __errno_location@PLT\n  popq %rcx\n"
    "  movl %ecx, (%rax)\n  movq $-1, %rax\n  ret\n"
    ".size syscall,.-syscall\n"
    ".popsection\n");
#endif

}  // namespace ioweave::calls
