#pragma once

// The program ioweave-tiom as a user runs it.

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temp_dir.hpp"

namespace tiom::test {

struct Result {
  int exit_code = -1;
  std::string output;
  std::string errors;
};

/// Runs programs with a directory of their own as the current one.
class Command : public testing::Test {
 protected:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream file(dir_.file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  [[nodiscard]] pid_t start(std::vector<std::string> words, const Environment& added = {}) const {
    const pid_t child = fork();
    if (child != 0) return child;
    const std::string home = dir_.path();
    if (chdir(home.c_str()) != 0) _exit(126);
    dup2(open("stdout", O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    dup2(open("stderr", O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    for (const auto& [name, value] : added) {
      // "$$" is the number of the process, as in a shell.
      const bool is_own = value.starts_with("$$");
      setenv(name.c_str(), (is_own ? std::to_string(getpid()) + value.substr(2) : value).c_str(),
             1);
    }
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }

  [[nodiscard]] Result finish(pid_t child) const {
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content("stdout"), content("stderr")};
  }

  [[nodiscard]] Result run(std::vector<std::string> words, const Environment& added = {}) const {
    words.insert(words.begin(), IOWEAVE_TIOM_PATH);
    return finish(start(words, added));
  }

  ioweave::test::TempDir dir_;
};

}  // namespace tiom::test
