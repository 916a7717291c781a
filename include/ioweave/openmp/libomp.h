/*
 * The part of ioweave/openmp.h for programs built by Clang, which run on libomp. It defines what
 * openmp.h needs: iow_omp_check(), iow_omp_is_forced(), iow_omp_arm() and iow_omp_fulfil().
 */
#ifndef IOWEAVE_OPENMP_LIBOMP_H
#define IOWEAVE_OPENMP_LIBOMP_H

/* NOLINTBEGIN(modernize-use-nullptr): C as well. */

#ifndef IOWEAVE_OPENMP_H
#error "Include ioweave/openmp.h, which includes this."
#endif

/*
 * Returns true if the team has one thread and libomp has the fault of such teams. LLVM 19 fixed it.
 * libomp has no call that returns its version, but 19 has a function that older ones lack.
 */
static inline int iow_omp_is_fragile(void) {
  return omp_get_num_threads() == 1 && dlsym(NULL, "__kmpc_push_num_threads_strict") == NULL;
}

/* ---- Functions that are wrapped, as Clang calls them; the runtime owns `where` and `task` ---- */

typedef void (*iow_omp_region_function)(int32_t* thread, int32_t* bound, ...);

/* Creates a task; `entry` runs its body. */
IOW_OMP_ONE void* __kmpc_omp_task_alloc(void* where, int32_t thread, int32_t flags,
                                        size_t task_bytes, size_t shared_bytes, void* entry);
/* Called around the body of a task with `if(0)`. */
IOW_OMP_ONE void __kmpc_omp_task_begin_if0(void* where, int32_t thread, void* task);
IOW_OMP_ONE void __kmpc_omp_task_complete_if0(void* where, int32_t thread, void* task);
IOW_OMP_ONE int32_t __kmpc_omp_taskwait(void* where, int32_t thread);
IOW_OMP_ONE void __kmpc_taskgroup(void* where, int32_t thread);
IOW_OMP_ONE void __kmpc_end_taskgroup(void* where, int32_t thread);
/* `taskwait depend`: before version 14 of Clang, and since. */
IOW_OMP_ONE void __kmpc_omp_wait_deps(void* where, int32_t thread, int32_t count, void* list,
                                      int32_t other_count, void* other_list);
IOW_OMP_ONE void __kmpc_omp_taskwait_deps_51(void* where, int32_t thread, int32_t count, void* list,
                                             int32_t other_count, void* other_list,
                                             int32_t has_no_wait);
/* A parallel region: each thread runs `body` with `count` pointers. */
IOW_OMP_ONE void __kmpc_fork_call(void* where, int32_t count, iow_omp_region_function body, ...);

/* ---- Functions of libomp that are called ---- */

int32_t __kmpc_omp_task_with_deps(void* where, int32_t thread, void* task, int32_t count,
                                  void* list, int32_t other_count, void* other_list);
int32_t __kmpc_omp_taskyield(void* where, int32_t thread, int end_part);
void __kmpc_barrier(void* where, int32_t thread);

typedef void* (*iow_omp_alloc_function)(void*, int32_t, int32_t, size_t, size_t, void*);
typedef void (*iow_omp_if0_function)(void*, int32_t, void*);
typedef int32_t (*iow_omp_taskwait_function)(void*, int32_t);
typedef void (*iow_omp_taskgroup_function)(void*, int32_t);
typedef void (*iow_omp_wait_function)(void*, int32_t, int32_t, void*, int32_t, void*);
typedef void (*iow_omp_wait_51_function)(void*, int32_t, int32_t, void*, int32_t, void*, int32_t);
typedef void (*iow_omp_fork_function)(void*, int32_t, iow_omp_region_function, ...);

/* Calls iow_omp_find() once. All threads find the same, so the order of their stores does not
   matter. */
static inline uintptr_t iow_omp_find_once(uintptr_t* found, const char* name) {
  uintptr_t real = __atomic_load_n(found, __ATOMIC_RELAXED);
  if (real == 0) {
    real = iow_omp_find(name);
    __atomic_store_n(found, real, __ATOMIC_RELAXED);
  }
  return real;
}

/* ---- Regions ---- */

/*
 * When a thread from outside fulfils a task's event, a thread of the team finishes the task. That
 * thread may already count as one with nothing left to do. What it then runs (the rest of the task,
 * successors) does not keep the region from ending. When the next region begins, both use the table
 * of dependencies of the implicit task, which leads to crashes and failed assertions. So a region
 * with such tasks ends with a barrier: a thread that reaches the end of the region behind the
 * barrier runs none of them.
 *
 * Whether a region needs the barrier must be known when the first thread reaches its end. A region
 * has it, unless its first execution had no such tasks. If such tasks appear later and a thread has
 * already passed the end, they wait for their transfers, and the next execution has the barrier.
 */
typedef struct iow_omp_site {
  uintptr_t body; /* iow_omp_region_function of the region; atomic */
  int is_plain;   /* it was executed without such tasks; atomic */
  int is_used;    /* it had such tasks; atomic */
} iow_omp_site;

enum { IOW_OMP_SITES = 512 }; /* further regions always have the barrier */
IOW_OMP_ONE iow_omp_site iow_omp_sites[IOW_OMP_SITES];

enum {
  IOW_OMP_END_IS_OPEN = 0, /* no thread has reached the end, and there were no such tasks */
  IOW_OMP_END_IS_PLAIN = 1,
  IOW_OMP_END_HAS_BARRIER = 2
};

enum { IOW_OMP_MOST_SHARED = 256 };

typedef struct iow_omp_region {
  iow_omp_region_function body;
  void** shared; /* as many as the branch of iow_omp_call() for `count` reads */
  int32_t count;
  int level;
  int end; /* atomic */
  void* where;
  iow_omp_site* site; /* NULL: not known */
} iow_omp_region;

/* What this header knows of a task. It lies behind the task, and lives as long as its children. */
typedef struct iow_omp_frame {
  struct iow_omp_frame* parent; /* the task that created it; NULL for a region's implicit task */
  int32_t (*entry)(int32_t thread, void* task);
  struct iow_omp_frame* outer; /* with `if(0)`: the task that the thread goes back to */
  int outer_groups;            /* with `if(0)`: the taskgroups around that task's place */
  int is_grouped;              /* created inside a taskgroup, or by a task that was */
  int waiting;                 /* the calls of `taskwait` that it is inside of; atomic */
} iow_omp_frame;

/* What a thread runs now. */
typedef struct iow_omp_place {
  iow_omp_region* region; /* NULL: outside, or begun by code without this header */
  iow_omp_frame* task;    /* NULL: the implicit one */
  int groups;             /* taskgroups around this point */
} iow_omp_place;

IOW_OMP_ONE __thread iow_omp_place iow_omp_here = {NULL, NULL, 0};

/* Finds the region's entry in the table, or makes one. NULL if the table is full. */
static inline iow_omp_site* iow_omp_find_site(iow_omp_region_function body) {
  const uintptr_t key = (uintptr_t)body;
  const size_t start = (size_t)((key >> 4) * 0x9E3779B1U);
  for (size_t i = 0; i < IOW_OMP_SITES; ++i) {
    iow_omp_site* const site = &iow_omp_sites[(start + i) % IOW_OMP_SITES];
    uintptr_t found = __atomic_load_n(&site->body, __ATOMIC_RELAXED);
    if (found == 0 && __atomic_compare_exchange_n(&site->body, &found, key, 0, __ATOMIC_RELAXED,
                                                  __ATOMIC_RELAXED)) {
      return site;
    }
    if (found == key) return site;
  }
  return NULL;
}

/* Asks for the barrier at the end of the region. Returns true if the region has it. */
static inline int iow_omp_claim_barrier(void) {
  iow_omp_region* const region = iow_omp_here.region;
  if (omp_get_num_threads() == 1) return 1; /* its thread does everything itself */
  if (region == NULL || region->level != omp_get_level()) return 0;
  if (region->site != NULL && !__atomic_load_n(&region->site->is_used, __ATOMIC_RELAXED)) {
    __atomic_store_n(&region->site->is_used, 1, __ATOMIC_RELAXED);
  }
  int end = IOW_OMP_END_IS_OPEN;
  __atomic_compare_exchange_n(&region->end, &end, IOW_OMP_END_HAS_BARRIER, 0, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
  return end != IOW_OMP_END_IS_PLAIN;
}

/* Calls the body. It reads as many pointers as it was made for; the others are NULL. */
static inline void iow_omp_call(const iow_omp_region* region, int32_t* thread, int32_t* bound) {
  void** const p = region->shared;
#define IOW_OMP_4(i) p[i], p[(i) + 1], p[(i) + 2], p[(i) + 3]
#define IOW_OMP_16(i) IOW_OMP_4(i), IOW_OMP_4((i) + 4), IOW_OMP_4((i) + 8), IOW_OMP_4((i) + 12)
#define IOW_OMP_64(i) \
  IOW_OMP_16(i), IOW_OMP_16((i) + 16), IOW_OMP_16((i) + 32), IOW_OMP_16((i) + 48)
  if (region->count <= 4) {
    region->body(thread, bound, IOW_OMP_4(0));
  } else if (region->count <= 16) {
    region->body(thread, bound, IOW_OMP_16(0));
  } else {
    region->body(thread, bound, IOW_OMP_64(0), IOW_OMP_64(64), IOW_OMP_64(128), IOW_OMP_64(192));
  }
#undef IOW_OMP_64
#undef IOW_OMP_16
#undef IOW_OMP_4
}

/* Runs the body of a region, on each of its threads. */
static inline void iow_omp_run_region(int32_t* thread, int32_t* bound, iow_omp_region* region) {
  const iow_omp_place outside = iow_omp_here;
  const iow_omp_place inside = {region, NULL, 0};
  iow_omp_here = inside;
  iow_omp_call(region, thread, bound);
  int end = IOW_OMP_END_IS_OPEN;
  __atomic_compare_exchange_n(&region->end, &end, IOW_OMP_END_IS_PLAIN, 0, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
  if (end == IOW_OMP_END_HAS_BARRIER) __kmpc_barrier(region->where, *thread);
  iow_omp_here = outside;
}

IOW_OMP_ONE void __kmpc_fork_call(void* where, int32_t count, iow_omp_region_function body, ...) {
  static uintptr_t found;
  const iow_omp_fork_function real =
      (iow_omp_fork_function)iow_omp_find_once(&found, "__kmpc_fork_call");
  if (count > IOW_OMP_MOST_SHARED) {
    fprintf(stderr, "ioweave/openmp.h: a parallel region shares %d variables, %d can be\n",
            (int)count, (int)IOW_OMP_MOST_SHARED);
    abort();
  }
  void* shared[IOW_OMP_MOST_SHARED];
  const int32_t taken = count <= 4 ? 4 : count <= 16 ? 16 : IOW_OMP_MOST_SHARED;
  va_list list;
  va_start(list, body);
  for (int32_t i = 0; i < taken; ++i) shared[i] = i < count ? va_arg(list, void*) : NULL;
  va_end(list);
  iow_omp_site* const site = iow_omp_find_site(body);
  const int is_plain = site != NULL && __atomic_load_n(&site->is_plain, __ATOMIC_RELAXED) &&
                       !__atomic_load_n(&site->is_used, __ATOMIC_RELAXED);
  /* A cancelled region may skip barriers, so its tasks wait for their transfers. */
  const int has_barrier = !is_plain && !omp_get_cancellation();
  iow_omp_region region = {body,
                           shared,
                           count,
                           omp_get_level() + 1,
                           has_barrier ? IOW_OMP_END_HAS_BARRIER : IOW_OMP_END_IS_OPEN,
                           where,
                           site};
  real(where, 1, (iow_omp_region_function)(uintptr_t)&iow_omp_run_region, &region);
  if (site != NULL && !is_plain) __atomic_store_n(&site->is_plain, 1, __ATOMIC_RELAXED);
}

/* ---- Tasks ---- */

/* A task as Clang knows it: the beginning of the task's memory. */
typedef struct iow_omp_clang_task {
  void* shared;
  int32_t (*entry)(int32_t thread, void* task);
} iow_omp_clang_task;

/* Returns the frame of a task. It lies directly before the shared data, whose address is the only
   one behind the task that can be found. */
static inline iow_omp_frame* iow_omp_frame_of(void* task) {
  return (iow_omp_frame*)((iow_omp_clang_task*)task)->shared - 1;
}

/* The entry of all tasks. For an untied task it runs one part of the task; another thread may run
   the next part before this call ends. */
static inline int32_t iow_omp_run_task(int32_t thread, void* task) {
  const iow_omp_place outside = iow_omp_here;
  iow_omp_frame* const frame = iow_omp_frame_of(task);
  iow_omp_here.task = frame;
  iow_omp_here.groups = frame->is_grouped;
  const int32_t result = frame->entry(thread, task);
  iow_omp_here = outside;
  return result;
}

IOW_OMP_ONE void* __kmpc_omp_task_alloc(void* where, int32_t thread, int32_t flags,
                                        size_t task_bytes, size_t shared_bytes, void* entry) {
  static uintptr_t found;
  const int32_t detachable = 0x40;
  if ((flags & detachable) != 0 && iow_omp_is_fragile()) flags &= ~detachable;
  /* At least one pointer is shared, for otherwise there would be no address. */
  void* const task = ((iow_omp_alloc_function)iow_omp_find_once(&found, "__kmpc_omp_task_alloc"))(
      where, thread, flags, task_bytes + sizeof(iow_omp_frame),
      shared_bytes > 0 ? shared_bytes : sizeof(void*), (void*)(uintptr_t)&iow_omp_run_task);
  iow_omp_frame* const frame = iow_omp_frame_of(task);
  frame->parent = iow_omp_here.task;
  frame->entry = (int32_t(*)(int32_t, void*))(uintptr_t)entry;
  frame->is_grouped = iow_omp_here.groups > 0;
  frame->waiting = 0;
  return task;
}

/* Clang itself calls the entry between these two functions. */
IOW_OMP_ONE void __kmpc_omp_task_begin_if0(void* where, int32_t thread, void* task) {
  static uintptr_t found;
  iow_omp_frame* const frame = iow_omp_frame_of(task);
  frame->outer = iow_omp_here.task;
  frame->outer_groups = iow_omp_here.groups;
  iow_omp_here.task = frame;
  iow_omp_here.groups = frame->is_grouped;
  ++iow_omp_self.creating;
  ((iow_omp_if0_function)iow_omp_find_once(&found, "__kmpc_omp_task_begin_if0"))(where, thread,
                                                                                 task);
}

IOW_OMP_ONE void __kmpc_omp_task_complete_if0(void* where, int32_t thread, void* task) {
  static uintptr_t found;
  const iow_omp_frame* const frame = iow_omp_frame_of(task);
  iow_omp_here.task = frame->outer;
  iow_omp_here.groups = frame->outer_groups;
  ((iow_omp_if0_function)iow_omp_find_once(&found, "__kmpc_omp_task_complete_if0"))(where, thread,
                                                                                    task);
  --iow_omp_self.creating;
}

IOW_OMP_ONE int32_t __kmpc_omp_taskwait(void* where, int32_t thread) {
  static uintptr_t found;
  iow_omp_frame* const frame = iow_omp_here.task;
  if (frame != NULL) __atomic_add_fetch(&frame->waiting, 1, __ATOMIC_RELAXED);
  const int32_t result =
      ((iow_omp_taskwait_function)iow_omp_find_once(&found, "__kmpc_omp_taskwait"))(where, thread);
  if (frame != NULL) __atomic_sub_fetch(&frame->waiting, 1, __ATOMIC_RELAXED);
  return result;
}

IOW_OMP_ONE void __kmpc_taskgroup(void* where, int32_t thread) {
  static uintptr_t found;
  ((iow_omp_taskgroup_function)iow_omp_find_once(&found, "__kmpc_taskgroup"))(where, thread);
  ++iow_omp_here.groups;
}

IOW_OMP_ONE void __kmpc_end_taskgroup(void* where, int32_t thread) {
  static uintptr_t found;
  ((iow_omp_taskgroup_function)iow_omp_find_once(&found, "__kmpc_end_taskgroup"))(where, thread);
  /* An untied task may begin a group in one part and end it in another; that count is gone then. */
  if (iow_omp_here.groups > 0) --iow_omp_here.groups;
}

/*
 * Returns true if something waits until the event of the current task is fulfilled, even after the
 * task's body. A barrier does if an implicit task created the task; so does a taskgroup, and the
 * parent while it is inside `taskwait`.
 */
static inline int iow_omp_is_waited_for(void) {
  const iow_omp_frame* const frame = iow_omp_here.task;
  if (frame == NULL) return 0; /* code without this header created the task */
  return frame->parent == NULL || frame->is_grouped ||
         __atomic_load_n(&frame->parent->waiting, __ATOMIC_RELAXED) > 0;
}

/* ---- `taskwait depend` ---- */

/* The body of the task of iow_omp_wait_in_task(). A task begins with the address of its shared
   data. */
static inline int32_t iow_omp_waited_for(int32_t thread, void* task) {
  (void)thread;
  __atomic_store_n(**(int***)task, 1, __ATOMIC_RELEASE);
  return 0;
}

/*
 * `taskwait depend`. libomp puts a node of dependencies on the stack, and may leave that stack
 * frame while a thread that ends one of the tasks still uses the node. So this creates an ordinary
 * task, with the bytes and the flag that Clang uses, and runs tasks until that one has run.
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
 * `taskwait depend` stays libomp's own in two cases. With `nowait` it does not wait. In a team of
 * one thread nobody else uses the node, and the runtime does not run tasks when a task yields.
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
    ((iow_omp_wait_51_function)iow_omp_find("__kmpc_omp_taskwait_deps_51"))(
        where, thread, count, list, other_count, other_list, has_no_wait);
  } else {
    iow_omp_wait_in_task(where, thread, count, list, other_count, other_list);
  }
}

/* ---- Functions that openmp.h needs ---- */

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

/* Returns true if the task must end with its body. A cancelled region drops tasks and barriers. */
static inline int iow_omp_is_forced(void) {
  return iow_omp_self.creating > 0 || omp_in_final() || omp_get_cancellation() ||
         iow_omp_is_fragile() || !iow_omp_is_waited_for() || !iow_omp_claim_barrier();
}

/* Fulfils the first event of an armed task; a task does the rest. Any thread may call it. */
static inline void iow_omp_fulfil(iow_omp_task* task) {
  omp_fulfill_event(task->kick);
}

/*
 * Leaves the event to whoever ends the last transfer, and to a task. When a thread from outside
 * fulfils an event, libomp queues the rest of the work in a queue of the team, but counts the task
 * as ended at once. The team may then go on, and find that work later among the tasks of another
 * region. So that thread fulfils the event of a kick task instead. A second task depends on the
 * kick task, and fulfils the event of `task` on a thread of the team. Always succeeds: returns 1.
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

/* NOLINTEND(modernize-use-nullptr) */

#endif /* IOWEAVE_OPENMP_LIBOMP_H */
