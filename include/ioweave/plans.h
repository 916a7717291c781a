/*
 * Ioweave: plans of reads to come. The C interface.
 *
 * A program that knows what it will read says so, and goes on computing; the reads are made ahead
 * of it.
 *
 *   iow_plan* plan;
 *   iow_plan_open(service, &plan, NULL, NULL);
 *   for (int i = 0; i < n; ++i) {
 *     iow_plan_add(plan, fd, where[i], bytes);
 *   }
 *   for (int i = 0; i < n; ++i) {
 *     iow_plan_read(plan, fd, buffer, bytes, where[i]);   a copy, if it has been read ahead
 *     compute(buffer);
 *   }
 *   iow_plan_close(plan);
 *
 * How it works. Planned reads are carried out in the order of the plan, into memory of the plan's,
 * as far ahead as `budget_bytes` allows and, once the program reads, as it needs: 8 MiB or two
 * reads, twice as much each time that a read comes too late for that. Large ones are divided into
 * slices. iow_plan_read() copies what is there, waits for slices that are under way, and reads
 * everything else itself. So it always returns what iow_pread() would: reads may come in another
 * order than planned, in other sizes, or not at all. Memory of a planned read is free again when
 * all of its bytes have been read.
 *
 * Schedules. They are those of the paper on pre-execution prefetching with inter-thread I/O
 * scheduling (PPIS): who goes first, the program's own I/O or reads ahead?
 *   normal    nothing is read ahead
 *   pp        reads ahead are made whenever possible
 *   ppis      strict priority of the program: a slice begins only while none of the program's
 *             transfers is under way. Slices that are under way end
 *   weighted  both at once; if more than eight are under way, they take turns by bytes, 16 to 1
 * The program's transfers are those of iow_plan_read(), iow_plan_write() and all calls and
 * requests of the service without a flow, from any thread. By default a plan begins with `ppis`,
 * and measures what two slices at once get from the device. If that is a third more than what one
 * gets, reads at the same time do not slow each other down, and the plan goes on with `pp`.
 *
 * Depth. The plan finds how many slices at once the device serves best: it begins with two, goes
 * back to one if they slow each other down, and tries more while the device gets faster. As long as
 * the program reads nothing but what was planned, spare ones are under way as well, as many as the
 * device serves in 20 ms and at most 16 together: they keep it at work while the processors are
 * not.
 *
 * Files that change. iow_plan_write() and iow_plan_invalidate() drop what was read ahead of the
 * bytes they name. Every other write is found by the file's size and times: before bytes are handed
 * out, these are compared with what they were before the read ahead. They do not tell who wrote, so
 * a write of the plan's own makes all that was read ahead of its file useless, unless the plan was
 * opened as the `sole_writer` of its files: a loop that writes where it reads needs that. A file
 * that was changed less than 10 ms ago (2 s, where its times are whole seconds) is not read ahead
 * yet, since its times may not tell of one more change. Two kinds of changes are not found: stores
 * to memory that maps the file, because the times may follow later; and, where another machine's
 * clock sets the times, a second change within the time that this clock is behind. Name these by
 * iow_plan_invalidate().
 *
 * Errors. A read ahead that fails is forgotten: the program's read of these bytes makes the same
 * read again, and returns its result.
 *
 * Conventions: those of ioweave.h. Any thread may make any call at any time, but iow_plan_close()
 * is the last call on a plan. In a forked child iow_plan_read() and iow_plan_write() are plain
 * calls, all others return -ECANCELED. Inside a task that can be paused (ioweave/tasks.h) a call
 * that waits pauses the task. Descriptors stay the caller's: call iow_plan_forget() before
 * close(2), unless the plan is closed before.
 */
#ifndef IOWEAVE_PLANS_H
#define IOWEAVE_PLANS_H

#include "ioweave/ioweave.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iow_plan iow_plan;

typedef enum iow_plan_schedule {
  IOW_PLAN_AUTO = 0, /* ppis, then maybe pp, as explained above */
  IOW_PLAN_NORMAL = 1,
  IOW_PLAN_PP = 2,
  IOW_PLAN_PPIS = 3,
  IOW_PLAN_WEIGHTED = 4
} iow_plan_schedule;

/* Zero means "the default" in every field. */
typedef struct iow_plan_options {
  uint32_t size; /* sizeof(iow_plan_options), or 0 */
  iow_plan_schedule schedule;
  uint64_t budget_bytes; /* memory for what is read ahead: 64 KiB..1 TiB, default 256 MiB */
  uint64_t slice_bytes; /* most bytes of one transfer: 4 KiB..1 GiB, whole pages; default 1 MiB, but
                           at most a quarter of the budget */
  uint32_t depth;       /* slices under way at once: 1..256; 0: found while reading */
  /* Instead of a schedule: the flow of reads ahead, and that of the program's own transfers, from
     iow_flow_create(). Both or none; `schedule` must be IOW_PLAN_AUTO then, and their device's
     scheduling counts. */
  uint32_t flow;
  uint32_t own_flow;
  uint32_t small_pages; /* nonzero: memory in pages of the usual size, not in huge ones */
  uint32_t sole_writer; /* nonzero: nobody but iow_plan_write() of this plan writes to its files */
  uint32_t reserved[7];
} iow_plan_options;

/*
 * Opens a plan. `options` may be NULL. The service must outlive the plan. Errors: -EINVAL (an
 * option is out of range; *error_text names it), -ENOMEM, -ECANCELED in a forked child.
 * `error_text` is as in iow_service_open().
 */
IOW_API int iow_plan_open(iow_service* service, iow_plan** plan, const iow_plan_options* options,
                          char** error_text) IOW_NOEXCEPT;

/*
 * Adds a read at the end of the plan. Returns 0 at once; reading may begin. At most 2^20 reads are
 * planned at a time, read ones not counted. Errors: -EINVAL (no bytes, an offset below 0, an end
 * above INT64_MAX, or a descriptor that is no regular file), those of fstat(2),
 * -ENOBUFS (there are 2^20), -ENOMEM, -ECANCELED in a forked child.
 */
IOW_API int iow_plan_add(iow_plan* plan, int fd, int64_t offset, uint64_t bytes) IOW_NOEXCEPT;

/*
 * Adds `count` reads of `bytes` each that begin `stride` bytes apart, the first one at `offset`; a
 * negative stride goes backwards. With stride == bytes they are a whole file, piece by piece. The
 * reads are added to the plan little by little, so `count` may be any number. Errors: as
 * iow_plan_add(), of the first and the last read.
 */
IOW_API int iow_plan_add_strided(iow_plan* plan, int fd, int64_t offset, uint64_t bytes,
                                 int64_t stride, uint64_t count) IOW_NOEXCEPT;

/* A read to come. */
typedef struct iow_planned_read {
  int fd;
  uint32_t reserved;
  int64_t offset;
  uint64_t bytes;
} iow_planned_read;

/* Fills in *read and returns 1, or returns 0 behind the last read, or -errno. */
typedef int (*iow_plan_next)(iow_planned_read* read, void* user);

/*
 * Adds reads that a function names, one by one and as late as possible. `next` runs inside calls of
 * iow_plan_read(), iow_plan_add() and this one, in one thread at a time, until it returns 0 or an
 * error, or names a read that iow_plan_add() would refuse: that ends it. It may not call the plan.
 * Calls that add reads are carried out in their order: what is added after a generator comes when
 * it has ended. Errors: -EINVAL if `next` is NULL, -ENOMEM, -ECANCELED in a forked child.
 */
IOW_API int iow_plan_generate(iow_plan* plan, iow_plan_next next, void* user) IOW_NOEXCEPT;

/*
 * As iow_pread(). Bytes that were read ahead are copied.
 */
IOW_API ssize_t iow_plan_read(iow_plan* plan, int fd, void* buffer, size_t bytes,
                              off_t offset) IOW_NOEXCEPT;

/* Bytes of a file in memory of the plan's. */
typedef struct iow_plan_lease {
  void* data;   /* the caller's until the end of the lease: it may change them. Begins a page */
  size_t bytes; /* as many as were read */
  void* owner;  /* the plan's own */
} iow_plan_lease;

/*
 * As iow_plan_read(), but without a copy where these very bytes, from the first to the last, were
 * planned as one read: *lease then has the memory that they were read into. All other bytes are
 * read into memory of the lease's own. It counts in the budget only where it was planned. Returns
 * the bytes read, and -ENOMEM; where this is 0 or an error there is no lease to end.
 */
IOW_API ssize_t iow_plan_lease_read(iow_plan* plan, iow_plan_lease* lease, int fd, size_t bytes,
                                    off_t offset) IOW_NOEXCEPT;

/* Gives the memory back, before iow_plan_close(); *lease is empty then. An empty lease is allowed.
 */
IOW_API void iow_plan_lease_end(iow_plan* plan, iow_plan_lease* lease) IOW_NOEXCEPT;

/*
 * As iow_pwrite(). What was read ahead of these bytes is dropped, and read again where it is
 * planned to be read later; so is what was read ahead of others of the file, where the plan is not
 * the sole writer.
 */
IOW_API ssize_t iow_plan_write(iow_plan* plan, int fd, const void* buffer, size_t bytes,
                               off_t offset) IOW_NOEXCEPT;

/*
 * Drops what was read ahead of these bytes; `bytes` of 0: up to the end of the file. For writes
 * that others make, if the file's times do not tell of them. Returns 0. Errors: those of fstat(2),
 * -EINVAL for an offset below 0, -ECANCELED in a forked child.
 */
IOW_API int iow_plan_invalidate(iow_plan* plan, int fd, int64_t offset,
                                uint64_t bytes) IOW_NOEXCEPT;

/*
 * Forgets all planned reads of this file, but for those that a generator has not named yet, and
 * waits for its reads ahead that are under way. Returns 0. Errors: those of fstat(2), -ECANCELED in
 * a forked child.
 */
IOW_API int iow_plan_forget(iow_plan* plan, int fd) IOW_NOEXCEPT;

/* Waits for reads ahead that are under way, and frees the plan. NULL is allowed. */
IOW_API void iow_plan_close(iow_plan* plan) IOW_NOEXCEPT;

/* What became of a plan. Times are nanoseconds. */
typedef struct iow_plan_stats {
  uint32_t size;  /* before the call: sizeof(iow_plan_stats); after it: the bytes filled in */
  uint32_t depth; /* slices at once, as found so far */
  iow_plan_schedule schedule; /* in use; of a plan with flows IOW_PLAN_AUTO */
  uint32_t is_settled;        /* nonzero: depth and schedule are given, or have been measured */
  double gain_of_two;         /* bytes per second with two slices at once, over those with one; 0:
                                 not measured */
  uint64_t planned_reads;
  uint64_t planned_bytes;
  uint64_t ahead_bytes; /* read ahead */
  uint64_t reads;       /* calls of iow_plan_read() that returned bytes */
  uint64_t hit_reads;   /* of these: all bytes were copied, without waiting */
  uint64_t late_reads;  /* of these: waited for slices under way, or read planned bytes itself */
  uint64_t unplanned_reads; /* of these: no byte was planned */
  uint64_t hit_bytes;       /* copied */
  uint64_t own_bytes;       /* read by iow_plan_read() itself */
  uint64_t wait_ns;         /* inside iow_plan_read(), in waits for slices */
  uint64_t read_ns;         /* inside iow_plan_read(), in reads of its own */
  uint64_t unread_bytes;    /* read ahead and dropped before they were read */
  uint64_t stale_bytes;     /* of these: the file had changed, or was written */
  uint64_t failed_slices;   /* reads ahead that failed */
  uint64_t cached_bytes;    /* of small planned reads: were in the page cache, and left there */
} iow_plan_stats;

/* Fills *stats, as iow_service_stats() does. Returns 0, -EINVAL, or -ECANCELED in a forked child.
 */
IOW_API int iow_plan_get_stats(iow_plan* plan, iow_plan_stats* stats) IOW_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* IOWEAVE_PLANS_H */
