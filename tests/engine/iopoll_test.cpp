#include <cerrno>
#include <thread>

#include "backend_fixture.hpp"

// A polled backend on a device that has no polled queues, which is all most machines have: it
// opens, it wakes, and it says what it cannot do. On a device that has them the read succeeds.

namespace ioweave::engine {
namespace {

class Iopoll : public ::testing::Test {
 protected:
  void SetUp() override {
    BackendOptions options;
    options.mode = UringMode::iopoll;
    options.entries = 8;
    int error = 0;
    std::string why;
    backend_ = open_backend(options, error, why);
    if (backend_ == nullptr) GTEST_SKIP() << why;
  }

  test::TempDir directory_;
  std::unique_ptr<Backend> backend_;
};

TEST_F(Iopoll, CarriesOnlyDirectTransfers) {
  const std::string path = directory_.file("data");
  const Descriptor buffered(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const Block block(kBlock);
  Operation read = transfer(Op::read, buffered.get(), block.data(), kBlock, 0);
  EXPECT_EQ(backend_->submit(read), Submitted::unsupported);
  Operation sync = on_file(Op::fsync, buffered.get());
  EXPECT_EQ(backend_->submit(sync), Submitted::unsupported);
}

TEST_F(Iopoll, ADirectReadSucceedsOrSaysThatTheDeviceIsNotPolled) {
  const std::string path = directory_.file("data");
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600));
  if (file.get() < 0) GTEST_SKIP() << "no O_DIRECT here";
  const Block block(kBlock, 'i');
  ASSERT_EQ(::pwrite(file.get(), block.data(), kBlock, 0), ssize_t{kBlock});
  Operation read = transfer(Op::read, file.get(), block.data(), kBlock, 0);
  ASSERT_EQ(backend_->submit(read), Submitted::queued);
  Operation* out = nullptr;
  while (out == nullptr) ASSERT_GE(backend_->reap({&out, 1}, {1, -1, true}), 0);
  EXPECT_TRUE(read.result == int64_t{kBlock} || read.result == -EOPNOTSUPP) << read.result;
}

TEST_F(Iopoll, WakesWhileNothingIsInFlight) {
  for (int round = 0; round < 20; ++round) {
    std::thread waker([&] { backend_->wake(); });
    Operation* out = nullptr;
    EXPECT_EQ(backend_->reap({&out, 1}, {1, -1, round % 2 == 0}), 0);
    waker.join();
  }
}

}  // namespace
}  // namespace ioweave::engine
