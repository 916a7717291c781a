#include "cli/output.hpp"

#include <cerrno>
#include <csignal>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "base/atomic_file.hpp"

namespace ioweave::cli {
namespace {

int first_error = 0;  // of print(); the command has one thread

int write_to(int fd, std::string_view text) noexcept {
  // The program, if there is one, has been started before, so its disposition does not change.
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  const int error = write_all(fd, text);
  sigaction(SIGPIPE, &before, nullptr);
  return error == -EPIPE ? 0 : error;
}

}  // namespace

void guard_standard_streams() noexcept {
  // open(2) returns the lowest free number, so this fills each closed one below 3 in turn.
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

int print(std::string_view text) noexcept {
  const int error = write_to(STDOUT_FILENO, text);
  if (first_error == 0) first_error = error;
  return error;
}

int print_failure() noexcept {
  return first_error;
}

void print_error(std::string_view text) noexcept {
  write_to(STDERR_FILENO, text);
}

void complain(std::string_view text) {
  print_error("ioweave: " + std::string(text) + "\n");
}

}  // namespace ioweave::cli
