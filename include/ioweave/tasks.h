/*
 * Ioweave inside tasks: storage I/O that pauses the task instead of the core, or that delays the
 * end of the task. After "Introducing the Task-Aware Storage I/O (TASIO) Library" (Roca Nonell,
 * Beltran Querol, Mateo Bellido, IWOMP 2019).
 *
 * How it works. A task runtime runs tasks on a few threads, one for each core. A task that reads
 * or writes stops its thread, and the core with it, although other tasks could run. There are two
 * ways out:
 *
 *   - Blocking: iow_pread() and its like (ioweave.h) submit the transfer, pause the *task*, and
 *     return like the system call when the transfer has ended. The core runs other tasks meanwhile.
 *     This needs a runtime that can pause tasks (iow_options.tasks): ALPI or oneTBB.
 *   - Non-blocking: iow_ta_pread() and its like, below, bind the transfer to the task and return at
 *     once. The task counts as running until its body *and* its I/O have ended; the runtime
 *     releases its dependencies only then. This needs a runtime with external events (ALPI), or a
 *     task opened by iow_task_begin(), as OpenMP (ioweave/openmp.h) and oneTBB (ioweave/tbb.hpp) do
 *     it.
 *
 * A read of what the page cache holds, and a write that the page cache takes without waiting, are
 * done at once: they pause no task and cost no round trip.
 *
 * C++20 coroutines use ioweave/coroutine.hpp, Fortran the module ioweave.f90.
 */
#ifndef IOWEAVE_TASKS_H
#define IOWEAVE_TASKS_H

#include "ioweave/ioweave.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Returns the task runtime in use: "ALPI 1.2 (nOS-V 3.1)", "oneTBB" or "none". If `why` is not
 * NULL, *why is "" or a sentence on what is missing and who can change that; it also says when
 * max_paused kept tasks from pausing. Both strings live as long as the service. The service does
 * not notice a runtime that is loaded after it was opened.
 */
IOW_API const char* iow_service_tasks(const iow_service* service, const char** why) IOW_NOEXCEPT;

/*
 * These calls do what pread(2), pwrite(2), preadv(2), pwritev(2), fsync(2) and fdatasync(2) do,
 * bound to the calling task. They return once the transfer is under way. The task ends (releases
 * its dependencies) when its body and all its transfers, any number of them, have ended. *result
 * then holds the bytes transferred, 0 or a negated errno. *result, the buffer and the descriptor
 * must outlive the task; an array of vectors is copied. Successors of the task may read *result;
 * the task itself may not. Interruptions and short transfers are handled as by iow_pread().
 *
 * They return 0, or an error if nothing was started: -ESRCH outside a task, or inside a task whose
 * runtime has no external events or refuses one (iow_service_tasks() names it); -EINVAL if `result`
 * is NULL, and as iow_pread(); -ENOMEM. After an error *result is the same error, so that
 * successors need to look only there. Otherwise *result is -EINPROGRESS until the transfer ends.
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
 * iow_task_begin() opens a task for iow_ta_*() in a runtime that has no external events of its own:
 * what runs on this thread from here to iow_task_end() belongs to it. `done(user)` runs exactly
 * once, when iow_task_end() has been called and every transfer bound to the task has ended. `done`
 * releases the successors: it fulfils an event, or enqueues a task. It runs on the thread that
 * calls iow_task_end(), on a thread of the service, or on a thread that starts a transfer in
 * another task. It must not block nor throw, nor take a lock that any task holds while it calls
 * iow_pread(), iow_ta_pread() or their like.
 *
 * Pairs nest: a task that begins inside another, because the runtime runs it on top, hides the
 * outer one until its end. Begin and end must be on the same thread. So where the runtime may
 * continue a task on another thread (oneTBB), iow_pread() and its like make the plain call between
 * the two, and the task must not pause by other means.
 *
 * iow_task_begin() returns 0; -EINVAL if `done` is NULL; or -ENOMEM. After an error there is no
 * task, and `done` does not run. iow_task_end() returns 0, or -ESRCH if no task of this service has
 * begun on this thread.
 */
IOW_API int iow_task_begin(iow_service* service, void (*done)(void* user), void* user) IOW_NOEXCEPT;
IOW_API int iow_task_end(iow_service* service) IOW_NOEXCEPT;

/* What tasks did since the service was opened. */
typedef struct iow_task_stats {
  uint32_t size;        /* before the call: sizeof(iow_task_stats); after it: the bytes filled in */
  uint32_t paused;      /* tasks paused now, whose I/O has not ended */
  uint32_t most_paused; /* most tasks paused at one time */
  uint32_t reserved;
  uint64_t pauses;        /* blocking calls that paused their task */
  uint64_t at_once;       /* calls of either kind that ended without waiting for a device */
  uint64_t made_plain;    /* blocking calls that had to wait but could not pause their task:
                             max_paused were paused (iow_service_tasks() says so), or they were
                             between iow_task_begin() and iow_task_end() */
  uint64_t bound;         /* transfers bound to a task */
  uint64_t bound_pending; /* bound transfers that have not ended */
  uint64_t alone;         /* plain blocking calls made because no other task was ready to run, where
                             that takes less time than a pause (nOS-V only, which tells) */
  uint64_t no_room;       /* those of made_plain for which max_paused left no room */
} iow_task_stats;

/* As iow_service_stats(). */
IOW_API int iow_service_task_stats(iow_service* service, iow_task_stats* stats) IOW_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* IOWEAVE_TASKS_H */
