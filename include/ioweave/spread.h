/*
 * Ioweave: a write stream over several devices. The C interface.
 *
 * A spread writes items to several targets, usually one on each device, and a manifest that says
 * where each item lies. A read stream (ioweave/read_streams.h) reads them back in their order.
 *
 *   const char* targets[] = {"/disk1/results", "/disk2/results"};
 *   iow_spread* spread;
 *   iow_spread_create(stream, &spread, "results/run7.manifest", targets, 2, NULL, &text);
 *   for (int i = 0; i < n; ++i) {
 *     iow_lease lease;
 *     iow_lease_begin(stream, &lease, -1);
 *     uint64_t bytes = compute(i, lease.data, lease.bytes);
 *     iow_spread_append(&lease, spread, bytes, NULL);     returns at once
 *   }
 *   int error = iow_spread_end(spread, 1, &text);         waits until all of it is on the devices
 *
 * How it works. An item is what one lease holds, 0 to buffer_bytes bytes. Items are numbered from 0
 * in the order of the calls. Each target is a file, in which items begin at multiples of 4096
 * bytes, so that they can go past the page cache whatever their sizes are. All targets are written
 * at the same time; they share the buffers of the stream, so let it have at least two for each
 * target.
 *
 * The manifest. It gets its name at the end, when everything it lists is written, and with
 * `durable` on the devices. A program that is killed before leaves no manifest, only data files and
 * a file with ".part" behind the manifest's name. iow_spread_create() removes a manifest of that
 * name, since its data are overwritten: give each checkpoint a name of its own, and remove the old
 * one afterwards. Targets in the manifest's folder and below it are named relative to it, so that
 * the folder can be moved; others have absolute names.
 *
 * Errors. Each error of a write is returned exactly once, as streams.h says: by a later
 * iow_spread_append(), a flush or sync of all files of the stream, or by iow_spread_end(). What
 * happens to the items of a target that fails depends on options.on_failure:
 *   IOW_FAILURE_STOP: the items that were waiting for it are lost, and all later ones are refused.
 *     iow_spread_end() writes the manifest all the same: it lists all items that were written, on
 *     whichever target, and says which ones are lost.
 *   IOW_FAILURE_MOVE: the other targets go on. Items whose writes failed are written to one of
 *     them, so nothing is lost, and no error is returned, while there is a target left.
 *     iow_spread_get_stats() tells how many targets failed. A flush or sync of the stream does not
 *     wait for an item that moves meanwhile; iow_spread_end() does.
 *
 * Conventions: those of streams.h. Any thread may append at any time; iow_spread_end() or
 * iow_spread_abandon() is the last call. End a spread before its stream is closed.
 */
#ifndef IOWEAVE_SPREAD_H
#define IOWEAVE_SPREAD_H

#include "ioweave/streams.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iow_spread iow_spread;

typedef enum iow_placement {
  IOW_PLACE_ROUND_ROBIN = 0, /* the targets take turns */
  /* Each item goes to the target that is likely to have written it first: by the bytes that wait
     for it, and the rate at which it wrote so far. A slow device gets less. */
  IOW_PLACE_BY_LOAD = 1
} iow_placement;

typedef enum iow_target_failure { IOW_FAILURE_STOP = 0, IOW_FAILURE_MOVE = 1 } iow_target_failure;

/* Zero means "the default" in every field. */
typedef struct iow_spread_options {
  uint32_t size; /* sizeof(iow_spread_options), or 0 */
  iow_placement placement;
  iow_target_failure on_failure;
  uint32_t exclusive; /* nonzero: a manifest or a data file that exists is an error, -EEXIST */
  uint32_t mode;      /* permissions of new files, default 0666; less umask(2) */
  uint32_t reserved_word;
  uint64_t expected_bytes; /* of all items together: each target allocates its part at once, as
                              expected_bytes of streams.h */
  uint32_t reserved[8];
} iow_spread_options;

/*
 * Begins a spread over 1..1024 targets. A target that is a folder gets a file in it, called as the
 * manifest with the target's number behind it ("run7.manifest.0"); any other target is the path of
 * the file itself. `options` may be NULL. Errors: -EINVAL (an option, a path, or a number of
 * targets; two targets are the same file; *error_text says which), -EBUSY (another spread is
 * writing that manifest), -EEXIST, and those of iow_write_stream_create(). *spread is NULL then.
 */
IOW_API int iow_spread_create(iow_write_stream* stream, iow_spread** spread, const char* manifest,
                              const char* const* targets, unsigned count,
                              const iow_spread_options* options, char** error_text) IOW_NOEXCEPT;

/*
 * Hands the first `bytes` bytes of the buffer over, as the next item. `item`, which may be NULL,
 * gets its number. Returns 0 at once. The lease ends in any case: afterwards *lease is none.
 * Errors: -EINVAL (no lease, a lease of another stream, more bytes than it has), -EBADF (the stream
 * is closed, or all of its files were ended), -ENOMEM, the error of an earlier write, or -ECANCELED
 * if that was returned already. There is no such item then.
 */
IOW_API int iow_spread_append(iow_lease* lease, iow_spread* spread, uint64_t bytes,
                              uint64_t* item) IOW_NOEXCEPT;

/*
 * Copies bytes into a buffer, as the next item. Waits for the buffer as iow_lease_begin() with a
 * timeout of -1. Errors: also those of iow_lease_begin(), and -EINVAL for more bytes than a buffer
 * has.
 */
IOW_API int iow_spread_copy(iow_spread* spread, const void* data, uint64_t bytes,
                            uint64_t* item) IOW_NOEXCEPT;

/*
 * Waits until all items are written, makes them durable if `durable` is nonzero (files, their
 * names, and then the manifest), writes the manifest and frees the spread. Returns 0, or the first
 * error that was not returned yet, with a sentence on each of them in *error_text; -ECANCELED if
 * all were returned already, with a sentence on the first. There is no manifest if it cannot be
 * written itself, or if a target with items cannot be made durable, since then nobody knows which
 * of them are; nor after -EBADF, as in iow_spread_append().
 */
IOW_API int iow_spread_end(iow_spread* spread, int durable, char** error_text) IOW_NOEXCEPT;

/* Waits for writes under way, and frees the spread. There is no manifest. NULL is allowed. */
IOW_API void iow_spread_abandon(iow_spread* spread) IOW_NOEXCEPT;

typedef struct iow_spread_stats {
  uint32_t size; /* before the call: sizeof(iow_spread_stats); after it: the bytes filled in */
  uint32_t targets;
  uint32_t failed_targets;
  uint32_t reserved;
  uint64_t items;       /* appended */
  uint64_t bytes;       /* of these items */
  uint64_t moved_items; /* which a target failed to write, and another one took; each time counts */
  uint64_t lost_items;
} iow_spread_stats;

/* Fills *stats, as iow_service_stats() does. Returns 0 or -EINVAL. */
IOW_API int iow_spread_get_stats(iow_spread* spread, iow_spread_stats* stats) IOW_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* IOWEAVE_SPREAD_H */
