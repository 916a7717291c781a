/*
 * ALPI, the tasking interface of nOS-V, Nanos6 and NODES, as far as Ioweave's tests need it. The
 * declarations are written from the published names and semantics, not copied from a runtime's
 * header (those are under the GPL). Every function but alpi_error_string() returns ALPI_SUCCESS or
 * one of the errors below.
 */
#ifndef IOWEAVE_TESTS_ALPI_H
#define IOWEAVE_TESTS_ALPI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Handles. They are compared and passed on, never dereferenced: those of the test provider are no
   addresses. */
struct alpi_task;
struct alpi_attr;

enum {
  ALPI_SUCCESS = 0,
  ALPI_ERR_VERSION = 1,
  ALPI_ERR_NOT_INITIALIZED = 2,
  ALPI_ERR_PARAMETER = 3,
  ALPI_ERR_OUT_OF_MEMORY = 4,
  ALPI_ERR_OUTSIDE_TASK = 5,
  ALPI_ERR_UNKNOWN = 6,
  ALPI_ERR_FEATURE_UNKNOWN = 7 /* since 1.2 */
};

/* ---- 1.0 ---- */

const char* alpi_error_string(int error);
int alpi_version_check(int major, int minor);
int alpi_version_get(int* major, int* minor);

/* NULL outside a task. */
int alpi_task_self(struct alpi_task** task);

/* The calling task only. Returns at once if the matching unblock came before. */
int alpi_task_block(struct alpi_task* task);
/* Any thread; at most one may precede the block that it matches. */
int alpi_task_unblock(struct alpi_task* task);
/* 0 looks whether another task is to run first. `actual_ns` may be NULL. */
int alpi_task_waitfor_ns(uint64_t target_ns, uint64_t* actual_ns);

/* The task completes when its body has ended and its events are back at zero. */
int alpi_task_events_increase(struct alpi_task* task, uint64_t increment);
int alpi_task_events_decrease(struct alpi_task* task, uint64_t decrement);

int alpi_attr_create(struct alpi_attr** attributes);
int alpi_attr_destroy(struct alpi_attr* attributes);
int alpi_attr_init(struct alpi_attr* attributes);
int alpi_attr_size(uint64_t* bytes);

/* `completion` must not be NULL; it runs once, when the task completes. */
int alpi_task_spawn(void (*body)(void*), void* args, void (*completion)(void*),
                    void* completion_args, const char* label, const struct alpi_attr* attributes);

int alpi_cpu_count(uint64_t* count);
int alpi_cpu_logical_id(uint64_t* id);
int alpi_cpu_system_id(uint64_t* id);

/* ---- 1.1 ---- */

enum {
  ALPI_SUSPEND_NONE = 0,           /* until an unblock */
  ALPI_SUSPEND_SUBMIT = 1,         /* at once; behind all that is ready */
  ALPI_SUSPEND_TIMEOUT_SUBMIT = 2, /* after `args` nanoseconds */
  ALPI_SUSPEND_EVENT_SUBMIT = 3    /* when the task's events are at zero */
};

/* A hint: right when it says 0. */
int alpi_task_events_test(struct alpi_task* task, uint64_t* has_events);
int alpi_task_suspend_mode_set(struct alpi_task* task, int mode, uint64_t args);
/* When the body returns, the task does not complete: its body runs again, when the mode says. */
int alpi_task_suspend(struct alpi_task* task);

/* ---- 1.2 ---- */

enum { ALPI_INFO_NAME = 0, ALPI_INFO_VENDOR = 1, ALPI_INFO_VERSION = 2 };
enum {
  ALPI_FEATURE_BLOCKING = 1,
  ALPI_FEATURE_EVENTS = 2,
  ALPI_FEATURE_RESOURCES = 4,
  ALPI_FEATURE_SUSPEND = 8
};

/* What does not fit is cut off; `length`, which may be NULL, receives what was written, without the
   zero byte at the end. */
int alpi_info_get(int query, char* buffer, size_t max_bytes, int* length);
/* ALPI_SUCCESS if all features of the mask are there. */
int alpi_feature_check(int mask);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* IOWEAVE_TESTS_ALPI_H */
