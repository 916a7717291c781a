/* A library that others preload: it hears of each madvise(2), and makes it by syscall(2), as UCX
 * does under MPI. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

int madvise(void* address, size_t bytes, int advice) {
  return (int)syscall(SYS_madvise, address, bytes, advice);
}
