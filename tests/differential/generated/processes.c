/* Children: forked, cloned, executed. Such a step gives the steps that follow it to the child, and
 * the parent goes on behind them. Left out, the parent makes them itself. */
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

extern char** environ;

enum { kStackBytes = 1 << 17, kChildSteps = 30 };

static void tell_executed_child(long from, long until) {
  memcpy(shared->slots, slots, sizeof slots);
  shared->from = from;
  shared->until = until;
  shared->theme = theme;
  shared->depth = depth + 1;
}

/* One that is not there first, for the way back from a failed exec. */
static void execute_somehow(long kind) {
  char* const arguments[] = {(char*)"differential_fuzz", (char*)"--child", (char*)state_path(),
                             NULL};
  const char* const path = own_path();
  if (kind % 3 == 0) report("execve", 0, 0, 0, DO(execve)("./missing", arguments, environ));
  switch (kind) {
    case 0:
      DO(execv)(path, arguments);
      break;
    case 1:
      DO(execve)(path, arguments, environ);
      break;
    case 2:
      DO(execvp)(path, arguments);
      break;
    case 3:
      DO(execvpe)(path, arguments, environ);
      break;
    case 4:
      DO(execl)(path, arguments[0], arguments[1], arguments[2], (char*)NULL);
      break;
    case 5:
      DO(execlp)(path, arguments[0], arguments[1], arguments[2], (char*)NULL);
      break;
    case 6:
      DO(execle)(path, arguments[0], arguments[1], arguments[2], (char*)NULL, environ);
      break;
    case 7:
      DO(execveat)(AT_FDCWD, path, arguments, environ, 0);
      break;
    default: {
      const int fd = DO(open)(path, O_RDONLY | O_CLOEXEC);
      report("fexecve", 0, 0, 0, fd);
      if (fd >= 0) DO(fexecve)(fd, arguments, environ);
      DO(execv)(path, arguments);
      break;
    }
  }
}

static void end_somehow(long kind) {
  switch (kind) {
    case 0:
      make_streams_cached();
      DO(exit)((int)below(100));
      break;
    case 1:
      DO(quick_exit)((int)below(100));
      break;
    case 2:
      DO(_Exit)((int)below(100));
      break;
    case 3:
      kill((pid_t)syscall(SYS_getpid), SIGKILL);
      break;
    default:
      break;
  }
  DO(_exit)((int)below(100));
}

static void live_as_child(long from, long until, long end) {
  begin_as_child();
  if (below(12) == 0) report("confine", 0, 0, 0, DO(prctl)(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  run_steps(from, until);
  end_somehow(end);
}

struct span {
  long from, until, end;
};

static int run_cloned(void* argument) {
  const struct span* const span = argument;
  live_as_child(span->from, span->until, span->end);
  return 0;
}

/* On the parent's memory, which stands still. */
static int run_beside(void* argument) {
  (void)argument;
  for (int i = 0; i < 3; ++i) simple_step();
  return 5;
}

static pid_t spawn_somehow(void) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  char* const arguments[] = {(char*)"differential_fuzz", (char*)"--child", (char*)state_path(),
                             NULL};
  const int from = any_fd();
  if (from > 2 && fcntl(from, F_GETFD) >= 0)
    posix_spawn_file_actions_adddup2(&actions, from, 20 + (int)below(10));
  if (below(2) != 0)
    posix_spawn_file_actions_addopen(&actions, 40, "f3", O_RDWR | O_CREAT | O_APPEND, 0600);
  if (below(4) == 0) posix_spawn_file_actions_addclosefrom_np(&actions, 100);
  pid_t child = -1;
  const int error = DO(posix_spawn)(&child, own_path(), &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  errno = error;
  return error == 0 ? child : -1;
}

static char stack[kStackBytes] __attribute__((aligned(64)));

/* The end of a child that shares the frame of this function may leave nothing on it. */
static pid_t vfork_somehow(long kind, int fd) {
  COUNT(vfork);
  const pid_t child = vfork();
  if (child != 0) return child;
  DO(close)(fd);
  DO(dup2)(fd, 30);
  execute_somehow(kind);
  DO(_exit)(77);
  return 0;
}

static pid_t begin_child(long kind, const struct span* span) {
  const long how_to_execute = below(9);
  pid_t child = -1;
  switch (kind) {
    case 0:
      child = DO(_Fork)();
      break;
    case 1:
      child = (pid_t)DO(syscall)(SYS_clone, SIGCHLD, 0, 0, 0, 0);
      break;
    case 2:
      tell_executed_child(span->from, span->until);
      return vfork_somehow(how_to_execute, any_fd());
    case 3:
      tell_executed_child(span->from, span->until);
      return spawn_somehow();
    case 4:
      return DO(clone)(run_cloned, stack + kStackBytes, SIGCHLD, (void*)span);
    case 5:
      return DO(clone)(run_beside, stack + kStackBytes, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    case 6:
    case 7:
      tell_executed_child(span->from, span->until);
      child = DO(fork)();
      if (child != 0) return child;
      execute_somehow(how_to_execute);
      DO(_exit)(77);
      break;
    default:
      child = DO(fork)();
      break;
  }
  if (child == 0) live_as_child(span->from, span->until, span->end);
  return child;
}

void in_child(void) {
  const long count = 1 + below(kChildSteps);
  const long kind = below(12);
  if (depth >= 2) return;
  const long until = step_now + 1 + count < last_step ? step_now + 1 + count : last_step;
  const struct span span = {step_now + 1, until, below(8)};
  say("child %ld of %ld steps", kind, count);
  hold_alarms();
  const pid_t child = begin_child(kind, &span);
  const int error = errno;
  let_alarms();
  /* Nothing is told while the child may be telling something. */
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  errno = error;
  report("child ended", kind, status, 0, child > 0 ? 0 : child);
  if (kind != 5 && child > 0) resume_at = until; /* the child on our memory has made none of them */
}
