/*
 * Ioweave: read streams. The C interface.
 *
 * A read stream reads items in their order, and reads the next ones while the program works on this
 * one: those of a spread (ioweave/spread.h), from all its targets at the same time, or plain files,
 * block by block.
 *
 *   iow_read_stream* stream;
 *   iow_read_stream_open(service, &stream, "run7.manifest", NULL, &text);
 *   iow_read_lease lease;
 *   int found;
 *   while ((found = iow_read_stream_next(stream, &lease, -1)) == 1) {
 *     use(lease.data, lease.bytes);
 *     iow_read_lease_end(&lease);                         the next read begins in this buffer
 *   }
 *   if (found < 0) ...                                    iow_read_stream_explain() says why
 *   iow_read_stream_close(stream);
 *
 * How it works. The stream has a fixed number of buffers, and starts reading into all of them when
 * it is opened. iow_read_stream_next() *leases* the one that holds what comes next; the end of the
 * lease starts another read. So at most `budget_bytes` of memory are in use. An item that is larger
 * than a buffer comes in pieces, one lease each.
 *
 * Reads go past the page cache (O_DIRECT) where the file system allows that and the item begins at
 * a multiple of 4096 bytes, as those of a spread do.
 *
 * Errors. An error concerns one lease: iow_read_stream_next() returns it where the data would have
 * come, with the item in *lease but no data, and the next call goes on behind it. So what other
 * targets hold can be read although one of them is gone. Contents are not checked: a data file that
 * somebody changed without making it shorter is read as it is.
 *
 * Conventions: those of ioweave.h. Any thread may make any call at any time, each lease goes to one
 * caller, but iow_read_stream_close() is the last call on a stream. In a forked child all calls
 * return -ECANCELED. Inside a task that can be paused (ioweave/tasks.h) a call that waits pauses
 * the task.
 */
#ifndef IOWEAVE_READ_STREAMS_H
#define IOWEAVE_READ_STREAMS_H

#include "ioweave/streams.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iow_read_stream iow_read_stream;

/* Zero means "the default" in every field. */
typedef struct iow_read_stream_options {
  uint32_t size;       /* sizeof(iow_read_stream_options), or 0 */
  iow_write_path path; /* the same for reading; IOW_PATH_DIRECT refuses files at their first use */
  uint64_t buffer_bytes; /* most bytes of a lease: 4 KiB..16 GiB, whole pages. Default: the largest
                            item of a manifest, at most 512 MiB; of files 4 MiB */
  uint64_t budget_bytes; /* memory of all buffers; default: 8 buffers, but at most 1 GiB where two
                            fit. At least one buffer must fit */
  uint32_t flow;        /* of all transfers, from iow_flow_create(); 0: foreground, unconstrained */
  uint32_t small_pages; /* nonzero: memory in pages of the usual size, not in huge ones */
  uint32_t relative_only; /* nonzero: a manifest with absolute paths is refused, and what lies
                             behind a link out of its folder is the error -EXDEV of its items. Take
                             it for a manifest from somebody who should not choose what is read. It
                             needs Linux 5.6 */
  uint32_t reserved[9];
} iow_read_stream_options;

/*
 * Opens the manifest of a spread, checks all of it, and begins to read. `options` may be NULL. The
 * service must outlive the stream. Data files that cannot be opened are errors of their items.
 * Errors: -EINVAL (an option is out of range, or this is no complete manifest; *error_text says
 * what is wrong and where), those of open(2) and read(2), -ENOMEM, -ECANCELED in a forked child.
 * `error_text` is as in iow_service_open().
 */
IOW_API int iow_read_stream_open(iow_service* service, iow_read_stream** stream,
                                 const char* manifest, const iow_read_stream_options* options,
                                 char** error_text) IOW_NOEXCEPT;

/*
 * The same for 1..65536 plain files, each of which is an item, with the size that it has now.
 * Errors: also those of open(2) for each file, and -EINVAL for one that is not regular.
 */
IOW_API int iow_read_stream_open_files(iow_service* service, iow_read_stream** stream,
                                       const char* const* paths, unsigned count,
                                       const iow_read_stream_options* options,
                                       char** error_text) IOW_NOEXCEPT;

/* The right to use a buffer with what was read. It may be copied, but only one copy may be used.
   The memory may be changed. */
typedef struct iow_read_lease {
  void* data;          /* aligned to 4096 bytes; NULL: this is no lease */
  uint64_t bytes;      /* of them; 0 for an item without bytes */
  uint64_t item;       /* its number, from 0 */
  uint64_t offset;     /* within the item; not 0: a later piece of an item larger than a buffer */
  uint64_t item_bytes; /* of the whole item */
  void* internal[3];
} iow_read_lease;

/*
 * Leases what comes next. Waits at most timeout_ns for it (-1: for ever; inside a task also for any
 * other but 0). Returns 1, or 0 behind the last item. Errors: -ETIME; -EAGAIN if it had to wait in
 * a task that can neither be paused nor let others run; and the error of a read, as explained
 * above: those of read(2) and open(2), -ENODATA for an item that was lost when it was written, or
 * whose file is too short for all of it, -EINVAL if the manifest has been changed meanwhile.
 * lease->data is NULL unless it returns 1. A thread that waits while all buffers are leased waits
 * until one of these leases ends.
 */
IOW_API int iow_read_stream_next(iow_read_stream* stream, iow_read_lease* lease,
                                 int64_t timeout_ns) IOW_NOEXCEPT;

/* `result` and `lease` are those of iow_read_stream_next(). */
typedef void (*iow_read_done)(iow_read_lease lease, int result, void* user);

/*
 * As iow_read_stream_next(), but never waits: `done` runs once, when that is known: inside this
 * call, or inside whatever call or end of a read makes it known, on any thread. It must neither
 * block nor throw; it may make any of these calls but iow_read_stream_close(), which calls those
 * that still wait with -ECANCELED. Errors: -EINVAL if `done` is NULL, -ENOMEM; then it does not
 * run.
 */
IOW_API int iow_read_stream_next_async(iow_read_stream* stream, iow_read_done done,
                                       void* user) IOW_NOEXCEPT;

/* Gives the buffer back, and the next read begins. Does nothing if *lease is none; afterwards it is
   none. */
IOW_API void iow_read_lease_end(iow_read_lease* lease) IOW_NOEXCEPT;

/*
 * Sets *text to a sentence on an error that came with this lease: item, path, offset and what the
 * system says. Free it with free(3). Returns 0, -EINVAL if `text` is NULL, or -ENOMEM.
 */
IOW_API int iow_read_stream_explain(iow_read_stream* stream, const iow_read_lease* lease, int error,
                                    char** text) IOW_NOEXCEPT;

/*
 * Waits for reads under way, and frees the stream. Leases that are still out stay usable memory
 * until they end. NULL is allowed. Wait for all calls of iow_read_stream_next() first.
 */
IOW_API int iow_read_stream_close(iow_read_stream* stream) IOW_NOEXCEPT;

/* What a stream has to read, and did. Times are nanoseconds. */
typedef struct iow_read_stream_stats {
  uint32_t size;         /* before the call: sizeof(iow_read_stream_stats); after it: the bytes
                            filled in */
  uint32_t buffers;      /* how many there are */
  uint64_t buffer_bytes; /* of each */
  uint64_t items;        /* all there are, lost ones included */
  uint64_t lost_items;   /* that the manifest lists as lost */
  uint64_t bytes;        /* of all items that are not */
  uint64_t largest_item; /* in bytes */
  uint64_t reads;        /* buffers filled, or tried */
  uint64_t read_bytes;
  uint64_t direct_bytes; /* of these: past the page cache */
  uint64_t waits;        /* calls of iow_read_stream_next() that had to wait */
  uint64_t wait_ns;      /* how long, together */
  uint64_t read_ns;      /* sum over buffers, from the start of a read to its end */
  uint32_t most_reading; /* buffers being read into at once */
  uint32_t huge_pages;   /* nonzero: the kernel was asked for huge pages and did not refuse */
} iow_read_stream_stats;

/* Fills *stats, as iow_service_stats() does. Returns 0 or -EINVAL. */
IOW_API int iow_read_stream_get_stats(iow_read_stream* stream,
                                      iow_read_stream_stats* stats) IOW_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* IOWEAVE_READ_STREAMS_H */
