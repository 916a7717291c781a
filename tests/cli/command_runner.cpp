#include "cli/command_runner.hpp"

#include <cstdlib>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/text_file.hpp"

namespace ioweave::cli::test {
namespace {

using ioweave::test::read_text;
using ioweave::test::TempDir;

void send_to(const std::string& path, int fd) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  dup2(file, fd);
}

[[noreturn]] void become(const std::vector<std::string>& words, const Surroundings& how) {
  for (const auto& [name, value] : how.variables) {
    value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
  }
  if (!how.directory.empty() && chdir(how.directory.c_str()) != 0) _exit(99);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  if (how.in_child) how.in_child();
  execv(arguments[0], arguments.data());
  _exit(98);
}

}  // namespace

Ran run_any(const std::vector<std::string>& words, const Surroundings& how) {
  const TempDir folder;
  const pid_t child = fork();
  if (child == 0) {
    send_to(folder.file("out"), STDOUT_FILENO);
    send_to(folder.file("err"), STDERR_FILENO);
    become(words, how);
  }
  if (how.meanwhile) how.meanwhile(child);
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
          read_text(folder.file("out")), read_text(folder.file("err"))};
}

Ran run_ioweave(const std::vector<std::string>& words, Surroundings how) {
  std::vector<std::string> all{IOWEAVE_COMMAND};
  all.insert(all.end(), words.begin(), words.end());
  // Earlier entries first, so that a test's own win.
  std::vector<std::pair<std::string, std::string>> variables{
      {"IOWEAVE_PRELOAD_PATH", IOWEAVE_FAKE_PRELOAD},
      {"HOME", "/nonexistent"},
      {"XDG_CONFIG_HOME", ""},
      {"LD_PRELOAD", ""},
      {"IOWEAVE_RUN_DIR", ""},
      {"IOWEAVE_POLICY", ""},
      // A sanitized command does not insist on being first where a test preloads into it.
      {"ASAN_OPTIONS", "verify_asan_link_order=0"},
  };
  variables.insert(variables.end(), how.variables.begin(), how.variables.end());
  how.variables = std::move(variables);
  return run_any(all, how);
}

}  // namespace ioweave::cli::test
