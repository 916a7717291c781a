#include "stream/watch/write_back_thread.hpp"

#include <memory>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/prefetch.hpp"
#include "support/temp_file.hpp"

namespace ioweave::stream {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kLongNs = 60'000'000'000;

std::shared_ptr<const Descriptor> opened(const test::TempFile& file) {
  return std::make_shared<Descriptor>(dup(file.fd()));
}

TEST(WriteBackThread, WritesARangeAndThenHoldsNoFile) {
  const test::TempFile file(8 * kMiB);
  ASSERT_EQ(pwrite(file.fd(), std::vector<char>(8 * kMiB, 'x').data(), 8 * kMiB, 0), 8 << 20);
  std::shared_ptr<const Descriptor> own = opened(file);
  const std::weak_ptr<const Descriptor> seen = own;
  WriteBackThread thread;
  EXPECT_TRUE(thread.is_idle());
  ASSERT_TRUE(thread.write(std::move(own), {0, 8 * kMiB}));
  while (!thread.is_idle()) usleep(100);
  EXPECT_TRUE(seen.expired());
  if (!engine::unwritten_bytes(file.fd(), 0, 1)) GTEST_SKIP() << "no cachestat(2)";
  for (int i = 0; i < 60'000 && engine::unwritten_bytes(file.fd(), 0, 8 * kMiB) != 0u; ++i) {
    usleep(1000);
  }
  EXPECT_EQ(engine::unwritten_bytes(file.fd(), 0, 8 * kMiB), 0u);
}

TEST(WriteBackThread, TakesOneRangeAtATime) {
  const test::TempFile file(kMiB);
  WriteBackThread thread;
  unsigned taken = 0;
  for (int i = 0; i < 1000; ++i) taken += thread.write(opened(file), {0, 64 * kMiB}) ? 1 : 0;
  EXPECT_GE(taken, 1u);
  EXPECT_TRUE(thread.cancel(kLongNs));
  EXPECT_TRUE(thread.is_idle());
  EXPECT_TRUE(thread.write(opened(file), {0, kMiB}));
}

TEST(WriteBackThread, WhatIsCancelledEndsSoon) {
  const test::TempFile file(kMiB);
  WriteBackThread thread;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(thread.write(opened(file), {0, UINT64_C(1) << 50}));
    ASSERT_TRUE(thread.cancel(kLongNs));
  }
}

TEST(WriteBackThread, MayGoWhileItIsBusy) {
  const test::TempFile file(kMiB);
  for (int i = 0; i < 100; ++i) {
    WriteBackThread thread;
    ASSERT_TRUE(thread.write(opened(file), {0, 64 * kMiB}));
  }
}

}  // namespace
}  // namespace ioweave::stream
