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
 * its transfers. When the last one has ended the event is fulfilled, exactly once: by
 * iow_omp_end() where everything had ended by then, by the service's thread otherwise.
 *
 * The run-time libraries have faults around `detach`; docs/decisions/0007 has their reproducers.
 * This header goes round them, so that no program crashes, hangs or loses an ordering by them:
 *
 *   - libgomp (seen in 12; the newer source is the same there): a task that runs while its parent
 * creates another one (the runtime holds more than 64 tasks for each thread, `if(0)`, `final`) or
 * is inside `taskwait depend` would release its successors with its body. GOMP_task() and
 *     GOMP_taskwait_depend() are wrapped in the program that includes this header, to know it;
 *     iow_omp_end() then waits for the transfers.
 *   - libgomp: a team that waits at a barrier is not told when the last event is fulfilled by a
 *     thread that is not its own. libomp: it goes on too early, and finds the rest of the task
 *     among those of a later region. So each task with pending transfers creates two small ones
 *     (iow_omp_arm()), which costs 0.3 us with libgomp and 4 us with libomp.
 *   - libomp before 19: `detach` in a team of one thread, which includes everything outside a
 *     parallel region, makes a later region abort or hang. __kmpc_omp_task_alloc() is wrapped to
 *     take the clause from such tasks; iow_omp_end() waits for the transfers.
 *   - libomp: a task with `if(0)` does not wait for its event. Wrapped likewise.
 *   - libomp: `taskwait depend` may crash, much so before 19. Replaced by a task and a wait for it.
 *   - A program built by GCC that runs on libomp: the clause is ignored and the event is garbage.
 *     iow_omp_check() says so and iow_omp_begin() refuses. So it is with an OpenMP library that is
 *     linked statically, which cannot be wrapped.
 *
 * The wrappers are of the program or library whose sources include this header, and count for all
 * of its tasks. Events that the program fulfils itself have these faults as before, and on LLVM
 * before 19 must not be used in a team of one thread, as without this header.
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
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ioweave/tasks.h"

#if defined(__clang__)
#define IOW_OMP_LLVM 1
#else
#define IOW_OMP_LLVM 0
#endif

/* One copy in each program or library, whatever the number of sources that include the header. */
#define IOW_OMP_ONE __attribute__((weak, visibility("hidden")))

/* NOLINTBEGIN(modernize-use-nullptr): this is C, too */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Interface ---- */

/*
 * 0, or -ENOTSUP where this combination of compiler and run-time library cannot do it safely; *why,
 * unless NULL, then receives a sentence that says why and what to do, and "" otherwise. Call it
 * where you like, best before the first task.
 */
static inline int iow_omp_check(const char** why);

/*
 * To be called in the body of a task with detach(event), with that event. From here to
 * iow_omp_end(), which must be called in the same body whatever this returns, iow_ta_*() on this
 * thread belong to the task. `event` must not be fulfilled by anyone else. Pairs nest, as the
 * runtime may run another task inside this one; the task must not be `untied`.
 *
 * 0; -ENOTSUP as iow_omp_check(); -ENOMEM and -EINVAL as iow_task_begin(). After an error the task
 * ends with its body, and its event is taken care of. iow_ta_*() in it are then refused with
 * -ESRCH, but where the body runs inside that of another task they belong to that one: skip them,
 * or call iow_pread() and its like instead.
 */
static inline int iow_omp_begin(iow_service* service, omp_event_handle_t event);

/* The end of the body's I/O. 0; or -ESRCH where nothing was begun: the error of the beginning. */
static inline int iow_omp_end(iow_service* service);

/* ---- What a thread knows of its tasks ---- */

enum {
  IOW_OMP_RUNNING = 0, /* between begin and end */
  IOW_OMP_DONE = 1,    /* all transfers have ended */
  IOW_OMP_AWAITED = 2, /* iow_omp_end() sleeps until they have */
  IOW_OMP_ARMED = 3    /* whoever ends the last transfer fulfils the event */
};

typedef struct iow_omp_task {
  struct iow_omp_task* outer; /* what this one runs on top of */
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

/* Of this name in the run-time library, which our own one, being hidden, is not in the way of. */
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

#if !IOW_OMP_LLVM

/* ---- libgomp ---- */

#ifdef __cplusplus
typedef bool iow_omp_bool;
#else
typedef _Bool iow_omp_bool;
#endif

/* As GCC calls it, from version 11 on. The label is what makes it GCC's: the name is a builtin. */
IOW_OMP_ONE void iow_omp_create(void (*body)(void*), void* data, void (*copy)(void*, void*),
                                long bytes, long alignment, iow_omp_bool deferrable, unsigned flags,
                                void** depend, int priority, void* detach) __asm__("GOMP_task");
IOW_OMP_ONE void iow_omp_taskwait_depend(void** depend) __asm__("GOMP_taskwait_depend");

typedef void (*iow_omp_create_function)(void (*)(void*), void*, void (*)(void*, void*), long, long,
                                        iow_omp_bool, unsigned, void**, int, void*);

/* Found by whoever comes first; all find the same, so the order of their stores does not matter. */
IOW_OMP_ONE iow_omp_create_function iow_omp_real_create = NULL;

IOW_OMP_ONE void iow_omp_create(void (*body)(void*), void* data, void (*copy)(void*, void*),
                                long bytes, long alignment, iow_omp_bool deferrable, unsigned flags,
                                void** depend, int priority, void* detach) {
  iow_omp_create_function real = __atomic_load_n(&iow_omp_real_create, __ATOMIC_RELAXED);
  if (real == NULL) {
    real = (iow_omp_create_function)iow_omp_find("GOMP_task");
    __atomic_store_n(&iow_omp_real_create, real, __ATOMIC_RELAXED);
  }
  ++iow_omp_self.creating;
  real(body, data, copy, bytes, alignment, deferrable, flags, depend, priority, detach);
  --iow_omp_self.creating;
}

IOW_OMP_ONE void iow_omp_taskwait_depend(void** depend) {
  ++iow_omp_self.creating;
  ((void (*)(void**))iow_omp_find("GOMP_taskwait_depend"))(depend);
  --iow_omp_self.creating;
}

enum { IOW_OMP_DETACHES = 1, IOW_OMP_IS_WRAPPED = 2 };

/*
 * Whether `detach` does something, tried out. libomp ignores what GCC says of it and leaves the
 * event as it was, so that the body, too, must look at the variable outside.
 */
static inline int iow_omp_try(void) {
  omp_event_handle_t event = (omp_event_handle_t)0;
  omp_event_handle_t* const outside = &event;
  int found = 0;
#pragma omp task if (0) detach(event) shared(found) firstprivate(outside)
  {
    if (iow_omp_self.creating > 0) found |= IOW_OMP_IS_WRAPPED;
    if (*outside != (omp_event_handle_t)0) {
      found |= IOW_OMP_DETACHES;
      omp_fulfill_event(*outside);
    }
  }
  return found;
}

/* What iow_omp_try() found, plus one; 0 before. */
IOW_OMP_ONE int iow_omp_found = 0;

static inline int iow_omp_check(const char** why) {
  int found = __atomic_load_n(&iow_omp_found, __ATOMIC_RELAXED);
  if (found == 0) {
    found = iow_omp_try() + 1;
    __atomic_store_n(&iow_omp_found, found, __ATOMIC_RELAXED);
  }
  const char* text = "";
  if (((found - 1) & IOW_OMP_DETACHES) == 0) {
    text =
        "This program was built by GCC and runs on a library that ignores GCC's detach clause "
        "(LLVM's libomp): use libgomp, or build it by Clang.";
  } else if (((found - 1) & IOW_OMP_IS_WRAPPED) == 0) {
    text =
        "GOMP_task() of libgomp is not the one of ioweave/openmp.h, which needs it to go round "
        "faults of detach: link libgomp shared.";
  }
  if (why != NULL) *why = text;
  return *text != '\0' ? -ENOTSUP : 0;
}

/*
 * Whether the task must end with its body. A cancelled region (OMP_CANCELLATION) drops tasks,
 * which the one of iow_omp_arm() must not be.
 */
static inline int iow_omp_is_forced(void) {
  return iow_omp_self.creating > 0 || omp_get_cancellation();
}

/*
 * The body of the task whose event is fulfilled after that of `task`. Where libgomp would end it
 * with its body it must not end before its event is fulfilled. That happens only inside the body
 * of `task`: while it is created, when it is not needed any more, or later, when it waits.
 */
static inline void iow_omp_kick_body(iow_omp_task* task, omp_event_handle_t kick) {
  if (iow_omp_self.creating > 0 && task->owner == &iow_omp_self) {
    if (task->armed) {
      iow_omp_await(task);
    } else {
      task->no_kick = 1;
      omp_fulfill_event(kick);
    }
  }
  iow_omp_release(task);
}

/* Fulfils the events of a task that is armed, by whichever thread. */
static inline void iow_omp_fulfil(iow_omp_task* task) {
  omp_fulfill_event(task->event);
  omp_fulfill_event(task->kick);
  sem_post(&task->ended);
  iow_omp_release(task);
}

static inline void iow_omp_do_nothing(void) {}

/*
 * Leaves the event to whoever ends the last transfer. libgomp wakes a team from its barrier for a
 * task that becomes ready, but where none does the woken thread goes to sleep again without seeing
 * that all have ended. So there is one that becomes ready: it depends on a task whose event is
 * fulfilled after that of `task`. Returns 0 where that cannot be had now.
 */
static inline int iow_omp_arm(iow_omp_task* task) {
  char key = 0;
  (void)key; /* only its address is used, by which the second task depends on the first */
  omp_event_handle_t kick = (omp_event_handle_t)0;
  __atomic_store_n(&task->references, 2, __ATOMIC_RELAXED);
#pragma omp task detach(kick) depend(out : key) firstprivate(task)
  iow_omp_kick_body(task, kick);
  if (task->no_kick) return 0;
  task->kick = kick;
  task->armed = 1;
  if (__atomic_exchange_n(&task->state, IOW_OMP_ARMED, __ATOMIC_ACQ_REL) == IOW_OMP_DONE) {
    iow_omp_fulfil(task);
    return 1;
  }
#pragma omp task depend(in : key)
  iow_omp_do_nothing();
  return 1;
}

#else

/* ---- libomp ---- */

/*
 * Task teams of one thread were mended in LLVM 19, which has no call that says its version, but a
 * function that none before it has.
 */
static inline int iow_omp_is_fragile(void) {
  return omp_get_num_threads() == 1 && dlsym(NULL, "__kmpc_push_num_threads_strict") == NULL;
}

/* As Clang calls them. The first one creates a task, the others stand around the body of one with
   `if(0)`; `where` and `task` belong to the runtime. */
IOW_OMP_ONE void* __kmpc_omp_task_alloc(void* where, int32_t thread, int32_t flags,
                                        size_t task_bytes, size_t shared_bytes, void* entry);
IOW_OMP_ONE void __kmpc_omp_task_begin_if0(void* where, int32_t thread, void* task);
IOW_OMP_ONE void __kmpc_omp_task_complete_if0(void* where, int32_t thread, void* task);

IOW_OMP_ONE void __kmpc_omp_wait_deps(void* where, int32_t thread, int32_t count, void* list,
                                      int32_t other_count, void* other_list);
IOW_OMP_ONE void __kmpc_omp_taskwait_deps_51(void* where, int32_t thread, int32_t count, void* list,
                                             int32_t other_count, void* other_list,
                                             int32_t has_no_wait);

/* Of libomp itself. */
int32_t __kmpc_omp_task_with_deps(void* where, int32_t thread, void* task, int32_t count,
                                  void* list, int32_t other_count, void* other_list);
int32_t __kmpc_omp_taskyield(void* where, int32_t thread, int end_part);

typedef void (*iow_omp_wait_function)(void*, int32_t, int32_t, void*, int32_t, void*);
typedef void (*iow_omp_taskwait_function)(void*, int32_t, int32_t, void*, int32_t, void*, int32_t);
typedef void* (*iow_omp_alloc_function)(void*, int32_t, int32_t, size_t, size_t, void*);
typedef void (*iow_omp_if0_function)(void*, int32_t, void*);

/* Found by whoever comes first; all find the same, so the order of their stores does not matter. */
IOW_OMP_ONE iow_omp_alloc_function iow_omp_real_alloc = NULL;

IOW_OMP_ONE void* __kmpc_omp_task_alloc(void* where, int32_t thread, int32_t flags,
                                        size_t task_bytes, size_t shared_bytes, void* entry) {
  const int32_t detachable = 0x40;
  iow_omp_alloc_function real = __atomic_load_n(&iow_omp_real_alloc, __ATOMIC_RELAXED);
  if (real == NULL) {
    real = (iow_omp_alloc_function)iow_omp_find("__kmpc_omp_task_alloc");
    __atomic_store_n(&iow_omp_real_alloc, real, __ATOMIC_RELAXED);
  }
  if ((flags & detachable) != 0 && iow_omp_is_fragile()) flags &= ~detachable;
  return real(where, thread, flags, task_bytes, shared_bytes, entry);
}

IOW_OMP_ONE void __kmpc_omp_task_begin_if0(void* where, int32_t thread, void* task) {
  ++iow_omp_self.creating;
  ((iow_omp_if0_function)iow_omp_find("__kmpc_omp_task_begin_if0"))(where, thread, task);
}

IOW_OMP_ONE void __kmpc_omp_task_complete_if0(void* where, int32_t thread, void* task) {
  ((iow_omp_if0_function)iow_omp_find("__kmpc_omp_task_complete_if0"))(where, thread, task);
  --iow_omp_self.creating;
}

/* The body of iow_omp_wait_in_task()'s task; a task begins with the address of what is shared. */
static inline int32_t iow_omp_waited_for(int32_t thread, void* task) {
  (void)thread;
  __atomic_store_n(**(int***)task, 1, __ATOMIC_RELEASE);
  return 0;
}

/*
 * `taskwait depend`. That of libomp is a node of dependencies on the stack, which it may leave
 * while a thread that ends one of the tasks still uses it. So it is a task here, and tasks are run
 * until it has run. The bytes and the flag are as Clang has them: an ordinary task.
 */
static inline void iow_omp_wait_in_task(void* where, int32_t thread, int32_t count, void* list,
                                        int32_t other_count, void* other_list) {
  enum { IOW_OMP_TIED = 1, IOW_OMP_TASK_BYTES = 40 };
  int done = 0;
  void* const task = __kmpc_omp_task_alloc(where, thread, IOW_OMP_TIED, IOW_OMP_TASK_BYTES,
                                           sizeof(int*), (void*)(uintptr_t)&iow_omp_waited_for);
  **(int***)task = &done;
  __kmpc_omp_task_with_deps(where, thread, task, count, list, other_count, other_list);
  while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
    __kmpc_omp_taskyield(where, thread, 0);
    if (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) sched_yield();
  }
}

/*
 * What Clang calls for it: before version 14, and since. A taskwait with `nowait` does not wait. In
 * a team of one nobody else uses the node, and the runtime does not run tasks when one yields.
 */
IOW_OMP_ONE void __kmpc_omp_wait_deps(void* where, int32_t thread, int32_t count, void* list,
                                      int32_t other_count, void* other_list) {
  if (omp_get_num_threads() == 1) {
    ((iow_omp_wait_function)iow_omp_find("__kmpc_omp_wait_deps"))(where, thread, count, list,
                                                                  other_count, other_list);
  } else {
    iow_omp_wait_in_task(where, thread, count, list, other_count, other_list);
  }
}

IOW_OMP_ONE void __kmpc_omp_taskwait_deps_51(void* where, int32_t thread, int32_t count, void* list,
                                             int32_t other_count, void* other_list,
                                             int32_t has_no_wait) {
  if (has_no_wait || omp_get_num_threads() == 1) {
    ((iow_omp_taskwait_function)iow_omp_find("__kmpc_omp_taskwait_deps_51"))(
        where, thread, count, list, other_count, other_list, has_no_wait);
  } else {
    iow_omp_wait_in_task(where, thread, count, list, other_count, other_list);
  }
}

static inline int iow_omp_check(const char** why) {
  const int is_shared = dlsym(NULL, "__kmpc_omp_task_alloc") != NULL;
  if (why != NULL) {
    *why = is_shared
               ? ""
               : "__kmpc_omp_task_alloc() of libomp is not the one of ioweave/openmp.h, which "
                 "needs it to go round faults of detach: link libomp shared.";
  }
  return is_shared ? 0 : -ENOTSUP;
}

/* Whether the task must end with its body; see iow_omp_is_forced() above for cancellation. */
static inline int iow_omp_is_forced(void) {
  return iow_omp_self.creating > 0 || omp_in_final() || omp_get_cancellation() ||
         iow_omp_is_fragile();
}

/* Fulfils the first event of a task that is armed, by whichever thread; a task does the rest. */
static inline void iow_omp_fulfil(iow_omp_task* task) {
  omp_fulfill_event(task->kick);
}

/*
 * Leaves the event to whoever ends the last transfer, and to a task. Where a thread from outside
 * fulfils an event, libomp queues what is left to do, in a queue of the team, but counts the task
 * as ended at once; the team may go on, and find the rest later, among the tasks of another region.
 * So the thread fulfils the event of a task made for that, on which another one depends, which
 * fulfils the event of `task` on a thread of the team. Returns 1, as it always succeeds.
 */
static inline int iow_omp_arm(iow_omp_task* task) {
  char key = 0;
  (void)key; /* only its address is used, by which the second task depends on the first */
  omp_event_handle_t kick = (omp_event_handle_t)0;
#pragma omp task untied detach(kick) depend(out : key)
  {}
#pragma omp task untied depend(in : key) firstprivate(task)
  {
    omp_fulfill_event(task->event);
    iow_omp_release(task);
  }
  task->kick = kick;
  if (__atomic_exchange_n(&task->state, IOW_OMP_ARMED, __ATOMIC_ACQ_REL) == IOW_OMP_DONE) {
    iow_omp_fulfil(task);
  }
  return 1;
}

#endif

/* ---- Both ---- */

/* iow_task_begin()'s `done`. What it finds says who fulfils the event. */
static inline void iow_omp_done(void* user) {
  iow_omp_task* const task = (iow_omp_task*)user;
  switch (__atomic_exchange_n(&task->state, IOW_OMP_DONE, __ATOMIC_ACQ_REL)) {
    case IOW_OMP_ARMED:
      iow_omp_fulfil(task);
      break;
    case IOW_OMP_AWAITED:
      sem_post(&task->ended);
      break;
    default: /* IOW_OMP_RUNNING: iow_omp_end() finds it done */
      break;
  }
}

/* The task ends with its body, and iow_omp_end() with nothing. */
static inline int iow_omp_fail(omp_event_handle_t event, int error) {
  if (error != -ENOTSUP) omp_fulfill_event(event); /* garbage in that case */
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
  if (error != 0) iow_omp_done(task); /* nothing was under way, so nobody else calls it */
  const int is_done = __atomic_load_n(&task->state, __ATOMIC_ACQUIRE) == IOW_OMP_DONE;
  if (is_done || iow_omp_is_forced() || !iow_omp_arm(task)) iow_omp_finish_in_body(task);
  return error;
}

/* NOLINTEND(modernize-use-nullptr) */

#ifdef __cplusplus
}

namespace ioweave::omp {

/// The task whose body it is declared in, for iow_ta_*(), until the end of its scope.
class TaskIo {
 public:
  TaskIo(iow_service* service, omp_event_handle_t event) noexcept
      : service_(service), error_(iow_omp_begin(service, event)) {}
  ~TaskIo() { iow_omp_end(service_); }
  TaskIo(const TaskIo&) = delete;
  TaskIo& operator=(const TaskIo&) = delete;

  /// 0, or as iow_omp_begin(): then there is no task to bind transfers to.
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  iow_service* service_;
  int error_;
};

}  // namespace ioweave::omp
#endif

/* NOLINTEND(modernize-use-nullptr) */

#endif /* IOWEAVE_OPENMP_H */
