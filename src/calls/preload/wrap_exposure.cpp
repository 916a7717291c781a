// Calls that could tell that writes were held back (write_behind.hpp), of
// libioweave_preload_behind.so alone. Where nothing is held, each is a load and a jump more than
// the real call.

#include <cstdarg>
#include <cstdio>

#include "calls/libc/real.hpp"
#include "calls/libc/wrap.hpp"
#include "calls/preload/write_behind.hpp"

namespace ioweave::calls {

extern "C" const bool ioweave_has_exposures = true;

__attribute__((constructor(101))) static void resolve_exposures() noexcept {
  real::resolve_exposures();
}

#define IOWEAVE_EXPOSURE(name, result, parameters, arguments, ...) \
  IOWEAVE_WRAP(result, name, parameters) {                         \
    come_after_writes();                                           \
    return real::name arguments;                                   \
  }
IOWEAVE_EXPOSURES(IOWEAVE_EXPOSURE, IOWEAVE_ALIAS, IOWEAVE_SKIP)

#define IOWEAVE_CREDENTIAL(name, result, parameters, arguments, ...) \
  IOWEAVE_WRAP(result, name, parameters) {                           \
    stop_holding_writes();                                           \
    return real::name arguments;                                     \
  }
IOWEAVE_CREDENTIALS(IOWEAVE_CREDENTIAL, IOWEAVE_SKIP, IOWEAVE_SKIP)

// ---- What the C library does by itself ----------------------------------------------------------

namespace {

/// Of a stream that was opened.
FILE* announce_stream(FILE* stream) noexcept {
  if (stream != nullptr) {
    write_behind.keep_plain(fileno(stream));
  }
  return stream;
}

void announce_request(const aiocb* request) noexcept {
  if (write_behind.is_wanted() && request != nullptr) {
    write_behind.keep_plain(request->aio_fildes);
  }
}

}  // namespace

IOWEAVE_WRAP(FILE*, fopen, (const char* path, const char* mode)) {
  come_after_writes();
  return announce_stream(real::fopen(path, mode));
}
IOWEAVE_WRAP(FILE*, freopen, (const char* path, const char* mode, FILE* stream)) {
  come_after_writes();
  return announce_stream(real::freopen(path, mode, stream));
}

IOWEAVE_WRAP(int, aio_read, (aiocb * request)) {
  announce_request(request);
  return real::aio_read(request);
}
IOWEAVE_WRAP(int, aio_write, (aiocb * request)) {
  announce_request(request);
  return real::aio_write(request);
}
IOWEAVE_WRAP(int, lio_listio, (int mode, aiocb* const* requests, int count, sigevent* event)) {
  for (int i = 0; write_behind.is_wanted() && i < count; ++i) {
    announce_request(requests[i]);
  }
  return real::lio_listio(mode, requests, count, event);
}

IOWEAVE_WRAP(int, dprintf, (int fd, const char* format, ...)) {
  come_after_writes();
  va_list arguments;
  va_start(arguments, format);
  const int result = real::vdprintf(fd, format, arguments);
  va_end(arguments);
  return result;
}
IOWEAVE_WRAP(int, __dprintf_chk, (int fd, int flag, const char* format, ...)) {
  come_after_writes();
  va_list arguments;
  va_start(arguments, format);
  const int result = real::__vdprintf_chk(fd, flag, format, arguments);
  va_end(arguments);
  return result;
}

IOWEAVE_WRAP(int, flock, (int fd, int operation)) {
  come_after_writes();
  uses_file_locks.store(true, std::memory_order_relaxed);
  return real::flock(fd, operation);
}
IOWEAVE_WRAP(int, lockf, (int fd, int command, off_t bytes)) {
  come_after_writes();
  uses_file_locks.store(true, std::memory_order_relaxed);
  return real::lockf(fd, command, bytes);
}

// ---- One thread ---------------------------------------------------------------------------------

IOWEAVE_WRAP(int, unshare, (int flags)) {
  if ((flags & CLONE_FILES) != 0) {
    stop_holding_writes();
  } else if (write_behind.is_wanted()) {
    call_uncancelled([] { write_behind.end_threads(); });
  }
  return real::unshare(flags);
}
IOWEAVE_WRAP(int, setns, (int fd, int type)) {
  if (write_behind.is_wanted()) {
    call_uncancelled([] { write_behind.end_threads(); });
  }
  return real::setns(fd, type);
}
// ---- Memory of several processes ----------------------------------------------------------------

IOWEAVE_WRAP(void*, shmat, (int id, const void* address, int flags)) {
  share_memory();
  return real::shmat(id, address, flags);
}
IOWEAVE_VARIANTS(IOWEAVE_HANDOVERS)

}  // namespace ioweave::calls
