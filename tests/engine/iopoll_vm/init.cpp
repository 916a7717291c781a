// The first process of the virtual machine: mounts what programs need, loads the modules that
// iopoll_vm_test.py found to be needed, runs the commands it listed and switches the machine off.
// Everything goes to the console, from which the test reads how each command ended:
//
//   vm: begin NAME
//   ...
//   vm: end NAME STATUS

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

void report(const std::string& what, bool succeeded) {
  if (!succeeded) std::printf("vm: %s: %s\n", what.c_str(), std::strerror(errno));
}

void mount_at(const char* source, const char* target, const char* type, unsigned long flags = 0) {
  ::mkdir(target, 0755);
  report(std::string("mount ") + target, ::mount(source, target, type, flags, nullptr) == 0);
}

std::vector<std::string> lines_of(const char* path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// A line is the module's path and its parameters.
void load_module(const std::string& line) {
  const size_t space = line.find(' ');
  const std::string path = line.substr(0, space);
  const std::string parameters = space == std::string::npos ? "" : line.substr(space + 1);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  report("load " + path, ::syscall(SYS_finit_module, fd, parameters.c_str(), 0) == 0);
  ::close(fd);
}

/// A driver finds its devices after it was loaded, in its own time.
bool wait_for(const char* path) {
  constexpr int kTries = 600;
  for (int tries = 0; tries < kTries; ++tries) {
    if (::access(path, F_OK) == 0) return true;
    ::usleep(100'000);
  }
  return false;
}

/// A line is a name, the program and its arguments.
void run(const std::string& line) {
  std::vector<std::string> words = words_of(line);
  std::printf("vm: begin %s\n", words.at(0).c_str());
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> arguments;
    for (size_t i = 1; i < words.size(); ++i) arguments.push_back(words[i].data());
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    std::printf("vm: %s: %s\n", arguments[0], std::strerror(errno));
    std::fflush(stdout);
    ::_exit(127);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::printf("\nvm: end %s %d\n", words[0].c_str(), code);
}

}  // namespace

int main() {
  if (::getpid() != 1) {
    std::fprintf(stderr, "This program is the first process of a virtual machine.\n");
    return 1;
  }
  mount_at("none", "/proc", "proc");
  mount_at("none", "/sys", "sysfs");
  mount_at("none", "/dev", "devtmpfs");
  mount_at("none", "/tmp", "tmpfs");
  ::setenv("TMPDIR", "/data", 1);
  ::setenv("HOME", "/tmp", 1);
  for (const std::string& line : lines_of("/modules.list")) load_module(line);
  for (const std::string& line : lines_of("/disks.list")) {
    // A disk, and the file system that is on it, or nothing.
    const std::vector<std::string> words = words_of(line);
    if (!wait_for(words.at(0).c_str())) std::printf("vm: there is no %s\n", words[0].c_str());
    if (words.size() > 1) {
      mount_at(words[0].c_str(), "/data", words[1].c_str(), MS_NOATIME);
    }
  }
  for (const std::string& line : lines_of("/commands.list")) run(line);
  std::fflush(stdout);
  ::umount("/data");
  ::sync();
  ::reboot(RB_POWER_OFF);
}
