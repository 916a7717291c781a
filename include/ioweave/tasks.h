/*
 * Ioweave inside tasks: storage I/O that pauses the task instead of the core, or that the task
 * ends with. After "Introducing the Task-Aware Storage I/O (TASIO) Library" (Roca Nonell, Beltran
 * Querol, Mateo Bellido, IWOMP 2019).
 *
 * How it works. A task runtime runs tasks on a few threads, one for each core. A task that reads
 * or writes stops its thread, and the core with it, although other tasks could run. Two ways out:
 *
 *   - Blocking: iow_pread() and its like (ioweave.h) submit the transfer, pause the *task*, and
 *     return like the system call when it has ended. The core runs other tasks meanwhile. Needs a
 *     runtime that can pause tasks (iow_options.tasks): ALPI or oneTBB.
 *   - Non-blocking: iow_ta_pread() and its like, below, bind the transfer to the task and return at
 *     once. The task counts as running until its body *and* its I/O have ended; then only are its
 *     dependencies released. Needs a runtime with external events, ALPI, or a task opened by
 *     iow_task_begin(), which is how OpenMP (ioweave/openmp.h) and oneTBB (ioweave/tbb.hpp) do it.
 *
 * What can be done at once is: a read of what the page cache holds, a write that the page cache
 * takes without waiting. Neither pauses anything nor costs a round trip.
 *
 * C++20 coroutines have ioweave/coroutine.hpp, Fortran the module ioweave.f90.
 */
#ifndef IOWEAVE_TASKS_H
#define IOWEAVE_TASKS_H

#include "ioweave/ioweave.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The task runtime in use: "ALPI 1.2 (nOS-V 3.1)", "oneTBB" or "none"; *why, unless NULL, receives
 * a sentence on what is missing and who can mend it, or "": also that more tasks were to be paused
 * than may be. Both live as long as the service. A runtime that is loaded later is not noticed.
 */
IOW_API const char* iow_service_tasks(const iow_service* service, const char** why) IOW_NOEXCEPT;

/*
 * As pread(2), pwrite(2), preadv(2), pwritev(2), fsync(2), fdatasync(2), bound to the calling task:
 * they return once the transfer is under way, and the task ends (releases its dependencies) when
 * its body and all its transfers have ended. Any number per task. *result then holds the bytes
 * transferred, 0 or a negated errno; it, the buffer and the descriptor must outlive the task, while
 * an array of vectors is copied. Successors of the task may read *result; the task itself may not.
 * Interruptions and short transfers are handled as by iow_pread().
 *
 * 0, or without anything started: -ESRCH outside a task, or inside one whose runtime has no
 * external events or refuses one (iow_service_tasks() names it), -EINVAL for NULL as `result` and
 * as iow_pread(), -ENOMEM. *result is then the same error, so that successors need to look there
 * only. Else it is -EINPROGRESS until the end.
 */
IOW_API int iow_ta_pread(iow_service* service, int fd, void* buffer, size_t bytes, off_t offset,
                         ssize_t* result) IOW_NOEXCEPT;
IOW_API int iow_ta_pwrite(iow_service* service, int fd, const void* buffer, size_t bytes,
                          off_t offset, ssize_t* result) IOW_NOEXCEPT;
IOW_API int iow_ta_preadv(iow_service* service, int fd, const struct iovec* vectors, int count,
                          off_t offset, ssize_t* result) IOW_NOEXCEPT;
IOW_API int iow_ta_pwritev(iow_service* service, int fd, const struct iovec* vectors, int count,
                           off_t offset, ssize_t* result) IOW_NOEXCEPT;
IOW_API int iow_ta_fsync(iow_service* service, int fd, ssize_t* result) IOW_NOEXCEPT;
IOW_API int iow_ta_fdatasync(iow_service* service, int fd, ssize_t* result) IOW_NOEXCEPT;

/*
 * Makes what runs on this thread from here to iow_task_end() a task for iow_ta_*(), in a runtime
 * that has no external events of its own. `done(user)` runs exactly once, when iow_task_end() has
 * been called and every transfer bound to the task has ended. It releases the successors: fulfils
 * an event, enqueues a task. It runs on the thread that calls iow_task_end(), on one of the
 * service's, or on a thread that starts a transfer in another task. It must not block nor throw,
 * nor take a lock that any task holds while it calls iow_pread(), iow_ta_pread() or their like.
 *
 * Pairs nest: a task that begins inside another, because the runtime runs it on top, hides the
 * outer one until its end. Begin and end must be on the same thread. So where the runtime lets
 * tasks go on elsewhere (oneTBB), iow_pread() and its like do not pause between the two but are the
 * plain calls, and the task must not pause by other means.
 *
 * Begin: 0; -EINVAL for NULL as `done`; -ENOMEM (then there is no task, and `done` does not run).
 * End: 0, or -ESRCH where no task of this service has begun on this thread.
 */
IOW_API int iow_task_begin(iow_service* service, void (*done)(void* user), void* user) IOW_NOEXCEPT;
IOW_API int iow_task_end(iow_service* service) IOW_NOEXCEPT;

/* What tasks did. Counts since the service was opened. */
typedef struct iow_task_stats {
  uint32_t size;   /* set to sizeof(iow_task_stats) before the call; what was filled after it */
  uint32_t paused; /* tasks paused now, whose I/O has not ended */
  uint32_t most_paused; /* at one time */
  uint32_t reserved;
  uint64_t pauses;        /* blocking calls that paused their task */
  uint64_t at_once;       /* calls of either kind that ended without waiting for a device */
  uint64_t made_plain;    /* blocking calls that would have waited and could not pause the task:
                             max_paused were (iow_service_tasks() says so), or iow_task_begin() */
  uint64_t bound;         /* transfers that were bound to a task */
  uint64_t bound_pending; /* of these, not ended */
  uint64_t alone;         /* blocking calls made plainly since no other task was ready to run (on
                             nOS-V, which tells), where that takes less time than to pause */
  uint64_t no_room;       /* of made_plain, those that max_paused left no room for */
} iow_task_stats;

/* As iow_service_stats(). */
IOW_API int iow_service_task_stats(iow_service* service, iow_task_stats* stats) IOW_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* IOWEAVE_TASKS_H */
