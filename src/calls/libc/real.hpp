#pragma once

// The calls behind our wrappers: the next definition of each symbol in the look-up order (usually
// the C library's), found once by the constructor with dlsym(RTLD_NEXT).
//
// Calls may come before that: constructors of other libraries run first in some link orders, and an
// allocator that dlsym itself starts may open files. These calls go to the kernel by syscall(2) if
// that is the same, since it needs no look-up, lock or memory. The few calls that are more than a
// system call are looked up at that moment.
//
// A function is not noexcept if that of the C library is a cancellation point, because cancelling a
// thread unwinds through our frames.

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <aio.h>
#include <fts.h>
#include <ftw.h>
#include <grp.h>
#include <mqueue.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <utime.h>
#include <wordexp.h>

#include "calls/libc/wrapped_calls.hpp"

namespace ioweave::calls::real {

static_assert(sizeof(off_t) == 8, "64-bit file offsets are assumed throughout");

struct Table {
#define IOWEAVE_FIELD(name, result, parameters, ...) result(*name) parameters;
  IOWEAVE_ALL_CALLS(IOWEAVE_FIELD, IOWEAVE_SKIP, IOWEAVE_SKIP)
#undef IOWEAVE_FIELD
};

/// Written by resolve() while the loader runs constructors, constant afterwards.
extern Table table;

/// Looks up the functions that both interposers export. The constructor calls it once.
void resolve() noexcept;
/// Looks up the rest, for the interposer that exports all.
void resolve_exposures() noexcept;

#define IOWEAVE_INLINE(name, result, parameters, arguments, ...)        \
  inline result name parameters {                                       \
    auto* next = table.name;                                            \
    if (next == nullptr) [[unlikely]] {                                 \
      __VA_OPT__(return (result)::syscall(__VA_ARGS__);)                \
      next = reinterpret_cast<decltype(next)>(dlsym(RTLD_NEXT, #name)); \
    }                                                                   \
    return next arguments;                                              \
  }
IOWEAVE_ALL_CALLS(IOWEAVE_INLINE, IOWEAVE_SKIP, IOWEAVE_SKIP)
#undef IOWEAVE_INLINE

}  // namespace ioweave::calls::real
