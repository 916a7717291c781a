// iow_try(): what needs no waiting is done, anything else is left as it was.
#include <array>
#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "fixture.hpp"

namespace ioweave::test {
namespace {

constexpr size_t kFileBytes = 8192;

class CTry : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(iow_service_open(&service, nullptr, nullptr), 0); }
  void TearDown() override { iow_service_close(service); }

  iow_request request_for(iow_op op, int fd, int64_t offset, size_t bytes) {
    iow_request request{};
    request.op = static_cast<uint8_t>(op);
    request.fd = fd;
    request.buffer = buffer.data();
    request.bytes = bytes;
    request.offset = offset;
    return request;
  }

  iow_service* service = nullptr;
  std::vector<std::byte> buffer = std::vector<std::byte>(kFileBytes, std::byte{7});
};

TEST_F(CTry, ReadsWhatThePageCacheHolds) {
  const TempFile file(kFileBytes);
  iow_request request = request_for(IOW_OP_READ, file.fd(), 100, 4000);
  bool called = false;
  request.callback = [](iow_request*, void* user) { *static_cast<bool*>(user) = true; };
  request.user = &called;
  EXPECT_EQ(iow_try(service, &request), 1);
  EXPECT_EQ(request.result, 4000);
  EXPECT_EQ(std::vector(buffer.begin(), buffer.begin() + 4000), pattern(100, 4000));
  EXPECT_FALSE(called);
  EXPECT_EQ(iow_test(service, &request), 1);
}

TEST_F(CTry, ReadsToTheEndOfTheFile) {
  const TempFile file(100);
  iow_request request = request_for(IOW_OP_READ, file.fd(), 60, 4000);
  EXPECT_EQ(iow_try(service, &request), 1);
  EXPECT_EQ(request.result, 40);
  request = request_for(IOW_OP_READ, file.fd(), 100, 4000);
  EXPECT_EQ(iow_try(service, &request), 1);
  EXPECT_EQ(request.result, 0);
}

TEST_F(CTry, WritesWhatThePageCacheTakes) {
  const TempFile file(0);
  iow_request request = request_for(IOW_OP_WRITE, file.fd(), 10, 4000);
  EXPECT_EQ(iow_try(service, &request), 1);
  EXPECT_EQ(request.result, 4000);
  EXPECT_EQ(::lseek(file.fd(), 0, SEEK_END), 4010);
}

TEST_F(CTry, LeavesToTheDeviceWhatIsTheDevices) {
  const TempFile file(kFileBytes);
  const int direct = ::open(file.path().c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  ASSERT_GE(direct, 0);
  for (const iow_op op : {IOW_OP_READ, IOW_OP_WRITE, IOW_OP_FSYNC, IOW_OP_FDATASYNC}) {
    iow_request request = request_for(op, direct, 0, 4096);
    EXPECT_EQ(iow_try(service, &request), 0) << op;
    EXPECT_EQ(iow_wait(service, &request, 0), -EINVAL) << "as one that was never submitted";
  }
  ::close(direct);
  const int synchronous = ::open(file.path().c_str(), O_WRONLY | O_DSYNC | O_CLOEXEC);
  ASSERT_GE(synchronous, 0);
  iow_request request = request_for(IOW_OP_WRITE, synchronous, 0, 4096);
  EXPECT_EQ(iow_try(service, &request), 0);
  ::close(synchronous);
}

TEST_F(CTry, LeavesStreamsErrorsAndFlowsToTheSubmission) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  iow_request request = request_for(IOW_OP_READ, ends[0], 0, 10);
  EXPECT_EQ(iow_try(service, &request), 0);
  request = request_for(IOW_OP_READ, 1'000'000, 0, 10);
  EXPECT_EQ(iow_try(service, &request), 0);
  const TempFile file(kFileBytes);
  const int flow = iow_flow_create(service, "flow", nullptr, nullptr);
  ASSERT_GT(flow, 0);
  request = request_for(IOW_OP_READ, file.fd(), 0, 10);
  request.flow = static_cast<uint32_t>(flow);
  EXPECT_EQ(iow_try(service, &request), 0);
  request.flow = 4000;
  EXPECT_EQ(iow_try(service, &request), -EINVAL);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(CTry, RefusesWhatIsMalformedOrUnderWay) {
  const TempFile file(kFileBytes);
  iow_request request = request_for(IOW_OP_READV, file.fd(), 0, 3);
  request.buffer = nullptr;
  EXPECT_EQ(iow_try(service, &request), -EINVAL);

  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  iow_request waiting = request_for(IOW_OP_READ, ends[0], 0, 1);
  iow_request* const one = &waiting;
  ASSERT_EQ(iow_submit(service, &one, 1), 1);
  EXPECT_EQ(iow_try(service, &waiting), -EBUSY);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_EQ(iow_wait(service, &waiting, kForEver), 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace ioweave::test
