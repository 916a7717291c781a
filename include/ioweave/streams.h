/*
 * Ioweave: write streams. The C interface.
 *
 * A write stream writes results while the program computes the next ones.
 *
 *   iow_write_stream* stream;
 *   iow_write_stream_open(service, &stream, NULL, NULL);
 *   int file = iow_write_stream_create(stream, "result.bin", NULL, NULL);
 *   for (int i = 0; i < n; ++i) {
 *     iow_lease lease;
 *     iow_lease_begin(stream, &lease, -1);       waits only while all buffers are being written
 *     size_t bytes = compute(i, lease.data, lease.bytes);
 *     iow_lease_append(&lease, file, bytes);     returns at once
 *   }
 *   int error = iow_write_stream_close(stream, 1, &text);   waits until all of it is on the device
 *
 * How it works. The stream has a fixed number of buffers. A *lease* is the right to fill one of
 * them. Handing a lease to a file starts the write and gives the buffer back when it has ended, so
 * at most `budget_bytes` of memory are ever in use, and the program waits where the device is
 * slower than the computation. iow_write_stream_copy() fills buffers itself: it is for small
 * pieces, and for data that lies elsewhere.
 *
 * Writes go past the page cache (O_DIRECT) where the file system allows that, so that the kernel
 * spends no processor time on copying them; the stream takes care of alignment. Parts of pages, at
 * the beginning and at the end of what is written, go through the page cache. Where O_DIRECT is not
 * possible all bytes go through the page cache, and the stream asks the kernel to begin writing
 * them to the device at once.
 *
 * Durability. A write is in the hands of the kernel after iow_write_stream_flush(), and on the
 * device after iow_write_stream_sync(). Until then its bytes may exist in the process only: they
 * are lost if it is killed.
 *
 * Errors. When a write fails, its file fails: buffers that still wait for it are dropped, and what
 * is written later is refused with -ECANCELED. The error of the write is returned exactly once, by
 * the next call on the file, by iow_write_stream_flush(), iow_write_stream_sync(), or at the latest
 * by iow_write_stream_close(). Other files of the stream go on. The program is never ended.
 *
 * Order. Writes are carried out in any order. Two writes of overlapping ranges need a flush between
 * them.
 *
 * Conventions: those of ioweave.h. Any thread may make any call at any time, but
 * iow_write_stream_close() is the last call on a stream, and one lease belongs to one thread at a
 * time. In a forked child all calls return -ECANCELED. Inside a task that can be paused
 * (ioweave/tasks.h) a call that waits pauses the task.
 */
#ifndef IOWEAVE_STREAMS_H
#define IOWEAVE_STREAMS_H

#include "ioweave/ioweave.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iow_write_stream iow_write_stream;

/* What a lease does while all buffers are leased or being written. */
typedef enum iow_overflow {
  IOW_OVERFLOW_BLOCK = 0, /* it waits */
  IOW_OVERFLOW_FAIL = 1,  /* it returns -EAGAIN */
  /* It takes a buffer that is kept for this, whose write ends before the call that hands it over
     returns. So the program goes on as without Ioweave. It waits if that buffer is taken, too. */
  IOW_OVERFLOW_SYNCHRONOUS = 2
} iow_overflow;

typedef enum iow_write_path {
  IOW_PATH_AUTO = 0,    /* O_DIRECT where file system and permissions allow it */
  IOW_PATH_DIRECT = 1,  /* opening a file fails where it does not */
  IOW_PATH_BUFFERED = 2 /* through the page cache, written to the device as early as possible */
} iow_write_path;

/* Zero means "the default" in every field. */
typedef struct iow_write_stream_options {
  uint32_t size; /* sizeof(iow_write_stream_options), or 0 */
  iow_overflow overflow;
  uint64_t buffer_bytes; /* most bytes of a lease: 4 KiB..16 GiB, default 4 MiB; whole pages */
  uint64_t budget_bytes; /* memory of all buffers; default: 8 buffers. At least one buffer must fit;
                            IOW_OVERFLOW_SYNCHRONOUS needs two. With one buffer, computing and
                            writing take turns */
  uint32_t depth;        /* most buffers being written at once: default as many as there are */
  uint32_t flow; /* of all transfers, from iow_flow_create(); 0: foreground, unconstrained */
  iow_write_path path;
  uint32_t small_pages; /* nonzero: memory in pages of the usual size, not in huge ones */
  uint32_t reserved[8];
} iow_write_stream_options;

/*
 * Opens a stream. `options` may be NULL. The service must outlive the stream. Memory is reserved
 * here and first touched by whoever fills it. Errors: -EINVAL (an option is out of range;
 * *error_text names it), -ENOMEM, -ECANCELED in a forked child. `error_text` is as in
 * iow_service_open().
 */
IOW_API int iow_write_stream_open(iow_service* service, iow_write_stream** stream,
                                  const iow_write_stream_options* options,
                                  char** error_text) IOW_NOEXCEPT;

/* Zero means "the default" in every field. */
typedef struct iow_write_file_options {
  uint32_t size;           /* sizeof(iow_write_file_options), or 0 */
  uint32_t keep;           /* nonzero: a file that exists keeps its bytes; default: it is emptied */
  uint32_t exclusive;      /* nonzero: a file that exists is an error, -EEXIST */
  uint32_t mode;           /* permissions of a new file, default 0666; less umask(2) */
  uint64_t expected_bytes; /* the size to be expected: room is allocated at once, which makes
                              direct writes at the end of a file independent of each other, and
                              finds out now whether the device has room. When the file is ended,
                              what was not written is cut off */
  uint32_t reserved[8];
} iow_write_file_options;

/*
 * Creates a file, or empties one, and returns its number: 0 or more. `options` may be NULL. A file
 * that exists keeps its bytes where this fails. Errors: those of open(2) and fallocate(2); -EINVAL
 * if the path is neither a regular file nor a new one, or, with IOW_PATH_DIRECT, if the file system
 * does not allow O_DIRECT; -ENFILE: a stream has at most 65536 files at once; -ENOMEM. `error_text`
 * is as in iow_service_open().
 */
IOW_API int iow_write_stream_create(iow_write_stream* stream, const char* path,
                                    const iow_write_file_options* options,
                                    char** error_text) IOW_NOEXCEPT;

/* ---- Buffers of the stream ---- */

/* The right to fill a buffer. It may be copied, but only one copy may be used. */
typedef struct iow_lease {
  void* data;     /* aligned to 4096 bytes; NULL: this is no lease */
  uint64_t bytes; /* size of the buffer, options.buffer_bytes */
  void* internal[2];
} iow_lease;

/*
 * Takes a buffer. Waits at most timeout_ns while there is none (-1: for ever); with
 * IOW_OVERFLOW_FAIL it does not wait. Returns 0. Errors: -EAGAIN; -ETIME; -ECANCELED inside
 * iow_write_stream_close() and in a forked child; and -EAGAIN also if it had to wait in a task that
 * can neither be paused nor let others run. *lease is no lease after an error. A thread that waits
 * for a second lease before it has handed over its first one may wait for ever. Inside a task
 * timeout_ns is for ever unless it is 0.
 */
IOW_API int iow_lease_begin(iow_write_stream* stream, iow_lease* lease,
                            int64_t timeout_ns) IOW_NOEXCEPT;

typedef void (*iow_leased)(iow_lease lease, void* user);

/*
 * As iow_lease_begin(), but never waits: `leased` runs once, when there is a buffer: inside this
 * call, or inside whatever call or end of a write makes one free, on any thread. It must neither
 * block, throw nor fork; it may write and end leases. What it writes is written behind it even with
 * IOW_OVERFLOW_SYNCHRONOUS, as what the callback of a request writes on a thread of the service.
 * iow_write_stream_close() calls those that still wait, with a lease that is none. Errors: -EAGAIN
 * with IOW_OVERFLOW_FAIL, -EINVAL if `leased` is NULL, -ENOMEM, -ECANCELED inside
 * iow_write_stream_close(); then `leased` does not run.
 */
IOW_API int iow_lease_begin_async(iow_write_stream* stream, iow_leased leased,
                                  void* user) IOW_NOEXCEPT;

/*
 * Hands the first `bytes` bytes of the buffer over, to be written at `offset`, or behind everything
 * that was appended before. Returns 0 at once. The lease ends in any case: afterwards *lease is
 * none. Errors: -EINVAL (no lease, more bytes than it has, an offset below 0), -EFBIG (it would end
 * beyond the largest offset), -EBADF (no such file), the error of an earlier write to the file, or
 * -ECANCELED if that was reported already.
 */
IOW_API int iow_lease_write(iow_lease* lease, int file, uint64_t bytes,
                            int64_t offset) IOW_NOEXCEPT;
IOW_API int iow_lease_append(iow_lease* lease, int file, uint64_t bytes) IOW_NOEXCEPT;

/* Gives the buffer back; nothing is written. Does nothing if *lease is none. */
IOW_API void iow_lease_end(iow_lease* lease) IOW_NOEXCEPT;

/* ---- Bytes that lie elsewhere ---- */

/*
 * Copies bytes into buffers, to be written at `offset`, or, if that is -1, behind everything that
 * was appended before. Small pieces that follow each other in the file are gathered in one buffer,
 * which is written when it is full, when another write to the file follows that is not its
 * continuation, when a buffer is needed, or at the next flush. Waits where all buffers are in use.
 * With IOW_OVERFLOW_FAIL it may return -EAGAIN, or -ENOBUFS where the stream has fewer buffers than
 * the bytes need: then nothing of them was taken. Returns 0; other errors as iow_lease_write().
 */
IOW_API int iow_write_stream_copy(iow_write_stream* stream, int file, const void* data,
                                  uint64_t bytes, int64_t offset) IOW_NOEXCEPT;

/* ---- Ends ---- */

enum { IOW_ALL_FILES = -1 };

/*
 * flush: waits until what was written to the file before has ended. sync: flushes, then makes it
 * durable (fdatasync(2)); calls of several threads share one. end: flushes, cuts off what
 * `expected_bytes` allocated in vain, and closes the file; its number may be used again for another
 * file. `file` is IOW_ALL_FILES, or a file's number; sync of all files syncs them side by side.
 * Return 0, or the error of a write, as explained above; of several files that have failed that of
 * the first, and of the next one in the next call, which after end is iow_write_stream_close().
 * -EBADF: no such file. flush and sync also -EAGAIN if they had to wait in a task that can neither
 * be paused nor let others run. `error_text` is as in iow_write_stream_close().
 */
IOW_API int iow_write_stream_flush(iow_write_stream* stream, int file) IOW_NOEXCEPT;
IOW_API int iow_write_stream_sync(iow_write_stream* stream, int file) IOW_NOEXCEPT;
IOW_API int iow_write_stream_end(iow_write_stream* stream, int file, int durable,
                                 char** error_text) IOW_NOEXCEPT;

typedef void (*iow_reached)(int error, void* user);

/*
 * As flush and sync, but never wait: `reached` runs once, with what these would return: inside this
 * call, or where the last write or sync ends, on any thread. What it may do is as for
 * iow_lease_begin_async(). It may run after iow_write_stream_close() has returned, if that did not
 * sync. Errors: -EBADF, -EINVAL if `reached` is NULL, -ENOMEM; then `reached` does not run.
 */
IOW_API int iow_write_stream_flush_async(iow_write_stream* stream, int file, iow_reached reached,
                                         void* user) IOW_NOEXCEPT;
IOW_API int iow_write_stream_sync_async(iow_write_stream* stream, int file, iow_reached reached,
                                        void* user) IOW_NOEXCEPT;

/*
 * Ends all files, syncing them first if `durable` is nonzero, and frees the stream. Leases that are
 * still out stay usable memory until they end; they can no longer be written. Returns 0, or the
 * first error that was not reported yet; if all were: -ECANCELED. In both cases *error_text is a
 * sentence on that error, or on the first one, which names file and offset. NULL is allowed. Wait
 * for all calls of iow_lease_begin() first.
 */
IOW_API int iow_write_stream_close(iow_write_stream* stream, int durable,
                                   char** error_text) IOW_NOEXCEPT;

/*
 * Sets *text to a sentence on the first error of a file, whether it was reported or not: path,
 * offset and what the system says. `file` may be IOW_ALL_FILES: the first that failed. NULL if
 * there was none. Free it with free(3). Returns 0 or the negated errno of that error; -EBADF: no
 * such file.
 */
IOW_API int iow_write_stream_error(iow_write_stream* stream, int file, char** text) IOW_NOEXCEPT;

/* What a stream did since it was opened. Times are nanoseconds. */
typedef struct iow_write_stream_stats {
  uint32_t size;          /* before the call: sizeof(iow_write_stream_stats); after it: the bytes
                             filled in */
  uint32_t buffers;       /* how many there are */
  uint64_t writes;        /* buffers handed over */
  uint64_t written_bytes; /* of writes that have ended well */
  uint64_t direct_bytes;  /* of these: past the page cache */
  uint64_t dropped_bytes; /* of writes that failed, or were refused because their file had failed */
  uint64_t lease_waits;   /* leases and copies that had to wait */
  uint64_t lease_wait_ns; /* how long, together */
  uint64_t return_ns;     /* time inside the calls above, waiting included, without durable_ns */
  uint64_t durable_ns;    /* time inside sync, and inside end with `durable` */
  uint64_t write_ns;      /* sum over buffers, from their start to their end */
  uint64_t syncs;         /* fdatasync(2) calls made; fewer than asked for where calls shared one */
  uint32_t most_in_use;   /* buffers leased or being written at once */
  uint32_t huge_pages;    /* nonzero: the kernel was asked for huge pages and did not refuse */
} iow_write_stream_stats;

/* Fills *stats, as iow_service_stats() does. Returns 0 or -EINVAL. */
IOW_API int iow_write_stream_get_stats(iow_write_stream* stream,
                                       iow_write_stream_stats* stats) IOW_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* IOWEAVE_STREAMS_H */
