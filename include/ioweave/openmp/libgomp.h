/*
 * The part of ioweave/openmp.h for programs built by GCC, which run on libgomp. It defines what
 * openmp.h needs: iow_omp_check(), iow_omp_is_forced(), iow_omp_arm() and iow_omp_fulfil().
 */
#ifndef IOWEAVE_OPENMP_LIBGOMP_H
#define IOWEAVE_OPENMP_LIBGOMP_H

/* NOLINTBEGIN(modernize-use-nullptr): C as well. */

#ifndef IOWEAVE_OPENMP_H
#error "Include ioweave/openmp.h, which includes this."
#endif

#ifdef __cplusplus
typedef bool iow_omp_bool;
#else
typedef _Bool iow_omp_bool;
#endif

/* The functions as GCC calls them, from version 11 on. The label gives each its name in the object
   file, because the name itself is a builtin. */
IOW_OMP_ONE void iow_omp_create(void (*body)(void*), void* data, void (*copy)(void*, void*),
                                long bytes, long alignment, iow_omp_bool deferrable, unsigned flags,
                                void** depend, int priority, void* detach) __asm__("GOMP_task");
IOW_OMP_ONE void iow_omp_taskwait_depend(void** depend) __asm__("GOMP_taskwait_depend");

typedef void (*iow_omp_create_function)(void (*)(void*), void*, void (*)(void*, void*), long, long,
                                        iow_omp_bool, unsigned, void**, int, void*);

/* The first callers find it; all find the same, so the order of their stores does not matter. */
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
 * Tries out whether `detach` works. libomp ignores GCC's clause and leaves the event as it was, so
 * the body must look at the variable outside, too.
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

/* What iow_omp_try() found, plus one; 0 before it has run. */
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
 * Returns true if the task must end with its body. A cancelled region (OMP_CANCELLATION) drops
 * tasks, and must not drop the one of iow_omp_arm().
 */
static inline int iow_omp_is_forced(void) {
  return iow_omp_self.creating > 0 || omp_get_cancellation();
}

/*
 * The body of the kick task, whose event is fulfilled after that of `task`. If libgomp would end
 * the kick task with its body, the body must not end before the event is fulfilled. libgomp does so
 * only inside the body of `task`: while the kick task is created, when it is not needed any more,
 * or later, when it waits.
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

/* Fulfils the events of an armed task. Any thread may call it. */
static inline void iow_omp_fulfil(iow_omp_task* task) {
  omp_fulfill_event(task->event);
  omp_fulfill_event(task->kick);
  sem_post(&task->ended);
  iow_omp_release(task);
}

static inline void iow_omp_do_nothing(void) {}

/*
 * Leaves the event to whoever ends the last transfer. libgomp wakes a team from its barrier when a
 * task becomes ready. If none becomes ready, the woken thread goes back to sleep without seeing
 * that all tasks have ended. So this creates a task that becomes ready: it depends on the kick
 * task, whose event is fulfilled after that of `task`. Returns 0 if that is not possible now.
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

/* NOLINTEND(modernize-use-nullptr) */

#endif /* IOWEAVE_OPENMP_LIBGOMP_H */
