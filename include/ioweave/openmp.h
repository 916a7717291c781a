/*
 * Ioweave in OpenMP tasks: a task with `detach` ends when its body and its storage I/O have ended,
 * and only then are its dependencies released. C11 and C++20, header only; compile with -fopenmp.
 *
 *   omp_event_handle_t event;
 *   #pragma omp task detach(event) depend(out : block[0])
 *   {
 *     iow_omp_begin(service, event);
 *     iow_ta_pread(service, fd, block, bytes, offset, &result);   // any number, see tasks.h
 *     iow_omp_end(service);
 *   }
 *   #pragma omp task depend(in : block[0])
 *   use(block, result);
 *
 * How it works. iow_omp_begin() makes the body a task of iow_task_begin() (tasks.h), which counts
 * its transfers. When the last transfer has ended, the event is fulfilled exactly once: by
 * iow_omp_end() if everything had ended by then, otherwise by whoever collects the last end.
 *
 * The run-time libraries have faults around `detach`; docs/decisions/0007 has their reproducers.
 * This header works around them, so that they make no program crash, hang or lose an ordering:
 *
 *   - libgomp (seen in 12; the newer source is the same there): some tasks release their successors
 *     with their body. These are tasks that run while their parent creates another task (because
 *     the runtime holds more than 64 tasks for each thread, `if(0)`, or `final`) or while their
 *     parent is inside `taskwait depend`. This header wraps GOMP_task() and GOMP_taskwait_depend()
 *     in the program that includes it, to notice this; iow_omp_end() then waits for the transfers.
 *   - libgomp: a team that waits at a barrier is not told when a thread from outside the team
 *     fulfils the last event. libomp: the team goes on too early, and finds the rest of the task
 *     among the tasks of a later region. So each task with pending transfers creates two small
 *     tasks (iow_omp_arm()), which costs 0.3 us with libgomp and 4 us with libomp.
 *   - libomp: when a thread from outside fulfils a task's event, the end of the region does not
 *     wait for the rest of that task, which then runs into the next region. So regions with such
 *     tasks end with one more barrier, for which __kmpc_fork_call() is wrapped.
 *   - libomp: no barrier waits for a task with `detach` whose parent task has ended. If nothing
 *     else waits for it (the parent inside `taskwait`, a `taskgroup` around them), iow_omp_end()
 *     waits for the transfers. The entries of tasks, taskwait and taskgroup are wrapped to know it.
 *   - libomp before 19: `detach` in a team of one thread, which includes everything outside a
 *     parallel region, makes a later region abort or hang. __kmpc_omp_task_alloc() is wrapped to
 *     take the clause from such tasks; iow_omp_end() waits for the transfers.
 *   - libomp: a task with `if(0)` does not wait for its event. Such tasks are wrapped likewise.
 *   - libomp: `taskwait depend` may crash, often before 19. A task and a wait for it replace it.
 *   - A program built by GCC that runs on libomp: libomp ignores the clause and the event is
 *     garbage. iow_omp_check() says so and iow_omp_begin() refuses. The same holds for an OpenMP
 *     library that is linked statically, which cannot be wrapped.
 *
 * The wrappers belong to the program or library whose sources include this header, and serve all of
 * its tasks. Events that the program fulfils itself keep these faults. As without this header, they
 * must not be used in a team of one thread on LLVM before 19.
 */
#ifndef IOWEAVE_OPENMP_H
#define IOWEAVE_OPENMP_H

/* NOLINTBEGIN(modernize-use-nullptr): C as well. */

#ifndef _OPENMP
#error "ioweave/openmp.h needs OpenMP: compile with -fopenmp."
#elif _OPENMP < 201511 || (defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 11)
#error "ioweave/openmp.h needs `detach` of OpenMP 5.0: GCC 11 or Clang 11, or newer."
#endif

#include <dlfcn.h>
#include <sched.h>

#include <errno.h>
#include <omp.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ioweave/tasks.h"

#if defined(__clang__)
#define IOW_OMP_LLVM 1
#else
#define IOW_OMP_LLVM 0
#endif

/* One copy in each program or library, however many sources include the header. */
#define IOW_OMP_ONE __attribute__((weak, visibility("hidden")))

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Interface ---- */

/*
 * Returns 0, or -ENOTSUP if this combination of compiler and run-time library cannot do it safely.
 * If `why` is not NULL, *why is then a sentence that says why and what to do, and "" otherwise. It
 * may be called anywhere, best before the first task.
 */
static inline int iow_omp_check(const char** why);

/*
 * Begins the I/O of a task. Call it in the body of a task with detach(event), with that event. From
 * here to iow_omp_end(), iow_ta_*() on this thread belong to the task. Call iow_omp_end() in the
 * same body, whatever this returns. Nobody else may fulfil `event`. Pairs nest, because the runtime
 * may run another task inside this one. The task must not be `untied`.
 *
 * Returns 0; -ENOTSUP as iow_omp_check(); -ENOMEM and -EINVAL as iow_task_begin(). After an error
 * the task ends with its body, and this header takes care of its event. iow_ta_*() in the body then
 * return -ESRCH; but if the body runs inside that of another task, they belong to that other task.
 * So skip them after an error, or call iow_pread() and its like instead.
 */
static inline int iow_omp_begin(iow_service* service, omp_event_handle_t event);

/* Ends the I/O of the body. Returns 0, or -ESRCH if nothing was begun, as after an error of
   iow_omp_begin(). */
static inline int iow_omp_end(iow_service* service);

/* ---- What a thread knows of its tasks ---- */

enum {
  IOW_OMP_RUNNING = 0, /* between begin and end */
  IOW_OMP_DONE = 1,    /* all transfers have ended */
  IOW_OMP_AWAITED = 2, /* iow_omp_end() sleeps until they have */
  IOW_OMP_ARMED = 3    /* whoever ends the last transfer fulfils the event */
};

typedef struct iow_omp_task {
  struct iow_omp_task* outer; /* the task that this one runs on top of */
  iow_service* service;
  omp_event_handle_t event;
  omp_event_handle_t kick; /* of the task that tells the team; libgomp only */
  const void* owner;       /* the thread of the body, by the address of its iow_omp_self */
  int armed;               /* seen by the owner only */
  int no_kick;             /* seen by the owner only */
  int outer_failures;      /* begins that failed between the outer one and this one */
  int state;               /* atomic */
  int references;          /* atomic */
  sem_t ended;
} iow_omp_task;

typedef struct iow_omp_thread {
  iow_omp_task* top;
  int failures; /* begins that failed on top of `top`, and await their end */
  int creating; /* calls of GOMP_task() and GOMP_taskwait_depend() that this thread is inside of */
} iow_omp_thread;

IOW_OMP_ONE __thread iow_omp_thread iow_omp_self = {NULL, 0, 0};

/* Finds the function of this name in the run-time library. Our function of the same name is hidden,
   so the look-up passes it over. */
static inline uintptr_t iow_omp_find(const char* name) {
  void* const found = dlsym(NULL, name); /* NULL is RTLD_DEFAULT, which C11 hides */
  if (found != NULL) return (uintptr_t)found;
  fprintf(stderr, "ioweave/openmp.h: no %s() in this process: link the OpenMP library shared\n",
          name);
  abort();
}

static inline void iow_omp_await(iow_omp_task* task) {
  while (sem_wait(&task->ended) != 0) { /* EINTR, the only error there can be */
  }
}

static inline void iow_omp_release(iow_omp_task* task) {
  if (__atomic_sub_fetch(&task->references, 1, __ATOMIC_ACQ_REL) != 0) return;
  sem_destroy(&task->ended);
  free(task);
}

#if IOW_OMP_LLVM
#include "ioweave/openmp/libomp.h"
#else
#include "ioweave/openmp/libgomp.h"
#endif

/* ---- Both ---- */

/* The `done` of iow_task_begin(). The state that it finds says who fulfils the event. */
static inline void iow_omp_done(void* user) {
  iow_omp_task* const task = (iow_omp_task*)user;
  switch (__atomic_exchange_n(&task->state, IOW_OMP_DONE, __ATOMIC_ACQ_REL)) {
    case IOW_OMP_ARMED:
      iow_omp_fulfil(task);
      break;
    case IOW_OMP_AWAITED:
      sem_post(&task->ended);
      break;
    default: /* IOW_OMP_RUNNING: iow_omp_end() will find it done */
      break;
  }
}

/* Lets the task end with its body; iow_omp_end() will have nothing to end. */
static inline int iow_omp_fail(omp_event_handle_t event, int error) {
  if (error != -ENOTSUP) omp_fulfill_event(event); /* with -ENOTSUP the event is garbage */
  ++iow_omp_self.failures;
  return error;
}

static inline int iow_omp_begin(iow_service* service, omp_event_handle_t event) {
  int error = iow_omp_check(NULL);
  if (error != 0) return iow_omp_fail(event, error);
  iow_omp_task* const task = (iow_omp_task*)calloc(1, sizeof *task);
  if (task == NULL) return iow_omp_fail(event, -ENOMEM);
  error = iow_task_begin(service, iow_omp_done, task);
  if (error != 0) {
    free(task);
    return iow_omp_fail(event, error);
  }
  sem_init(&task->ended, 0, 0);
  task->outer = iow_omp_self.top;
  task->service = service;
  task->event = event;
  task->owner = &iow_omp_self;
  task->outer_failures = iow_omp_self.failures;
  task->references = 1;
  iow_omp_self.top = task;
  iow_omp_self.failures = 0;
  return 0;
}

/* Waits for the transfers, on the thread of the body, and fulfils the event. */
static inline void iow_omp_finish_in_body(iow_omp_task* task) {
  if (__atomic_exchange_n(&task->state, IOW_OMP_AWAITED, __ATOMIC_ACQ_REL) != IOW_OMP_DONE) {
    iow_omp_await(task);
  }
  const omp_event_handle_t event = task->event;
  iow_omp_release(task);
  omp_fulfill_event(event);
}

static inline int iow_omp_end(iow_service* service) {
  if (iow_omp_self.failures > 0) {
    --iow_omp_self.failures;
    return -ESRCH;
  }
  iow_omp_task* const task = iow_omp_self.top;
  if (task == NULL || task->service != service) return -ESRCH;
  iow_omp_self.top = task->outer;
  iow_omp_self.failures = task->outer_failures;
  const int error = iow_task_end(service);
  if (error != 0) iow_omp_done(task); /* the task's own count stays, so nobody else calls it */
  const int is_done = __atomic_load_n(&task->state, __ATOMIC_ACQUIRE) == IOW_OMP_DONE;
  if (is_done || iow_omp_is_forced() || !iow_omp_arm(task)) iow_omp_finish_in_body(task);
  return error;
}

#ifdef __cplusplus
}

namespace ioweave::omp {

/// Calls iow_omp_begin() for the task in whose body it is declared, and iow_omp_end() at the end of
/// its scope.
class TaskIo {
 public:
  TaskIo(iow_service* service, omp_event_handle_t event) noexcept
      : service_(service), error_(iow_omp_begin(service, event)) {}
  ~TaskIo() { iow_omp_end(service_); }
  TaskIo(const TaskIo&) = delete;
  TaskIo& operator=(const TaskIo&) = delete;

  /// Returns what iow_omp_begin() returned. After an error there is no task to bind transfers to.
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  iow_service* service_;
  int error_;
};

}  // namespace ioweave::omp
#endif

/* NOLINTEND(modernize-use-nullptr) */

#endif /* IOWEAVE_OPENMP_H */
