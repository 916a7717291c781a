/*
 * Ioweave: storage I/O woven through computation. The C interface.
 *
 * How it works. A *service* moves bytes; open one per process and share it between threads. A
 * *request* describes one transfer. Its memory is yours (stack, struct member, array); the library
 * allocates nothing per request. You may
 *
 *   - call iow_pread() and its like: the plain system call, with interruptions and short transfers
 *     handled;
 *   - submit requests and collect them with iow_wait(), iow_test() or iow_poll();
 *   - submit requests with a callback that runs on the service's own thread, or on yours.
 *
 * A request belongs to a *flow*, a named series of similar operations with a priority class and a
 * bandwidth constraint on a *device*. Requests without a flow are foreground and unconstrained, and
 * take the fast path: from the calling thread straight to a ring of its own.
 *
 * Conventions, for every function unless it says otherwise:
 *   - Result: >= 0, or a negated errno (-EINVAL, ...). errno itself is not touched.
 *   - Sizes and offsets are bytes, times are nanoseconds, bandwidth is MB/s (10^6 bytes).
 *   - A timeout below 0 waits for ever.
 *   - Structs of options grow at their end. `size` says how many bytes of the struct the caller
 *     knows; 0 means all of this header's struct. The library takes fields beyond a shorter struct
 *     as zero, and ignores what a longer one has beyond its own. A size of 1..3 is -EINVAL.
 *   - Thread safety: any thread may make any call at any time, but iow_service_close() is the last
 *     call on a service.
 *   - Ownership: a buffer and a request belong to the library from submission to completion.
 *   - fork(2): the child must not wait for what the parent submitted; such waits return -ECANCELED.
 *     On a service that the child inherited, submissions are carried out at once by plain system
 *     calls, and calls that create devices, flows or registrations return -ECANCELED. For
 *     asynchronous I/O the child opens a service of its own. The parent is unaffected.
 *   - Threads that end: the library completes what a thread submitted before the thread's exit
 *     finishes.
 *   - Signals: iow_wait*() and iow_poll() go on after a handler has run. In a thread with
 *     asynchronous requests in flight, epoll_wait(2) and similar calls may return EINTR although
 *     the program got no signal. The kernel posts completions that way.
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

/* Returns the version of the library in use, which may differ from this header's: "0.1.0". */
IOW_API const char* iow_version_string(void) IOW_NOEXCEPT;

/* ---- Service ---- */

typedef struct iow_service iow_service;

typedef enum iow_engine {
  IOW_ENGINE_AUTO = 0, /* the best one that works here */
  IOW_ENGINE_URING = 1,
  IOW_ENGINE_AIO = 2, /* Linux native AIO for O_DIRECT descriptors; worker threads do the others */
  IOW_ENGINE_THREADS = 3
} iow_engine;

typedef enum iow_engine_mode {
  IOW_MODE_PLAIN = 0,
  IOW_MODE_SQPOLL = 1, /* io_uring with a kernel thread that polls for submissions */
  /* io_uring polls the device for completions. This serves O_DIRECT transfers on devices with
     polling queues; worker threads do all others. Once the service meets a device without such
     queues, worker threads do all of its transfers from then on. */
  IOW_MODE_IOPOLL = 2
} iow_engine_mode;

/* The task runtime whose tasks iow_pread() and its like pause; ioweave/tasks.h explains. */
typedef enum iow_tasks {
  IOW_TASKS_AUTO = 0, /* ALPI if the process has such a runtime, otherwise none */
  IOW_TASKS_NONE = 1,
  IOW_TASKS_ALPI = 2, /* OmpSs-2 (Nanos6, NODES), nOS-V */
  IOW_TASKS_TBB = 3   /* oneTBB: a paused task may continue on another thread */
} iow_tasks;

/* Who collects the completions that tasks wait for. Where the runtime cannot run a task for that,
   the thread does it. */
typedef enum iow_task_reaper {
  IOW_REAPER_AUTO = 0,   /* a thread */
  IOW_REAPER_THREAD = 1, /* the service's thread, asleep in the kernel */
  IOW_REAPER_TASK = 2    /* a task of the runtime that polls now and then; ALPI only */
} iow_task_reaper;

/* Zero means "the default" in every field, so a zeroed struct is valid. */
typedef struct iow_options {
  uint32_t size; /* sizeof(iow_options), or 0 */
  iow_engine engine;
  iow_engine_mode mode;
  int required;         /* nonzero: opening fails where the service would fall back to another
                           engine or mode, or lacks the task runtime that `tasks` names.
                           IOW_ENGINE_AUTO then means IOW_ENGINE_URING */
  uint32_t queue_depth; /* most requests in flight in each thread's queue: 1..4096, default 256.
                           The queues of the service's own threads have no limit */
  uint32_t threads;     /* most worker threads of the threads engine: 1..256, default 4 */
  iow_tasks tasks;
  iow_task_reaper task_reaper;
  /* Most tasks paused at once: up to 1000000; 0: as many as the machine's memory and its limits on
     threads have room for. Each paused task holds a stack, on nOS-V a thread. Beyond the limit a
     task makes the plain call. oneTBB can hold 2048; a larger number counts as 2048. */
  uint32_t max_paused;
  /* Of IOW_REAPER_TASK: the shortest and the longest time between two polls, in microseconds:
     1..1000000, min <= max, default 20 and 1000. The task polls more often while it finds
     completions, and does not poll while nothing is in flight. */
  uint32_t poll_min_us;
  uint32_t poll_max_us;
  uint32_t reserved[3];
  /* A function that gets each line of the event log of the service's policy: what became ready,
     started and ended, and what was decided; NULL: none. It runs under a lock, on any thread: it
     must neither block nor call this library. The line has `bytes` bytes and no newline. */
  void (*log)(const char* line, size_t bytes, void* user);
  void* log_user;
  /* Processors for the service's own threads and the kernel's workers of their queues, as the
     kernel writes lists: "2,4-7"; NULL: any. So I/O stays away from threads that compute, which
     the program binds to the other processors. It makes sense only where processors are to spare:
     beside computation on all of them, I/O would wait for its turn. What a thread of the program
     does itself (iow_pread(), iow_wait()) runs where that thread is. */
  const char* io_processors;
} iow_options;

/*
 * Opens a service. `options` may be NULL. If the wanted engine is not allowed or not available
 * (io_uring disabled, seccomp, limits), the service uses the next one, unless `required` is set;
 * iow_service_engine() says which and why. Errors: -EINVAL (`service` is NULL, or an option is out
 * of range; *error_text names it), -EMFILE (256 services are open in this process), -ENOMEM, and
 * with `required` the engine's own error. *service is NULL after an error. If `error_text` is not
 * NULL, *error_text is NULL or a sentence to be freed with free(3).
 */
IOW_API int iow_service_open(iow_service** service, const iow_options* options,
                             char** error_text) IOW_NOEXCEPT;

/*
 * Completes everything in flight or waiting (callbacks included), then frees the service. No other
 * call on it may be running or follow. NULL is allowed.
 */
IOW_API void iow_service_close(iow_service* service) IOW_NOEXCEPT;

/*
 * Returns the engine in use: "io_uring", "io_uring+sqpoll", "io_uring+iopoll", "aio" or "threads".
 * If `why` is not NULL, *why is a sentence on the engines passed over and who can change that, or
 * "". Both strings live as long as the service.
 */
IOW_API const char* iow_service_engine(const iow_service* service, const char** why) IOW_NOEXCEPT;

/* ---- Blocking calls ---- */

/*
 * These calls do what pread(2), pwrite(2), preadv(2), pwritev(2), fsync(2) and fdatasync(2) do, on
 * the calling thread. They repeat interrupted calls and continue short transfers, also above 2 GiB.
 * A result of fewer bytes than asked means end of file, or for a write that an error stopped it;
 * the next call will report the error. Errors: those of the system call, negated; -EINVAL for an
 * offset below 0, for a number of vectors outside 0..IOV_MAX, for vectors that are NULL, and for
 * bytes or their sum above SSIZE_MAX. No call of this library is a cancellation point
 * (pthread_cancel(3)).
 *
 * Inside a task of the service's task runtime (iow_options.tasks) they pause the task while the
 * device works; see ioweave/tasks.h.
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
  IOW_OP_PREFETCH = 7, /* bytes, offset: reads them into the page cache, then completes */
  /* bytes (0: to the end of the file), offset: begins to write to the device what the page cache
     holds of them and the device does not; completes with 0 when that has begun. It makes nothing
     durable, but a later fsync has less to do */
  IOW_OP_WRITE_BACK = 8
} iow_op;

enum {
  /* The library may hold the submission until this thread next submits without this flag, waits,
     tests or polls. A batch so becomes one system call. */
  IOW_MORE = 1u << 0,
  /* iow_submit() does not sleep while the queue is full; it returns how many it took so far. */
  IOW_NOWAIT = 1u << 1,
  /* The callback runs on the submitting thread, inside iow_poll() or iow_wait*(), instead of on the
     service's thread. */
  IOW_CALLBACK_ON_POLL = 1u << 2,
  /* One system call: the library neither continues short transfers nor repeats after -EINTR or
     -EAGAIN. */
  IOW_EXACT = 1u << 3,
  /* A kernel thread makes the transfer from the beginning. io_uring would first try it without one,
     which is in vain, and costs processor time, for large reads of what is not in the page cache on
     file systems that cannot read without blocking, such as FUSE's. Other engines ignore it. */
  IOW_ASYNC = 1u << 4
};

typedef struct iow_request iow_request;

/*
 * A callback. It runs once, when the request has completed and `result` is set. It may resubmit the
 * request or reuse its memory. It must not block for long nor throw. In a forked child, and where
 * the limit on processes allows no thread at all, it runs inside the call that carries the request
 * out: iow_submit(), or the call that ends what held the request back. It also runs inside
 * iow_submit() if a request of a flow that may have to wait finds no memory: its result is -ENOMEM.
 */
typedef void (*iow_callback)(iow_request* request, void* user);

/* One transfer, 192 bytes. Zero it, fill in the fields up to `user`, leave the rest alone. */
struct iow_request {
  uint8_t op;            /* iow_op */
  uint8_t flags;         /* IOW_* */
  uint16_t fixed_buffer; /* from iow_register_buffer(), or 0 */
  uint16_t fixed_file;   /* from iow_register_file(), or 0; fd must be set, too */
  uint16_t reserved;
  int32_t fd;
  uint32_t flow; /* from iow_flow_create(), or 0: foreground, unconstrained */
  void* buffer;
  uint64_t bytes;
  int64_t offset; /* >= 0, or -1: the descriptor's own position (implies IOW_EXACT); for pipes and
                     sockets the stream itself, as io_uring does. If such a transfer moves some
                     bytes and then fails, Linux may leave the position unchanged */
  iow_callback callback; /* NULL: collect it with iow_wait(), iow_test() or iow_poll() */
  void* user;
  int64_t result; /* once completed: bytes transferred, 0, or -errno */
  uint64_t internal[16];
};

/*
 * Submits `count` requests in the order of the array; they complete in any order. Returns how many
 * it took: all of them, or fewer with IOW_NOWAIT or where the next one is malformed. A call that
 * begins with a malformed request returns its error: -EINVAL for an unknown op, flag or flow, an
 * offset below -1 (of IOW_OP_PREFETCH and IOW_OP_WRITE_BACK: below 0), bytes above SSIZE_MAX, and
 * vectors that are more than IOV_MAX, NULL, or of more than SSIZE_MAX bytes together; -EBUSY for a
 * request still in flight. A count above INT_MAX is -EINVAL, too. Errors of the transfer itself,
 * -EBADF included, are the request's result. The call sleeps while the thread's queue is full; with
 * IOW_NOWAIT it returns -EAGAIN if it could take none. A count of 0 only hands over what IOW_MORE
 * held.
 */
IOW_API int iow_submit(iow_service* service, iow_request* const* requests,
                       unsigned count) IOW_NOEXCEPT;

/*
 * Carries a request out on the calling thread if it need not wait for a device: a read of what the
 * page cache holds, a write that the page cache takes. Returns 1 if it did: the request has
 * completed, and its callback does not run. Returns 0 if it did nothing: submit the request.
 * Always 0 for requests of a flow, for IOW_OP_FSYNC and its like, and in a forked child. Errors: as
 * iow_submit().
 */
IOW_API int iow_try(iow_service* service, iow_request* request) IOW_NOEXCEPT;

/*
 * Returns 1 if the request has completed; its result is then visible to this thread. Otherwise 0,
 * also for a request that was never submitted. Usually makes no system call.
 */
IOW_API int iow_test(iow_service* service, iow_request* request) IOW_NOEXCEPT;

/*
 * Waits for one request, whichever thread submitted it, at most timeout_ns (-1: for ever). Returns
 * 0 when the request has completed; -ETIME when the time is over; -EINVAL for a request that was
 * never submitted; -ECANCELED in a forked child. Not for requests with a callback: their callback
 * tells that they have completed.
 */
IOW_API int iow_wait(iow_service* service, iow_request* request, int64_t timeout_ns) IOW_NOEXCEPT;

/* Waits for all of the requests, at most timeout_ns in total. Returns 0, or the first error of
   iow_wait(). */
IOW_API int iow_wait_all(iow_service* service, iow_request* const* requests, unsigned count,
                         int64_t timeout_ns) IOW_NOEXCEPT;

/*
 * Makes progress on what this thread submitted: hands over what IOW_MORE held, collects completions
 * and runs the callbacks of IOW_CALLBACK_ON_POLL. Sleeps until `min` requests of this thread have
 * completed during the call, but at most timeout_ns (-1: for ever), and only while something is in
 * flight. Returns how many completed: 0 in a thread that submitted nothing, and in a forked child.
 */
IOW_API int iow_poll(iow_service* service, unsigned min, int64_t timeout_ns) IOW_NOEXCEPT;

/*
 * Asks to cancel a request. The request completes in any case; its result is -ECANCELED if the
 * cancelling succeeded and nothing was transferred. Returns 0 if the request was still waiting, or
 * if the kernel was asked to cancel it; -EALREADY if it is under way (the kernel usually cannot
 * cancel I/O on regular files), has completed or was never submitted, and in a forked child. Only
 * the request's result says what became of it.
 */
IOW_API int iow_cancel(iow_service* service, iow_request* request) IOW_NOEXCEPT;

/* ---- Registered buffers and files ---- */

/*
 * Registers memory (or a descriptor) once with every ring, so that the kernel need not look it up
 * for each operation. Returns an id (1..1023) for iow_request.fixed_buffer (fixed_file). The id is
 * valid until it is unregistered; unregister it only when no request in flight uses it. Registering
 * is an optimisation only: if the memory lock limit is too low, or the id is not that of the
 * request's own buffer (descriptor), the request goes the ordinary way. Errors of registering:
 * -ENOSPC when all ids are taken, -EINVAL for an empty range or NULL, -EBADF, -ENOMEM; of
 * unregistering: -ENOENT for an id that is not registered.
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
  IOW_SCHEDULE_NONE = 0,   /* all classes at once */
  IOW_SCHEDULE_STRICT = 1, /* a lower class starts only while no higher one runs or waits */
  /* The classes share the bytes started by their weights, among the requests that have to wait.
     Without a max_in_flight of the device, or a budget of it and constraints of its flows, no
     request waits for a turn and the weights have no effect. */
  IOW_SCHEDULE_WEIGHTED = 2
} iow_scheduling;

typedef struct iow_device_options {
  uint32_t size; /* sizeof(iow_device_options), or 0 */
  iow_scheduling scheduling;
  double budget_mb_per_s; /* the constraints of running requests add up to at most this: 1e-6..1e12;
                             0: no budget */
  uint32_t max_in_flight; /* requests at once; 0: no limit */
  uint32_t weights[3];    /* of IOW_FOREGROUND, _WRITE_BEHIND, _PREFETCH: 1..10000; 0: 16, 4, 1 */
  uint32_t begins_at;     /* operations at once with which "climb" begins; 0: one */
  uint32_t is_measured;   /* nonzero: "climb" uses iow_device_sample() instead of the bytes that
                             operations report */
  uint32_t reserved[6];
} iow_device_options;

/*
 * Creates a storage device and returns its id. Device 0 exists from the beginning, has no limits
 * and schedules strictly. A service has at most 256 devices and 4096 flows, device 0 and flow 0
 * included; they live as long as the service. `name` appears in texts; `name` and `options` may be
 * NULL. Errors: -EINVAL for an option out of range or one device too many, with a sentence in
 * *error_text (free(3)); -ENOMEM.
 */
IOW_API int iow_device_create(iow_service* service, const char* name,
                              const iow_device_options* options, char** error_text) IOW_NOEXCEPT;

typedef struct iow_flow_options {
  uint32_t size;   /* sizeof(iow_flow_options), or 0 */
  uint32_t device; /* from iow_device_create(), or 0 */
  iow_class priority;
  double constraint_mb_per_s; /* the part of the device's budget that each running request of the
                                 flow holds: 1e-6 up to the budget; 0: none. It has no effect on a
                                 device without a budget, such as device 0 */
  uint32_t max_in_flight;     /* requests of the flow at once; 0: no limit */
  uint32_t reserved_word;
  /* The constraint in words, instead of constraint_mb_per_s; NULL: none. "20" means the same as
     constraint_mb_per_s = 20. "climb" finds, while operations run, how many at once the device
     serves best, by the bytes that they report. "auto(MIN,MAX,DELTA)" and "auto" learn in epochs,
     as in the I/O-aware tasks paper; both need a budget of the device, and "auto" also needs the
     flow's max_in_flight. */
  const char* constraint;
  const char* learned; /* text of iow_flow_learned() from an earlier run, to begin there; or NULL */
  uint32_t reserved[4];
} iow_flow_options;

/*
 * Creates a flow and returns its id. Flow 0 exists from the beginning: foreground, unconstrained,
 * on device 0. Limits and errors: as iow_device_create(); an unknown device is out of range.
 */
IOW_API int iow_flow_create(iow_service* service, const char* name, const iow_flow_options* options,
                            char** error_text) IOW_NOEXCEPT;

/*
 * Sets *json to a JSON text that says why the flow's constraint is what it is: what it learned,
 * when (in nanoseconds since the service was opened), and from what. Free it with free(3). Returns
 * 0. Errors: -EINVAL for an unknown flow; -ENOMEM; -ECANCELED in a forked child.
 */
IOW_API int iow_flow_explain(iow_service* service, uint32_t flow, char** json) IOW_NOEXCEPT;

/*
 * Sets *text to what "climb" or "auto" has learned, for iow_flow_options.learned of a later run; it
 * is empty while nothing is known. Flows with "climb" of one device share it. Free it with free(3).
 * Returns 0. Errors: as iow_flow_explain().
 */
IOW_API int iow_flow_learned(iow_service* service, uint32_t flow, char** text) IOW_NOEXCEPT;

/*
 * Reports the throughput of a device with `is_measured` in the last `seconds`, whoever moved the
 * bytes. Call it about once a second while iow_device_needs_samples() returns 1. Returns 0. Errors:
 * -EINVAL for a device that is unknown or without `is_measured`, a rate below 0, or seconds that
 * are not above 0; -ECANCELED in a forked child.
 */
IOW_API int iow_device_sample(iow_service* service, uint32_t device, double bytes_per_second,
                              double seconds) IOW_NOEXCEPT;
/*
 * Returns 1 while operations with "climb" wait or run on the device, otherwise 0. Errors: as
 * iow_device_sample().
 */
IOW_API int iow_device_needs_samples(iow_service* service, uint32_t device) IOW_NOEXCEPT;

/* ---- I/O that others do ---- */

/*
 * Operations that another library carries out (HDF5, MPI-IO, a database) take their turn on a flow
 * as requests do: ask for admission, let the library do the I/O, report its end.
 *
 *   int64_t operation = iow_admit(service, flow, bytes);
 *   herr_t status = H5Dwrite(...);
 *   iow_finish(service, operation, status < 0 ? -EIO : (int64_t)bytes);
 *
 * A caller that asks for a second operation before it has finished the first may wait for ever: its
 * first operation may hold the place that the second one needs.
 */

/*
 * Waits until an operation of `bytes` may start, and returns its number, above 0. Inside a task
 * that can be paused (ioweave/tasks.h), it pauses the task. Errors: -EINVAL for an unknown flow;
 * -ENOMEM; -ECANCELED in a forked child and while the service closes; -EAGAIN if it had to wait in
 * a task that can neither be paused nor let others run, which is so on oneTBB where too many tasks
 * are paused, and between iow_task_begin() and iow_task_end().
 */
IOW_API int64_t iow_admit(iow_service* service, uint32_t flow, uint64_t bytes) IOW_NOEXCEPT;

typedef void (*iow_admitted)(int64_t operation, void* user);

/*
 * Asks for an operation of `bytes` and returns its number at once. `admitted` runs once, when the
 * operation may start: inside this call, or on the thread that makes room. It must neither block
 * nor throw, and may call nothing of this service but iow_finish(). Errors: as iow_admit() but for
 * -EAGAIN, and -EINVAL if `admitted` is NULL.
 */
IOW_API int64_t iow_admit_async(iow_service* service, uint32_t flow, uint64_t bytes,
                                iow_admitted admitted, void* user) IOW_NOEXCEPT;

/*
 * Reports that the operation has ended. `result` is the bytes it moved, or -errno. Returns 0;
 * -ENOENT if no operation under way has this number; -EBUSY if the operation is not admitted yet;
 * -ECANCELED in a forked child.
 */
IOW_API int iow_finish(iow_service* service, int64_t operation, int64_t result) IOW_NOEXCEPT;

/*
 * Withdraws an operation that waits. Returns 0, and `admitted` does not run. Returns -EALREADY if
 * the operation has ended, is admitted or is just about to be; in the last case `admitted` runs. An
 * admitted operation still needs iow_finish(). Returns -ECANCELED in a forked child.
 * iow_service_close() forgets operations that wait or have not been finished.
 */
IOW_API int iow_withdraw(iow_service* service, int64_t operation) IOW_NOEXCEPT;

/* ---- Statistics ---- */

/*
 * What requests did since the service was opened. Blocking calls that paused a task count as
 * requests, and so do transfers bound to a task. Other blocking calls, and iow_try(), add to the
 * bytes only. What a forked child submits is not counted.
 */
typedef struct iow_stats {
  uint32_t size;      /* before the call: sizeof(iow_stats); after it: the bytes filled in */
  uint32_t lanes;     /* queues that exist: one for each thread that submitted (the queue of a
                         thread that ended serves the next one), and at most two of the service */
  uint64_t submitted; /* requests taken */
  uint64_t completed; /* requests ended; submitted - completed are in flight or waiting */
  uint64_t failed;    /* completed ones with -errno other than -ECANCELED */
  uint64_t cancelled; /* completed ones with -ECANCELED */
  uint64_t read_bytes;
  uint64_t written_bytes;
  uint64_t prefetched_bytes;
  uint64_t continued; /* short transfers continued */
  uint64_t reissued;  /* operations repeated after -EINTR, -EAGAIN or a stray -ECANCELED */
  uint64_t held;      /* requests the policy made wait */
  uint64_t fallbacks; /* operations that worker threads did because the engine could not */
} iow_stats;

/*
 * Fills `stats` with as many bytes of a snapshot as stats->size says. The counters of different
 * threads are read one after the other, not at one instant. Returns 0, or -EINVAL if `stats` is
 * NULL or its size is below sizeof(uint32_t).
 */
IOW_API int iow_service_stats(iow_service* service, iow_stats* stats) IOW_NOEXCEPT;

/* The operations of a flow that wait and run, admitted ones included. */
typedef struct iow_flow_stats {
  uint32_t size;  /* before the call: sizeof(iow_flow_stats); after it: the bytes filled in */
  uint32_t limit; /* operations at once that the constraint allows now; 0: any number */
  uint64_t waiting;
  uint64_t running;
  uint64_t moved_bytes; /* by its operations that ended */
} iow_flow_stats;

/*
 * Fills *stats. Returns 0. Errors: -EINVAL for an unknown flow or an impossible size; -ECANCELED in
 * a forked child.
 */
IOW_API int iow_service_flow_stats(iow_service* service, uint32_t flow,
                                   iow_flow_stats* stats) IOW_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* IOWEAVE_IOWEAVE_H */
