// The C++ wrapper: what it hands on, what it throws, and what moves.
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <fcntl.h>

#include <gmock/gmock.h>

#include "fixture.hpp"
#include "ioweave/ioweave.hpp"

namespace ioweave::test {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr int kNoFd = 1'000'000;

/// The errno of the std::system_error that `body` throws; its text must have `word` in it.
template <typename Body>
int thrown_by(Body&& body, const std::string& word) {
  try {
    body();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().category(), std::generic_category());
    EXPECT_THAT(error.what(), HasSubstr(word));
    return error.code().value();
  }
  ADD_FAILURE() << "nothing was thrown";
  return 0;
}

std::span<const std::byte> bytes_of(const std::vector<std::byte>& bytes) {
  return bytes;
}

// ---- What holds without an engine
// ----------------------------------------------------------------

TEST(CppCheck, PassesResultsThroughAndThrowsErrors) {
  EXPECT_EQ(check(0, "x"), 0);
  EXPECT_EQ(check(ssize_t{5}, "x"), 5);
  EXPECT_EQ(thrown_by([] { check(-ENOSPC, "writing"); }, "writing"), ENOSPC);
  EXPECT_EQ(thrown_by([] { check(int64_t{-EIO}, "reading"); }, "reading"), EIO);
}

TEST(CppRequest, FillsTheFieldsOfItsOperation) {
  std::array<std::byte, 8> bytes{};
  const std::array<iovec, 2> vectors{iovec{bytes.data(), 3}, iovec{bytes.data(), 4}};
  const auto expect = [](Request request, iow_op op, int fd, const void* buffer, uint64_t count,
                         int64_t offset) {
    const iow_request& raw = *request.raw();
    EXPECT_EQ(raw.op, op);
    EXPECT_EQ(raw.fd, fd);
    EXPECT_EQ(raw.buffer, buffer);
    EXPECT_EQ(raw.bytes, count);
    EXPECT_EQ(raw.offset, offset);
    EXPECT_EQ(raw.flags, 0);
    EXPECT_EQ(raw.flow, 0u);
    EXPECT_EQ(raw.callback, nullptr);
  };
  expect(Request(), IOW_OP_NOP, 0, nullptr, 0, 0);
  expect(Request::read(3, bytes, 10), IOW_OP_READ, 3, bytes.data(), 8, 10);
  expect(Request::write(4, bytes, -1), IOW_OP_WRITE, 4, bytes.data(), 8, -1);
  expect(Request::readv(5, vectors, 11), IOW_OP_READV, 5, vectors.data(), 2, 11);
  expect(Request::writev(6, vectors, 12), IOW_OP_WRITEV, 6, vectors.data(), 2, 12);
  expect(Request::fsync(7), IOW_OP_FSYNC, 7, nullptr, 0, 0);
  expect(Request::fdatasync(8), IOW_OP_FDATASYNC, 8, nullptr, 0, 0);
  expect(Request::prefetch(9, 1000, 13), IOW_OP_PREFETCH, 9, nullptr, 1000, 13);

  Request request = Request::fsync(1);
  Calls calls;
  request.flow(5)
      .flags(IOW_MORE | IOW_EXACT)
      .fixed_buffer(6)
      .fixed_file(7)
      .on_completion(&note_call, &calls);
  EXPECT_EQ(request.raw()->flow, 5u);
  EXPECT_EQ(request.raw()->flags, IOW_MORE | IOW_EXACT);
  EXPECT_EQ(request.raw()->fixed_buffer, 6);
  EXPECT_EQ(request.raw()->fixed_file, 7);
  EXPECT_EQ(request.raw()->callback, &note_call);
  EXPECT_EQ(request.raw()->user, &calls);
}

TEST(CppService, ThrowsATextThatNamesTheOptionAtFault) {
  iow_options options{};
  options.queue_depth = 5000;
  EXPECT_EQ(thrown_by([&] { const Service service(options); }, "queue_depth must be 1..4096"),
            EINVAL);
  static_assert(!std::is_copy_constructible_v<Service> && !std::is_copy_constructible_v<Request>);
}

// ---- On every engine
// -----------------------------------------------------------------------------

class Cpp : public ::testing::TestWithParam<iow_engine> {
 protected:
  void SetUp() override {
    iow_options options{};
    options.engine = GetParam();
    options.required = 1;
    options.queue_depth = 4;
    try {
      opened_.emplace(options);
    } catch (const std::system_error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  Service& service() { return *opened_; }

  std::optional<Service> opened_;
};
INSTANTIATE_TEST_SUITE_P(, Cpp, every_engine(), name_of);

TEST_P(Cpp, BlockingCallsMoveBytesAndThrowErrors) {
  const TempFile file(1000);
  std::vector<std::byte> buffer(600);
  EXPECT_EQ(service().read(file.fd(), buffer, 300), 600u);
  EXPECT_EQ(buffer, pattern(300, 600));
  EXPECT_EQ(service().read(file.fd(), buffer, 900), 100u) << "less is the end of the file";
  EXPECT_EQ(service().write(file.fd(), bytes_of(pattern(5, 200)), 2000), 200u);
  std::vector<std::byte> one(50);
  std::vector<std::byte> two(150);
  const std::array<iovec, 2> vectors{iovec{one.data(), 50}, iovec{two.data(), 150}};
  EXPECT_EQ(service().readv(file.fd(), vectors, 2000), 200u);
  EXPECT_EQ(one, pattern(5, 50));
  EXPECT_EQ(two, pattern(55, 150));
  EXPECT_EQ(service().writev(file.fd(), vectors, 0), 200u);
  EXPECT_EQ(service().read(file.fd(), std::span(buffer).first(200), 0), 200u);
  buffer.resize(200);
  EXPECT_EQ(buffer, pattern(5, 200));
  service().fsync(file.fd());
  service().fdatasync(file.fd());

  EXPECT_EQ(thrown_by([&] { service().read(kNoFd, buffer, 0); }, "iow_pread"), EBADF);
  EXPECT_EQ(thrown_by([&] { service().write(file.fd(), buffer, -1); }, "iow_pwrite"), EINVAL);
  EXPECT_EQ(thrown_by([&] { service().readv(kNoFd, vectors, 0); }, "iow_preadv"), EBADF);
  EXPECT_EQ(thrown_by([&] { service().writev(kNoFd, vectors, 0); }, "iow_pwritev"), EBADF);
  EXPECT_EQ(thrown_by([&] { service().fsync(kNoFd); }, "iow_fsync"), EBADF);
  EXPECT_EQ(thrown_by([&] { service().fdatasync(kNoFd); }, "iow_fdatasync"), EBADF);
}

TEST_P(Cpp, RequestsOfEveryKindMoveWhatTheySay) {
  const TempFile file(10'000);
  std::vector<std::byte> buffer(500);
  Request read = Request::read(file.fd(), buffer, 100);
  service().submit(read);
  EXPECT_EQ(service().wait(read), 500u);
  EXPECT_EQ(read.bytes(), 500u);
  EXPECT_EQ(read.result(), 500);
  EXPECT_EQ(buffer, pattern(100, 500));
  Request write = Request::write(file.fd(), buffer, 20'000);
  service().submit(write);
  EXPECT_EQ(service().wait(write), 500u);
  std::vector<std::byte> back(500);
  const std::array<iovec, 2> vectors{iovec{back.data(), 1}, iovec{back.data() + 1, 499}};
  Request readv = Request::readv(file.fd(), vectors, 20'000);
  service().submit(readv);
  EXPECT_EQ(service().wait(readv), 500u);
  EXPECT_EQ(back, buffer);
  Request writev = Request::writev(file.fd(), vectors, 0);
  service().submit(writev);
  EXPECT_EQ(service().wait(writev), 500u);
  EXPECT_EQ(service().read(file.fd(), back, 0), 500u);
  EXPECT_EQ(back, pattern(100, 500));
  Request sync = Request::fsync(file.fd());
  Request datasync = Request::fdatasync(file.fd());
  Request prefetch = Request::prefetch(file.fd(), 8192, 0);
  for (Request* const request : {&sync, &datasync, &prefetch}) {
    service().submit(*request);
    EXPECT_EQ(service().wait(*request), request == &prefetch ? 8192u : 0u);
  }
}

TEST_P(Cpp, AWaitThrowsWhatTheTransferFailedWith) {
  std::vector<std::byte> buffer(10);
  Request bad = Request::read(kNoFd, buffer, 0);
  service().submit(bad);
  EXPECT_EQ(thrown_by([&] { service().wait(bad); }, "transfer"), EBADF);
  EXPECT_EQ(thrown_by([&] { (void)bad.bytes(); }, "transfer"), EBADF);
  EXPECT_EQ(thrown_by([&] { (void)service().wait_for(bad, 1ns); }, "transfer"), EBADF);
  EXPECT_EQ(bad.result(), -EBADF);
  Request never;
  EXPECT_EQ(thrown_by([&] { service().wait(never); }, "iow_wait"), EINVAL);
  EXPECT_EQ(thrown_by([&] { (void)service().wait_for(never, 1ns); }, "iow_wait"), EINVAL);
  EXPECT_EQ(thrown_by([&] { service().submit(never.flow(77)); }, "iow_submit"), EINVAL);
}

TEST_P(Cpp, AWaitForSomeTimeGivesNothingWhereThatIsOverFirst) {
  Gate gate;
  std::array<std::byte, 1> byte{};
  Request request = Request::read(gate.fd(), byte, -1);
  service().submit(request);
  EXPECT_EQ(service().wait_for(request, 1ms), std::nullopt);
  EXPECT_FALSE(service().test(request));
  EXPECT_EQ(thrown_by([&] { service().submit(request); }, "iow_submit"), EBUSY);
  gate.open("q");
  EXPECT_EQ(service().wait_for(request, std::chrono::nanoseconds::max()), 1u);
  EXPECT_TRUE(service().test(request));
  EXPECT_EQ(byte[0], std::byte{'q'});
}

TEST_P(Cpp, APollCollectsAndRunsCallbacks) {
  Calls calls;
  std::array<Request, 3> requests;
  for (Request& request : requests) {
    request.flags(IOW_CALLBACK_ON_POLL).on_completion(&note_call, &calls);
    service().submit(request);
  }
  EXPECT_EQ(service().poll(3), 3u);
  EXPECT_EQ(calls.count, 3);
  EXPECT_EQ(calls.thread.load(), std::this_thread::get_id());
  EXPECT_EQ(service().poll(1), 0u) << "nothing is in flight";
  Gate gate;
  std::array<std::byte, 1> byte{};
  Request blocked = Request::read(gate.fd(), byte, -1);
  service().submit(blocked);
  EXPECT_EQ(service().poll(1, 1ms), 0u);
  gate.open();
  EXPECT_EQ(service().poll(1), 1u);
}

TEST_P(Cpp, ACancellationTellsWhetherItSucceeded) {
  iow_device_options narrow{};
  narrow.max_in_flight = 1;
  iow_flow_options options{};
  options.device = service().create_device("narrow", narrow);
  const uint32_t flow = service().create_flow("stream", options);
  Gate gate;
  std::array<std::byte, 1> byte{};
  Request running = Request::read(gate.fd(), byte, -1);
  Request held;
  service().submit(running.flow(flow));
  service().submit(held.flow(flow));
  EXPECT_TRUE(service().cancel(held));
  EXPECT_FALSE(service().cancel(held));
  EXPECT_EQ(thrown_by([&] { service().wait(held); }, "transfer"), ECANCELED);
  gate.open();
  EXPECT_EQ(service().wait(running), 1u);
  EXPECT_FALSE(service().cancel(running));
}

TEST_P(Cpp, DevicesAndFlowsThrowATextThatNamesTheSetting) {
  iow_device_options device{};
  device.budget_mb_per_s = -3;
  EXPECT_EQ(thrown_by([&] { service().create_device("tape", device); }, "'tape': budget_mb_per_s"),
            EINVAL);
  iow_flow_options flow{};
  flow.device = 9;
  EXPECT_EQ(thrown_by([&] { service().create_flow("log", flow); }, "'log': device 9"), EINVAL);
  EXPECT_EQ(service().create_device("disk"), 1u);
  EXPECT_EQ(service().create_flow("fast"), 1u);
}

TEST_P(Cpp, BuffersAndFilesAreRegisteredAndUnregistered) {
  const TempFile file(10'000);
  std::vector<std::byte> memory(4096);
  const int buffer = service().register_buffer(memory);
  const int descriptor = service().register_file(file.fd());
  Request read = Request::read(file.fd(), memory, 33);
  service().submit(read.fixed_buffer(buffer).fixed_file(descriptor));
  EXPECT_EQ(service().wait(read), 4096u);
  EXPECT_EQ(memory, pattern(33, 4096));
  service().unregister_buffer(buffer);
  service().unregister_file(descriptor);
  EXPECT_EQ(thrown_by([&] { service().unregister_buffer(buffer); }, "unregister buffer"), ENOENT);
  EXPECT_EQ(thrown_by([&] { service().unregister_file(descriptor); }, "unregister file"), ENOENT);
  EXPECT_EQ(thrown_by([&] { (void)service().register_buffer({}); }, "iow_register_buffer"), EINVAL);
  EXPECT_EQ(thrown_by([&] { (void)service().register_file(-1); }, "iow_register_file"), EBADF);
}

TEST_P(Cpp, StatisticsAndTheEngineAreThoseOfTheService) {
  const TempFile file(1000);
  std::vector<std::byte> buffer(400);
  EXPECT_EQ(service().stats().submitted, 0u);
  Request read = Request::read(file.fd(), buffer, 0);
  service().submit(read);
  service().wait(read);
  const iow_stats stats = service().stats();
  EXPECT_EQ(stats.size, sizeof stats);
  EXPECT_EQ(stats.submitted, 1u);
  EXPECT_EQ(stats.completed, 1u);
  EXPECT_EQ(stats.read_bytes, 400u);
  EXPECT_EQ(service().engine(), iow_service_engine(service().raw(), nullptr));
  EXPECT_EQ(service().fallback_reason(), "");
}

TEST_P(Cpp, AMovedRequestIsOneNotYetSubmitted) {
  const TempFile file(1000);
  std::vector<std::byte> buffer(400);
  Request first = Request::read(file.fd(), buffer, 100);
  service().submit(first);
  EXPECT_EQ(service().wait(first), 400u);
  Request second = std::move(first);
  EXPECT_FALSE(service().test(second)) << "what arrives has not been submitted";
  std::fill(buffer.begin(), buffer.end(), std::byte{});
  service().submit(second);
  EXPECT_EQ(service().wait(second), 400u);
  EXPECT_EQ(buffer, pattern(100, 400));
}

TEST_P(Cpp, AMovedServiceIsTheSameServiceAndTheDestructorCompletesWhatIsInFlight) {
  Calls calls;
  std::vector<Request> requests(20);
  {
    Service moved = std::move(service());
    EXPECT_EQ(service().raw(), nullptr);
    for (Request& request : requests) {
      moved.submit(request.on_completion(&note_call, &calls));
    }
  }
  EXPECT_EQ(calls.count, 20);
}

TEST(CppNoWait, AFullQueueThrows) {
  iow_options options{};
  options.engine = IOW_ENGINE_URING;
  options.required = 1;
  options.queue_depth = 1;
  std::optional<Service> service;
  try {
    service.emplace(options);
  } catch (const std::system_error& error) {
    GTEST_SKIP() << error.what();
  }
  Gate gate;
  std::array<std::byte, 1> byte{};
  Request first = Request::read(gate.fd(), byte, -1);
  Request second;
  service->submit(first);
  EXPECT_EQ(thrown_by([&] { service->submit(second.flags(IOW_NOWAIT)); }, "iow_submit"), EAGAIN);
  gate.open();
  EXPECT_EQ(service->wait(first), 1u);
  service->submit(second);
  EXPECT_EQ(service->wait(second), 0u);
}

}  // namespace
}  // namespace ioweave::test
