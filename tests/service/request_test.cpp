// What the result of one operation means for its request: no engine needed.
#include "service/request.hpp"

#include <array>
#include <cerrno>
#include <climits>

#include <gtest/gtest.h>

#include "fixture.hpp"

namespace ioweave::service {
namespace {

std::array<char, 100> buffer;

iow_request begun(iow_request request) {
  EXPECT_EQ(begin_journey(request), 0);
  return request;
}

TEST(BeginJourney, RefusesWhatCannotBe) {
  iow_request unknown_op = make_request(IOW_OP_NOP, 0, nullptr, 0, 0);
  unknown_op.op = 99;
  EXPECT_EQ(begin_journey(unknown_op), -EINVAL);
  iow_request unknown_flag = make_request(IOW_OP_NOP, 0, nullptr, 0, 0);
  unknown_flag.flags = 0x80;
  EXPECT_EQ(begin_journey(unknown_flag), -EINVAL);
  iow_request negative = make_request(IOW_OP_READ, 0, buffer.data(), 1, -2);
  EXPECT_EQ(begin_journey(negative), -EINVAL);
  iow_request too_many = make_request(IOW_OP_READV, 0, buffer.data(), IOV_MAX + 1, 0);
  EXPECT_EQ(begin_journey(too_many), -EINVAL);
  iow_request too_long = make_request(IOW_OP_WRITE, 0, buffer.data(), UINT64_MAX, 0);
  EXPECT_EQ(begin_journey(too_long), -EINVAL);
  const iovec overflow[] = {{buffer.data(), SSIZE_MAX}, {buffer.data(), 1}};
  iow_request sum = make_request(IOW_OP_READV, 0, const_cast<iovec*>(overflow), 2, 0);
  EXPECT_EQ(begin_journey(sum), -EINVAL);
  iow_request no_position = make_request(IOW_OP_PREFETCH, 0, nullptr, 1, -1);
  EXPECT_EQ(begin_journey(no_position), -EINVAL);
}

TEST(BeginJourney, RefusesARequestStillInFlight) {
  iow_request request = begun(make_request(IOW_OP_NOP, 0, nullptr, 0, 0));
  EXPECT_EQ(begin_journey(request), -EBUSY);
  journey_of(request).event.complete();
  EXPECT_EQ(begin_journey(request), 0);
}

TEST(Advance, ContinuesAShortReadWhereItStopped) {
  iow_request request = begun(make_request(IOW_OP_READ, 3, buffer.data(), 100, 1000));
  EXPECT_EQ(advance(request, 30), Step::continued);
  const engine::Operation& operation = journey_of(request).operation;
  EXPECT_EQ(operation.buffer, buffer.data() + 30);
  EXPECT_EQ(operation.length, 70u);
  EXPECT_EQ(operation.offset, 1030);
  EXPECT_EQ(advance(request, 70), Step::complete);
  EXPECT_EQ(request.result, 100);
}

TEST(Advance, EndOfFileEndsAReadWithWhatThereIs) {
  iow_request request = begun(make_request(IOW_OP_READ, 3, buffer.data(), 100, 0));
  EXPECT_EQ(advance(request, 30), Step::continued);
  EXPECT_EQ(advance(request, 0), Step::complete);
  EXPECT_EQ(request.result, 30);
}

TEST(Advance, AnErrorAfterProgressReportsTheProgress) {
  iow_request request = begun(make_request(IOW_OP_WRITE, 3, buffer.data(), 100, 0));
  EXPECT_EQ(advance(request, 40), Step::continued);
  EXPECT_EQ(advance(request, -ENOSPC), Step::complete);
  EXPECT_EQ(request.result, 40);
}

TEST(Advance, ContinuesInsideAVectorAndThenWithTheRest) {
  const iovec vectors[] = {{buffer.data(), 10}, {buffer.data() + 10, 0}, {buffer.data() + 10, 20}};
  iow_request request = begun(make_request(IOW_OP_READV, 3, const_cast<iovec*>(vectors), 3, 500));
  const engine::Operation& operation = journey_of(request).operation;
  EXPECT_EQ(operation.vector_count, 3u);
  EXPECT_EQ(advance(request, 4), Step::continued);
  EXPECT_EQ(operation.op, engine::Op::read);
  EXPECT_EQ(operation.buffer, buffer.data() + 4);
  EXPECT_EQ(operation.length, 6u);
  EXPECT_EQ(operation.offset, 504);
  EXPECT_EQ(advance(request, 6), Step::continued);
  EXPECT_EQ(operation.op, engine::Op::readv);
  EXPECT_EQ(operation.vectors, vectors + 1);
  EXPECT_EQ(operation.vector_count, 2u);
  EXPECT_EQ(operation.offset, 510);
  EXPECT_EQ(advance(request, 20), Step::complete);
  EXPECT_EQ(request.result, 30);
}

TEST(Advance, RepeatsWhatTheKernelGaveUpForItsOwnReasons) {
  for (const int error : {EINTR, EAGAIN, ECANCELED}) {
    iow_request request = begun(make_request(IOW_OP_READ, 3, buffer.data(), 100, 0));
    EXPECT_EQ(advance(request, -error), Step::reissued) << error;
  }
}

TEST(Advance, RepeatsWhatNobodyCancelledAlsoWhereOneSystemCallIsMeant) {
  iow_request raw = make_request(IOW_OP_READ, 3, buffer.data(), 100, 0);
  raw.flags = IOW_EXACT;
  iow_request request = begun(raw);
  EXPECT_EQ(advance(request, -ECANCELED), Step::reissued);
  journey_of(request).cancel_wanted = true;
  EXPECT_EQ(advance(request, -ECANCELED), Step::complete);
  EXPECT_EQ(request.result, -ECANCELED);
}

TEST(Advance, DoesNotRepeatAgainForEver) {
  iow_request request = begun(make_request(IOW_OP_READ, 3, buffer.data(), 100, 0));
  int repeats = 0;
  while (advance(request, -EAGAIN) == Step::reissued) {
    ASSERT_LT(++repeats, 100);
  }
  EXPECT_EQ(request.result, -EAGAIN);
}

TEST(Advance, AWantedCancellationIsFinal) {
  iow_request request = begun(make_request(IOW_OP_READ, 3, buffer.data(), 100, 0));
  journey_of(request).cancel_wanted = true;
  EXPECT_EQ(advance(request, -ECANCELED), Step::complete);
  EXPECT_EQ(request.result, -ECANCELED);
}

TEST(Advance, ExactMeansOneSystemCall) {
  for (const int64_t offset : {int64_t{0}, engine::kCurrentPosition}) {
    iow_request raw = make_request(IOW_OP_READ, 3, buffer.data(), 100, offset);
    raw.flags = offset == 0 ? IOW_EXACT : 0;
    for (const int64_t result : {int64_t{30}, int64_t{-EINTR}}) {
      iow_request request = begun(raw);
      EXPECT_EQ(advance(request, result), Step::complete);
      EXPECT_EQ(request.result, result);
    }
  }
}

TEST(Advance, TransfersAboveTheKernelsLimitGoOn) {
  constexpr uint64_t kBytes = 5ull << 30;
  iow_request request = begun(make_request(IOW_OP_READ, 3, buffer.data(), kBytes, 0));
  uint64_t left = kBytes;
  while (left > engine::kMaxTransferBytes) {
    ASSERT_EQ(advance(request, engine::kMaxTransferBytes), Step::continued);
    left -= engine::kMaxTransferBytes;
    EXPECT_EQ(journey_of(request).operation.length, left);
  }
  EXPECT_EQ(advance(request, static_cast<int64_t>(left)), Step::complete);
  EXPECT_EQ(request.result, static_cast<int64_t>(kBytes));
}

}  // namespace
}  // namespace ioweave::service
