// How it works: launch() blocks all signals of interest before it makes the child, and takes them
// one by one with sigtimedwait(2). So there is no handler, and no signal is lost between a check
// and a sleep. The child undoes all of this before exec. A close-on-exec pipe says whether exec
// succeeded: end of file means yes, an errno means no.

#include "cli/launch.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string_view>

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.hpp"

namespace ioweave::cli {
namespace {

constexpr std::array<int, 7> kPassedOn{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT};

/// The signal state that launch() found, to be restored in the child and at the end. One thread,
/// one program at a time.
struct FoundSignals {
  sigset_t mask;
  struct sigaction child;
  struct sigaction file_size;
  bool taken = false;
};
FoundSignals found_signals;  // NOLINT: process-wide state of a process-wide thing

sigset_t waited_for() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int number : kPassedOn) sigaddset(&set, number);
  return set;
}

void take_signals() noexcept {
  const sigset_t set = waited_for();
  sigprocmask(SIG_BLOCK, &set, &found_signals.mask);
  // If SIGCHLD is ignored, as some parents leave it, wait4() returns no status.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &action, &found_signals.child);
  // A write beyond RLIMIT_FSIZE must fail, not end this process.
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, &found_signals.file_size);
  found_signals.taken = true;
}

void restore_signals() noexcept {
  sigaction(SIGCHLD, &found_signals.child, nullptr);
  sigaction(SIGXFSZ, &found_signals.file_size, nullptr);
  sigprocmask(SIG_SETMASK, &found_signals.mask, nullptr);
}

// ---- The child ----------------------------------------------------------------------------------

struct ExecReport {
  int error = 0;
  bool is_final = false;  ///< false: exec is tried again without the added variables
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

/// Returns this process's environment with `added`, which replaces variables of the same names.
std::vector<char*> environment_with(const std::vector<std::string>& added) {
  std::vector<char*> list;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const bool replaced = std::ranges::any_of(added, [&](const std::string& other) {
      return text.starts_with(std::string_view(other).substr(0, other.find('=') + 1));
    });
    if (!replaced) list.push_back(*variable);
  }
  for (const std::string& text : added) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

void send_report(int pipe, ExecReport report) noexcept {
  // A write below PIPE_BUF is whole or fails. If it fails, the parent sees a plain exit.
  [[maybe_unused]] const ssize_t written = write(pipe, &report, sizeof report);
}

struct Image {
  char* const* arguments;
  char* const* environment;
  int pipe;
};

/// Executes the program, in the child. The child shares the memory of its parent, whose only
/// thread waits; it has its own signal dispositions and mask.
int execute_image(void* what) noexcept {
  const Image& image = *static_cast<Image*>(what);
  restore_signals();
  execvpe(image.arguments[0], image.arguments, image.environment);
  if (errno == E2BIG) {
    send_report(image.pipe, {E2BIG, false});
    execvpe(image.arguments[0], image.arguments, environ);
  }
  send_report(image.pipe, {errno, true});
  _exit(127);
}

/// Starts the child as vfork(2) and exec(2) do, but on a stack of its own, as posix_spawn(3) does.
/// A fork would copy page tables and break up pages, which takes 0.3 of the 1.5 ms that a run adds.
pid_t spawn_child(Image& image, size_t arguments) {
  // execvpe() copies the arguments to pass a script without a first line to the shell.
  constexpr size_t kStackBytes = 64 << 10;
  constexpr size_t kAlignment = 64;
  std::vector<char> stack(kStackBytes + arguments * sizeof(char*));
  char* const top = stack.data() + stack.size();
  const size_t beyond = reinterpret_cast<uintptr_t>(top) % kAlignment;
  return clone(&execute_image, top - beyond, CLONE_VM | CLONE_VFORK | SIGCHLD, &image);
}

// ---- The parent ---------------------------------------------------------------------------------

void read_reports(int pipe, LaunchResult& result) noexcept {
  result.started = true;
  ExecReport report;
  while (true) {
    const ssize_t got = read(pipe, &report, sizeof report);
    if (got < 0 && errno == EINTR) continue;
    if (got != ssize_t{sizeof report}) return;
    if (report.is_final) {
      result.error = report.error;
      result.started = false;
    } else {
      result.without_added = true;
    }
  }
}

/// Returns true if the program has the signal already or sent it itself.
bool needs_no_help(const siginfo_t& info, pid_t program) noexcept {
  const bool from_kernel = info.si_code > 0;  // from the terminal, to the whole group
  return from_kernel || info.si_pid == program;
}

bool has_ended(pid_t program, stats::Outcome& outcome) noexcept {
  int status = 0;
  rusage usage{};
  pid_t got = 0;
  do {
    got = wait4(program, &status, WNOHANG, &usage);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return false;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  outcome.user_seconds = seconds(usage.ru_utime);
  outcome.system_seconds = seconds(usage.ru_stime);
  // The kernel counts units of 512 bytes, whatever the device's blocks; getrusage(2) does not say.
  outcome.storage_read_bytes = static_cast<uint64_t>(usage.ru_inblock) * 512;
  outcome.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  outcome.exit_code = WIFSIGNALED(status) ? 128 + outcome.signal : WEXITSTATUS(status);
  return true;
}

/// Waits for the program to end and passes signals on meanwhile.
void wait_for(pid_t program, const LaunchRequest& request, stats::Outcome& outcome) {
  const sigset_t set = waited_for();
  const timespec tick{request.tick_ms / 1000, (request.tick_ms % 1000) * 1'000'000L};
  while (!has_ended(program, outcome)) {
    siginfo_t info{};
    const int number = sigtimedwait(&set, &info, &tick);
    if (number < 0) {
      if (errno == EAGAIN && request.on_tick) request.on_tick();
    } else if (number != SIGCHLD && !needs_no_help(info, program)) {
      kill(program, number);
    }
  }
}

}  // namespace

LaunchResult launch(const LaunchRequest& request) {
  LaunchResult result;
  const std::vector<char*> arguments = pointers(request.command);
  const std::vector<char*> environment = environment_with(request.added);
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC) != 0) {
    result.error = errno;
    return result;
  }
  take_signals();
  const uint64_t start = now_ns();
  Image image{arguments.data(), environment.data(), pipe[1]};
  const pid_t program = spawn_child(image, arguments.size());
  const int fork_error = errno;
  close(pipe[1]);
  if (program < 0) {
    result.error = fork_error;
  } else {
    read_reports(pipe[0], result);
    if (result.started && request.on_start) request.on_start(program);
    wait_for(program, request, result.outcome);
    result.outcome.wall_seconds = static_cast<double>(now_ns() - start) * 1e-9;
  }
  close(pipe[0]);
  return result;
}

void release_signals() noexcept {
  if (!found_signals.taken) return;
  // Signals for the program that came too late are dropped, so that the program's exit code is
  // passed on even after a Ctrl-C.
  const sigset_t set = waited_for();
  const timespec now{};
  while (sigtimedwait(&set, nullptr, &now) > 0) {
  }
  restore_signals();
  found_signals.taken = false;
}

}  // namespace ioweave::cli
