#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ioweave::stream {

/// A process that runs one step for each go(), and ends behind the last. A step returns what go()
/// answers.
class Child {
 public:
  using Step = std::function<int64_t()>;

  explicit Child(const std::vector<Step>& steps) {
    int orders[2];
    int answers[2];
    if (pipe2(orders, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0) abort();
    pid_ = fork();
    if (pid_ == 0) {
      close(orders[1]);
      char order = 0;
      for (const Step& step : steps) {
        if (read(orders[0], &order, 1) != 1) _exit(1);
        const int64_t answer = step();
        if (write(answers[1], &answer, sizeof answer) != sizeof answer) _exit(2);
      }
      (void)!read(orders[0], &order, 1);
      _exit(0);
    }
    close(orders[0]);
    close(answers[1]);
    order_ = orders[1];
    answer_ = answers[0];
  }
  ~Child() {
    end();
    close(answer_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int64_t go() {
    int64_t answer = -1;
    EXPECT_EQ(write(order_, "x", 1), 1);
    EXPECT_EQ(read(answer_, &answer, sizeof answer), static_cast<ssize_t>(sizeof answer));
    return answer;
  }
  void end() {
    if (order_ < 0) return;
    close(order_);
    order_ = -1;
    waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int order_ = -1;
  int answer_ = -1;
};

}  // namespace ioweave::stream
