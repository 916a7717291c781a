#include "calls/libc/real.hpp"

#include <cerrno>
#include <string>

#include <sys/mman.h>

#include <gtest/gtest.h>

#include "support/temp_dir.hpp"

namespace ioweave::calls {
namespace {

/// Calls of every kind: with a system call that does the same, with an answer that is a pointer,
/// and without any.
void make_calls(const std::string& path) {
  const int fd = real::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(real::pwrite(fd, "woven", 5, 1), 5);
  char text[6] = {};
  EXPECT_EQ(real::pread(fd, text, 5, 1), 5);
  EXPECT_STREQ(text, "woven");
  EXPECT_EQ(real::lseek(fd, 0, SEEK_END), 6);

  void* const mapped = real::mmap(nullptr, 6, PROT_READ, MAP_PRIVATE, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(static_cast<const char*>(mapped)[1], 'w');
  munmap(mapped, 6);
  EXPECT_EQ(real::mmap(nullptr, 0, PROT_READ, MAP_PRIVATE, fd, 0), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);

  EXPECT_EQ(real::dup2(fd, fd), fd);
  EXPECT_EQ(real::close(fd), 0);
  errno = 0;
  EXPECT_EQ(real::close(fd), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(real::remove(path.c_str()), 0);
}

TEST(RealCalls, AreTheSameBeforeTheLookUpAndAfterIt) {
  const test::TempDir directory;
  ASSERT_EQ(real::table.read, nullptr) << "nothing resolves them in this program";
  make_calls(directory.file("file"));
  EXPECT_EQ(real::table.dup2, nullptr) << "a call before the look-up keeps nothing";
  real::resolve();
  ASSERT_NE(real::table.read, nullptr);
  make_calls(directory.file("file"));
}

}  // namespace
}  // namespace ioweave::calls
