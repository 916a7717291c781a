// told_calls FILE CALL: writes a little into the file, makes a call that may tell others something,
// and says whether the bytes were in the file before the call and after it. It looks by its own
// instructions, which nobody comes in between.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <netinet/in.h>
#include <semaphore.h>

#include "engine/raw_syscall.hpp"

namespace {

bool holds(int fd, off_t at) {
  char byte = 0;
  return ioweave::engine::raw_syscall(SYS_pread64, fd, &byte, 1L, at) == 1 && byte == 'x';
}

/// What the calls are made on.
struct Others {
  int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  int semaphores = semget(IPC_PRIVATE, 1, 0600);
  sem_t semaphore{};

  Others() { sem_init(&semaphore, 0, 0); }
  ~Others() { semctl(semaphores, 0, IPC_RMID); }
  Others(const Others&) = delete;
  Others& operator=(const Others&) = delete;
};

/// Whether it did what it should.
bool make(const char* call, Others& on) {
  const auto is = [call](const char* name) { return std::strcmp(call, name) == 0; };
  if (is("bind")) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return bind(on.socket, reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0 &&
           here.sin_family == AF_INET;
  }
  if (is("listen")) return listen(on.socket, 1) == 0;
  if (is("process_vm_writev")) {
    char from[] = "told";
    char to[sizeof from] = "";
    const iovec source{from, sizeof from};
    const iovec target{to, sizeof to};
    return process_vm_writev(getpid(), &source, 1, &target, 1, 0) == sizeof from &&
           std::strcmp(to, from) == 0;
  }
  if (is("sem_open")) {
    char name[40];
    std::snprintf(name, sizeof name, "/ioweave-test-%d", getpid());
    sem_t* const opened = sem_open(name, O_CREAT | O_EXCL, 0600, 3U);
    int value = 0;
    const bool is_right =
        opened != SEM_FAILED && sem_getvalue(opened, &value) == 0 && value == 3;  // NOLINT
    sem_unlink(name);
    return is_right;
  }
  if (is("semctl")) {
    // The last argument is a union, which the program declares.
    const union {
      int value;
      void* pointer;
    } seven{7};
    return semctl(on.semaphores, 0, SETVAL, seven) == 0 &&
           ioweave::engine::raw_syscall(SYS_semctl, on.semaphores, 0L, long{GETVAL}, 0L) == 7;
  }
  if (is("semop")) {
    sembuf up{0, 1, 0};
    return semop(on.semaphores, &up, 1) == 0;
  }
  if (is("sem_post")) return sem_post(&on.semaphore) == 0;
  return is("none");
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  const int fd = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0) return 3;
  constexpr int kTries = 20;  // on a busy machine it is written before we look
  bool was_there = true;
  bool is_there = true;
  for (off_t at = 0; at < kTries && (was_there || is_there); ++at) {
    Others others;
    if (pwrite(fd, "x", 1, at) != 1) return 4;
    was_there = holds(fd, at);
    if (!make(words[2], others)) return 5;
    is_there = holds(fd, at);
    if (!was_there && std::strcmp(words[2], "none") != 0) break;
  }
  std::printf("%s before, %s after\n", was_there ? "there" : "not there",
              is_there ? "there" : "not there");
  return 0;
}
