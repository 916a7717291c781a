/*
 * Ioweave: storage I/O woven through computation. The C interface.
 *
 * How it works. A *service* moves bytes; open one per process and share it between threads. A
 * *request* describes one transfer; its memory is yours (stack, struct member, array), nothing is
 * allocated per request. You may
 *
 *   - call iow_pread() and friends: the plain system call, with interruptions and short transfers
 *     handled;
 *   - submit requests and collect them with iow_wait(), iow_test() or iow_poll();
 *   - submit requests with a callback that runs on the service's own thread, or on yours.
 *
 * A request belongs to a *flow*, a named stream of similar operations with a priority class and a
 * bandwidth constraint on a *device*. Requests without a flow are foreground and unconstrained, and
 * take the fast path: from the calling thread straight to a ring of its own.
 *
 * Conventions, for every function unless it says otherwise:
 *   - Result: >= 0, or a negated errno (-EINVAL, ...). errno itself is not touched.
 *   - Sizes and offsets are bytes, times are nanoseconds, bandwidth is MB/s (10^6 bytes).
 *   - Timeouts below 0 are for ever.
 *   - Structs of options grow at their end: `size` says how much of one the caller knows, and 0
 *     that it is all of this header's. What a shorter one lacks is zero, what a longer one has is
 *     ignored; a size of 1..3 is -EINVAL.
 *   - Thread safety: any thread, at any time, except that iow_service_close() is the last call.
 *   - Ownership: a buffer and a request belong to the library from submission to completion.
 *   - fork(2): the child must not wait for what the parent submitted (such waits return
 *     -ECANCELED). In the child, submissions on an inherited service are carried out at once by
 *     plain system calls, and devices, flows and registrations are refused with -ECANCELED; open a
 *     new service there for asynchronous I/O. The parent is unaffected.
 *   - Threads that end: what a thread submitted is completed before its exit finishes.
 *   - Signals: a thread with asynchronous requests in flight may see epoll_wait(2) and similar
 *     calls return EINTR without a signal of the program (the kernel posts completions that way).
 */
#ifndef IOWEAVE_IOWEAVE_H
#define IOWEAVE_IOWEAVE_H

#include <sys/types.h>
#include <sys/uio.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define IOW_NOEXCEPT noexcept
#else
#define IOW_NOEXCEPT
#endif

#define IOW_API __attribute__((visibility("default")))

#define IOW_VERSION_MAJOR 0
#define IOW_VERSION_MINOR 1
#define IOW_VERSION_PATCH 0

/* "0.1.0": of the library that runs, not of this header. */
IOW_API const char* iow_version_string(void) IOW_NOEXCEPT;

/* ---- Service ---- */

typedef struct iow_service iow_service;

typedef enum iow_engine {
  IOW_ENGINE_AUTO = 0, /* the best that works here */
  IOW_ENGINE_URING = 1,
  IOW_ENGINE_AIO = 2, /* Linux native AIO: O_DIRECT descriptors; others go to threads */
  IOW_ENGINE_THREADS = 3
} iow_engine;

typedef enum iow_engine_mode {
  IOW_MODE_PLAIN = 0,
  IOW_MODE_SQPOLL = 1, /* io_uring with a kernel thread that polls for submissions */
  /* io_uring polling the device: O_DIRECT transfers on devices with polling queues. Others go to
     threads; a device without such queues sends all of the service's there, for good. */
  IOW_MODE_IOPOLL = 2
} iow_engine_mode;

/* Whose tasks iow_pread() and its like pause; ioweave/tasks.h explains. */
typedef enum iow_tasks {
  IOW_TASKS_AUTO = 0, /* ALPI where the process has such a runtime, nobody's otherwise */
  IOW_TASKS_NONE = 1,
  IOW_TASKS_ALPI = 2, /* OmpSs-2 (Nanos6, NODES), nOS-V */
  IOW_TASKS_TBB = 3   /* oneTBB: a task may go on on another thread than it paused on */
} iow_tasks;

/* Who collects what tasks wait for. A runtime that cannot run such a task gets the thread. */
typedef enum iow_task_reaper {
  IOW_REAPER_AUTO = 0,   /* a thread */
  IOW_REAPER_THREAD = 1, /* the service's thread, asleep in the kernel */
  IOW_REAPER_TASK = 2    /* a task of the runtime that looks now and then; ALPI only */
} iow_task_reaper;

/* Zero means "the default" in every field, so a zeroed struct is valid. */
typedef struct iow_options {
  uint32_t size; /* sizeof(iow_options), or 0 */
  iow_engine engine;
  iow_engine_mode mode;
  int required;         /* nonzero: fail to open rather than fall back to another engine or mode,
                           or do without the task runtime that `tasks` names; IOW_ENGINE_AUTO then
                           means IOW_ENGINE_URING */
  uint32_t queue_depth; /* most requests in flight in each thread's queue: 1..4096, default 256.
                           What goes to the service's own threads is queued there without a limit */
  uint32_t threads;     /* most worker threads of the threads engine: 1..256, default 4 */
  iow_tasks tasks;
  iow_task_reaper task_reaper;
  uint32_t max_paused;  /* most tasks paused at once: up to 1000000; 0: what the machine has room
                           for, by memory and the limits on threads. One more makes the plain call:
                           each paused task holds a stack, on nOS-V a thread. oneTBB can hold 2048,
                           and more count as that */
  uint32_t poll_min_us; /* of IOW_REAPER_TASK: the shortest and longest time between two looks, in
                           microseconds: 1..1000000, min <= max, default 20 and 1000. It looks */
  uint32_t
      poll_max_us; /* more often while it finds something, and not while nothing is in flight */
  uint32_t reserved[3];
  /* NULL, or told each line of the event log of the service's policy: what became ready, started
     and ended, and what was decided. Runs under a lock, on any thread: it must neither block nor
     call this library. The line has `bytes` bytes, without a newline. */
  void (*log)(const char* line, size_t bytes, void* user);
  void* log_user;
} iow_options;

/*
 * Opens a service. `options` may be NULL. Where the wanted engine is not allowed or not there
 * (io_uring disabled, seccomp, limits), falls back to the next one unless `required`; see
 * iow_service_engine() for which and why. Errors: -EINVAL (`service` is NULL or an option out of
 * range; *error_text names it), -EMFILE (256 services are open in this process), -ENOMEM, and with
 * `required` the engine's own error. *service is NULL then. *error_text, if the pointer is not
 * NULL, is NULL or a sentence to be freed with free(3).
 */
IOW_API int iow_service_open(iow_service** service, const iow_options* options,
                             char** error_text) IOW_NOEXCEPT;

/*
 * Completes everything in flight or waiting (callbacks included), then frees the service. No other
 * call on it may be running or follow. NULL is allowed.
 */
IOW_API void iow_service_close(iow_service* service) IOW_NOEXCEPT;

/*
 * The engine in use ("io_uring", "io_uring+sqpoll", "io_uring+iopoll", "aio", "threads"); *why,
 * unless NULL, receives a sentence on what was passed over and who can mend it, or "". Both live as
 * long as the service.
 */
IOW_API const char* iow_service_engine(const iow_service* service, const char** why) IOW_NOEXCEPT;

/* ---- Blocking calls ---- */

/*
 * Inside a task of the service's task runtime (iow_options.tasks) these pause the task while the
 * device works, see ioweave/tasks.h; anywhere else they are the plain call.
 *
 * As pread(2), pwrite(2), preadv(2), pwritev(2), fsync(2), fdatasync(2) on the calling thread, but
 * interrupted calls are repeated and short transfers continued, also above 2 GiB: fewer bytes than
 * asked means end of file, or for a write the bytes written before an error that the next call
 * will report. Errors: those of the system call, negated; -EINVAL for an offset below 0, for
 * vectors outside 0..IOV_MAX or NULL, or for bytes or their sum above SSIZE_MAX. No call of this
 * library is a cancellation point (pthread_cancel(3)).
 */
IOW_API ssize_t iow_pread(iow_service* service, int fd, void* buffer, size_t bytes,
                          off_t offset) IOW_NOEXCEPT;
IOW_API ssize_t iow_pwrite(iow_service* service, int fd, const void* buffer, size_t bytes,
                           off_t offset) IOW_NOEXCEPT;
IOW_API ssize_t iow_preadv(iow_service* service, int fd, const struct iovec* vectors, int count,
                           off_t offset) IOW_NOEXCEPT;
IOW_API ssize_t iow_pwritev(iow_service* service, int fd, const struct iovec* vectors, int count,
                            off_t offset) IOW_NOEXCEPT;
IOW_API int iow_fsync(iow_service* service, int fd) IOW_NOEXCEPT;
IOW_API int iow_fdatasync(iow_service* service, int fd) IOW_NOEXCEPT;

/* ---- Requests ---- */

typedef enum iow_op {
  IOW_OP_NOP = 0,
  IOW_OP_READ = 1,   /* buffer, bytes, offset */
  IOW_OP_WRITE = 2,  /* buffer, bytes, offset */
  IOW_OP_READV = 3,  /* buffer = const struct iovec *, bytes = their number, offset */
  IOW_OP_WRITEV = 4, /* the same; the array must live until completion */
  IOW_OP_FSYNC = 5,
  IOW_OP_FDATASYNC = 6,
  IOW_OP_PREFETCH = 7 /* bytes, offset: into the page cache; completes when they are there */
} iow_op;

enum {
  /* Submission may be held until this thread next submits without this flag, waits, tests or polls:
     batches become one system call. */
  IOW_MORE = 1u << 0,
  /* Where no room is left, do not sleep: iow_submit() returns what it took so far. */
  IOW_NOWAIT = 1u << 1,
  /* The callback runs on the submitting thread, inside iow_poll() or iow_wait*(), instead of on the
     service's thread. */
  IOW_CALLBACK_ON_POLL = 1u << 2,
  /* One system call's worth: neither short transfers nor -EINTR/-EAGAIN are continued. */
  IOW_EXACT = 1u << 3
};

typedef struct iow_request iow_request;

/*
 * Runs once, when the request has completed and `result` is set. The request may be resubmitted or
 * its memory reused from inside. Must not block for long nor throw. In a forked child, and where no
 * thread can be had at all (the limit on processes), it runs inside the call that carries the
 * request out: iow_submit(), or one that ends what held it back. So it does in iow_submit() where
 * a request of a flow that may have to wait finds no memory: its result is -ENOMEM.
 */
typedef void (*iow_callback)(iow_request* request, void* user);

/* Zero it, fill the first part, leave the rest alone. 192 bytes. */
struct iow_request {
  uint8_t op;            /* iow_op */
  uint8_t flags;         /* IOW_* */
  uint16_t fixed_buffer; /* from iow_register_buffer(), or 0 */
  uint16_t fixed_file;   /* from iow_register_file(), or 0; fd must be set all the same */
  uint16_t reserved;
  int32_t fd;
  uint32_t flow; /* from iow_flow_create(), or 0: foreground, unconstrained */
  void* buffer;
  uint64_t bytes;
  int64_t offset; /* >= 0, or -1: the descriptor's own position (implies IOW_EXACT). Of pipes and
                     sockets the stream is read or written, as io_uring does. Where such a transfer
                     moves some bytes and then meets an error, Linux may leave the position */
  iow_callback callback; /* NULL: collect it with iow_wait(), iow_test() or iow_poll() */
  void* user;
  int64_t result; /* once completed: bytes transferred, 0, or -errno */
  uint64_t internal[16];
};

/*
 * Submits `count` requests, in order of the array (their completions come in any order). Returns
 * how many were taken: all of them, or fewer with IOW_NOWAIT or where the next one is malformed
 * (then a call with that one first returns its error: -EINVAL for an unknown op, flag or flow, an
 * offset below -1 (of IOW_OP_PREFETCH, below 0), bytes above SSIZE_MAX, or vectors above IOV_MAX,
 * NULL or of more than SSIZE_MAX bytes; -EBUSY for a request still in flight). -EINVAL, too, for a
 * count above INT_MAX. Errors of the transfer itself, -EBADF included, are the request's result.
 * Sleeps while the thread's queue is full unless IOW_NOWAIT (then -EAGAIN where nothing could be
 * taken). A count of 0 only hands over what IOW_MORE held.
 */
IOW_API int iow_submit(iow_service* service, iow_request* const* requests,
                       unsigned count) IOW_NOEXCEPT;

/*
 * Carries a request out on the calling thread if that needs no waiting for a device: a read of what
 * the page cache holds, a write that it takes. 1 if so: the request has completed, its callback
 * does not run. 0 if not, and nothing has happened: submit it. Always 0 for requests of a flow, for
 * IOW_OP_FSYNC and its like, and in a forked child. Errors as of iow_submit().
 */
IOW_API int iow_try(iow_service* service, iow_request* request) IOW_NOEXCEPT;

/*
 * 1 if completed (its result is then visible to this thread), else 0, also for a request that was
 * never submitted. No system call, usually.
 */
IOW_API int iow_test(iow_service* service, iow_request* request) IOW_NOEXCEPT;

/*
 * Waits for one request, submitted by whichever thread, at most timeout_ns (-1: for ever). 0 when
 * it has completed, -ETIME, -EINVAL for a request that was never submitted, -ECANCELED in a forked
 * child. Not for requests with a callback, whose end is the callback.
 */
IOW_API int iow_wait(iow_service* service, iow_request* request, int64_t timeout_ns) IOW_NOEXCEPT;

/* Waits for all of them, at most timeout_ns together. 0, or the first error as above. */
IOW_API int iow_wait_all(iow_service* service, iow_request* const* requests, unsigned count,
                         int64_t timeout_ns) IOW_NOEXCEPT;

/*
 * Makes progress on what this thread submitted: hands over what IOW_MORE held, collects completions
 * and runs the callbacks of IOW_CALLBACK_ON_POLL. Sleeps until `min` requests of this thread have
 * completed during the call, at most timeout_ns (-1: for ever), and no longer than anything is in
 * flight. Returns how many completed: 0 in a thread that submitted nothing, and in a forked child.
 */
IOW_API int iow_poll(iow_service* service, unsigned min, int64_t timeout_ns) IOW_NOEXCEPT;

/*
 * Asks that a request be given up. It completes in any case, with -ECANCELED where that succeeded
 * and nothing was transferred. 0 where it was still waiting, or has been asked to give up;
 * -EALREADY where it is under way (storage I/O on regular files usually cannot be taken back), has
 * completed or was never submitted, and in a forked child. Only the request's result says what
 * became of it.
 */
IOW_API int iow_cancel(iow_service* service, iow_request* request) IOW_NOEXCEPT;

/* ---- Registered buffers and files ---- */

/*
 * Registers memory (or a descriptor) once with every ring, which saves the kernel looking it up
 * for each operation. Returns an id (1..1023) for iow_request.fixed_buffer (fixed_file), valid
 * until unregistered; unregister only when no request in flight uses it. Never needed for
 * correctness: where the memory lock limit is too low, or the id is not one of the request's own
 * buffer (descriptor), requests go the ordinary way. Errors of registering: -ENOSPC when all ids
 * are taken, -EINVAL for an empty range or NULL, -EBADF, -ENOMEM; of unregistering: -ENOENT for an
 * id that is not registered.
 */
IOW_API int iow_register_buffer(iow_service* service, void* base, size_t bytes) IOW_NOEXCEPT;
IOW_API int iow_register_file(iow_service* service, int fd) IOW_NOEXCEPT;
IOW_API int iow_unregister_buffer(iow_service* service, int id) IOW_NOEXCEPT;
IOW_API int iow_unregister_file(iow_service* service, int id) IOW_NOEXCEPT;

/* ---- Devices and flows ---- */

typedef enum iow_class {
  IOW_FOREGROUND = 0, /* somebody waits for it */
  IOW_WRITE_BEHIND = 1,
  IOW_PREFETCH = 2
} iow_class;

typedef enum iow_scheduling {
  IOW_SCHEDULE_NONE = 0,    /* all classes at once */
  IOW_SCHEDULE_STRICT = 1,  /* a lower class starts only while no higher one runs or waits */
  IOW_SCHEDULE_WEIGHTED = 2 /* shares of the bytes started, among what has to wait: without a
                               max_in_flight of the device, or its budget and constraints of the
                               flows, no turn is waited for and it has no effect */
} iow_scheduling;

typedef struct iow_device_options {
  uint32_t size; /* sizeof(iow_device_options), or 0 */
  iow_scheduling scheduling;
  double budget_mb_per_s; /* never exceeded by the sum of running requests' constraints: 1e-6..1e12,
                             or 0: none */
  uint32_t max_in_flight; /* requests at once; 0: no limit */
  uint32_t weights[3];    /* of IOW_FOREGROUND, _WRITE_BEHIND, _PREFETCH: 1..10000; 0: 16, 4, 1 */
  uint32_t begins_at;     /* operations at once with which "climb" begins; 0: one */
  uint32_t is_measured;   /* nonzero: "climb" goes by iow_device_sample(), not by the bytes that
                             operations say they moved */
  uint32_t reserved[6];
} iow_device_options;

/*
 * Creates a storage target. Returns its id; device 0 exists, has no limits and schedules strictly.
 * A service has at most 256 devices and 4096 flows, these two zeroth ones included; they live as
 * long as it does. `name` is for texts and may be NULL, so may `options`. Errors: -EINVAL for an
 * option out of range or one too many, with a sentence in *error_text (free(3)); -ENOMEM.
 */
IOW_API int iow_device_create(iow_service* service, const char* name,
                              const iow_device_options* options, char** error_text) IOW_NOEXCEPT;

typedef struct iow_flow_options {
  uint32_t size;   /* sizeof(iow_flow_options), or 0 */
  uint32_t device; /* from iow_device_create(), or 0 */
  iow_class priority;
  double constraint_mb_per_s; /* held by each running request of the flow: 1e-6 up to the budget of
                                 the device; 0: none. Without effect on a device without a budget,
                                 as device 0 is: there is nothing to hold a part of */
  uint32_t max_in_flight;     /* requests of the flow at once; 0: no limit */
  uint32_t reserved_word;
  /* Instead of constraint_mb_per_s, in words; NULL: none. "20" is as constraint_mb_per_s = 20.
     "climb" finds under way how many operations at once the device serves best, by the bytes that
     they say they moved. "auto(MIN,MAX,DELTA)" and "auto" learn in epochs, as the I/O-aware tasks
     paper does; the device needs a budget, "auto" also the flow's max_in_flight. */
  const char* constraint;
  const char* learned; /* what iow_flow_learned() said in an earlier run, to begin there; NULL */
  uint32_t reserved[4];
} iow_flow_options;

/*
 * Creates a flow. Returns its id; flow 0 exists: foreground, unconstrained, on device 0. Limits and
 * errors as of iow_device_create(); an unknown device is out of range.
 */
IOW_API int iow_flow_create(iow_service* service, const char* name, const iow_flow_options* options,
                            char** error_text) IOW_NOEXCEPT;

/*
 * Gives, as JSON to be freed with free(3), why the flow's constraint is what it is: what it
 * learned, when (in nanoseconds since the service was opened), and from what. 0; -EINVAL for an
 * unknown flow, -ENOMEM, -ECANCELED in a forked child.
 */
IOW_API int iow_flow_explain(iow_service* service, uint32_t flow, char** json) IOW_NOEXCEPT;

/*
 * Gives, to be freed with free(3), what "climb" or "auto" has learned, for iow_flow_options.learned
 * of a later run; empty while it knows nothing. Flows with "climb" of one device share it. Errors
 * as of iow_flow_explain().
 */
IOW_API int iow_flow_learned(iow_service* service, uint32_t flow, char** text) IOW_NOEXCEPT;

/*
 * Tells what the device moved in the last `seconds`, whoever moved it: for a device with
 * `is_measured`, about once a second while iow_device_needs_samples() is 1 (operations with "climb"
 * wait or run there). 0; -EINVAL for an unknown device, a rate below 0, or seconds that are not
 * above 0; -ECANCELED in a forked child.
 */
IOW_API int iow_device_sample(iow_service* service, uint32_t device, double bytes_per_second,
                              double seconds) IOW_NOEXCEPT;
/* 1 or 0; errors as of iow_device_sample(). */
IOW_API int iow_device_needs_samples(iow_service* service, uint32_t device) IOW_NOEXCEPT;

/* ---- I/O that others do ---- */

/*
 * Operations that another library carries out (HDF5, MPI-IO, a database) take their turn on a flow
 * as requests do: ask, let the library do it, say that it has ended.
 *
 *   int64_t operation = iow_admit(service, flow, bytes);
 *   herr_t status = H5Dwrite(...);
 *   iow_finish(service, operation, status < 0 ? -EIO : (int64_t)bytes);
 *
 * Who asks again before his first operation has ended may wait for himself.
 */

/*
 * Waits until an operation of `bytes` may start, and returns its number, above 0. Pauses the task
 * in a task that can be paused (ioweave/tasks.h). Errors: -EINVAL for an unknown flow, -ENOMEM,
 * -ECANCELED in a forked child and while the service closes; -EAGAIN where it would have to wait in
 * a task that can neither be paused nor let others run: on oneTBB where too many are paused, or
 * between iow_task_begin() and iow_task_end().
 */
IOW_API int64_t iow_admit(iow_service* service, uint32_t flow, uint64_t bytes) IOW_NOEXCEPT;

typedef void (*iow_admitted)(int64_t operation, void* user);

/*
 * Returns the number at once. `admitted` runs once, when the operation may start: inside this call,
 * or on the thread that makes room. It must neither block nor throw; of this service it may call
 * iow_finish() and nothing else. Errors as above but for -EAGAIN, and -EINVAL where `admitted` is
 * NULL.
 */
IOW_API int64_t iow_admit_async(iow_service* service, uint32_t flow, uint64_t bytes,
                                iow_admitted admitted, void* user) IOW_NOEXCEPT;

/*
 * The operation has ended: `result` is the bytes it moved, or -errno. 0; -ENOENT for a number that
 * is none of an operation under way, -EBUSY for one that is not admitted yet, -ECANCELED in a
 * forked child.
 */
IOW_API int iow_finish(iow_service* service, int64_t operation, int64_t result) IOW_NOEXCEPT;

/*
 * Gives an operation up that waits: 0, and `admitted` does not run. -EALREADY where it has ended,
 * is admitted, or is just about to be: `admitted` runs then, and iow_finish() is owed. -ECANCELED
 * in a forked child. iow_service_close() forgets operations that wait or have not been finished.
 */
IOW_API int iow_withdraw(iow_service* service, int64_t operation) IOW_NOEXCEPT;

/* ---- Statistics ---- */

/*
 * Of requests, not of blocking calls, which add to read_bytes and written_bytes only; those that
 * paused a task are requests, and so are transfers bound to one. What a forked child submits is
 * counted nowhere, what iow_try() did in the bytes only.
 */
typedef struct iow_stats {
  uint32_t size;      /* set to sizeof(iow_stats) before the call; what was filled after it */
  uint32_t lanes;     /* queues in existence: one per thread that submitted (that of a thread
                         that ended serves the next one), and two of the service's at most */
  uint64_t submitted; /* requests taken */
  uint64_t completed; /* of these, ended; submitted - completed are in flight or waiting */
  uint64_t failed;    /* of these, with -errno other than -ECANCELED */
  uint64_t cancelled; /* of these, with -ECANCELED */
  uint64_t read_bytes;
  uint64_t written_bytes;
  uint64_t prefetched_bytes;
  uint64_t continued; /* short transfers continued */
  uint64_t reissued;  /* operations repeated after -EINTR, -EAGAIN or a stray -ECANCELED */
  uint64_t held;      /* requests the policy made wait */
  uint64_t fallbacks; /* operations the engine could not do that worker threads did */
} iow_stats;

/*
 * A snapshot; counters of different threads are read one after the other, not at one instant. Fills
 * as much as stats->size says. 0, or -EINVAL where `stats` is NULL or its size below
 * sizeof(uint32_t).
 */
IOW_API int iow_service_stats(iow_service* service, iow_stats* stats) IOW_NOEXCEPT;

/* Of a flow: operations that wait and run, admitted ones included. */
typedef struct iow_flow_stats {
  uint32_t size;  /* set to sizeof(iow_flow_stats) before the call; what was filled after it */
  uint32_t limit; /* operations at once that the constraint allows now; 0: any number */
  uint64_t waiting;
  uint64_t running;
} iow_flow_stats;

/* 0; -EINVAL for an unknown flow or a size that cannot be; -ECANCELED in a forked child. */
IOW_API int iow_service_flow_stats(iow_service* service, uint32_t flow,
                                   iow_flow_stats* stats) IOW_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* IOWEAVE_IOWEAVE_H */
