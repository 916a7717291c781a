// Blocking calls and requests in C: data, positions, results, who runs a callback, how long a wait
// lasts.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fixture.hpp"
#include "support/child.hpp"
#include "support/watched_calls.hpp"

namespace ioweave::test {
namespace {

constexpr size_t kFileBytes = 100'000;
constexpr int kNoFd = 1'000'000;
constexpr std::byte kUntouched{0xEE};

std::vector<std::byte> content_of(const TempFile& file, size_t bytes) {
  std::vector<std::byte> content(bytes);
  const ssize_t got = ::pread(file.fd(), content.data(), bytes, 0);
  content.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return content;
}

/// `bytes` cut into vectors of the given lengths in turn, as far as it goes.
std::vector<iovec> vectors_over(std::vector<std::byte>& bytes, std::span<const size_t> lengths) {
  std::vector<iovec> vectors;
  size_t done = 0;
  for (size_t i = 0; done < bytes.size(); ++i) {
    const size_t length = std::min(lengths[i % lengths.size()], bytes.size() - done);
    vectors.push_back({bytes.data() + done, length});
    done += length;
  }
  return vectors;
}

constexpr std::array<size_t, 4> kUneven{1, 700, 0, 64};

// ---- Blocking calls
// ------------------------------------------------------------------------------

class CBlocking : public OnEveryEngine {};
INSTANTIATE_TEST_SUITE_P(, CBlocking, every_engine(), name_of);

TEST_P(CBlocking, ReadsUpToTheEndOfTheFileAndLeavesThePositionAlone) {
  const TempFile file(1000);
  std::vector<std::byte> buffer(600, kUntouched);
  EXPECT_EQ(iow_pread(service, file.fd(), buffer.data(), 600, 300), 600);
  EXPECT_EQ(buffer, pattern(300, 600));
  std::fill(buffer.begin(), buffer.end(), kUntouched);
  EXPECT_EQ(iow_pread(service, file.fd(), buffer.data(), 600, 900), 100);
  EXPECT_TRUE(std::equal(buffer.begin(), buffer.begin() + 100, pattern(900, 100).begin()));
  EXPECT_EQ(std::count(buffer.begin() + 100, buffer.end(), kUntouched), 500);
  EXPECT_EQ(iow_pread(service, file.fd(), buffer.data(), 600, 1000), 0);
  EXPECT_EQ(iow_pread(service, file.fd(), nullptr, 0, 0), 0);
  EXPECT_EQ(::lseek(file.fd(), 0, SEEK_CUR), 0);
}

TEST_P(CBlocking, WritesWhereItIsToldAndLeavesThePositionAlone) {
  const TempFile file(1000);
  const std::vector<std::byte> fresh(300, std::byte{7});
  EXPECT_EQ(iow_pwrite(service, file.fd(), fresh.data(), 300, 900), 300);
  std::vector<std::byte> expected = pattern(0, 900);
  expected.insert(expected.end(), fresh.begin(), fresh.end());
  EXPECT_EQ(content_of(file, 5000), expected);
  EXPECT_EQ(::lseek(file.fd(), 0, SEEK_CUR), 0);
}

TEST_P(CBlocking, ReadsIntoManyVectorsAndStopsWhereTheFileEnds) {
  const TempFile file(10'000);
  std::vector<std::byte> buffer(12'000, kUntouched);
  const std::vector<iovec> vectors = vectors_over(buffer, kUneven);
  ASSERT_GT(vectors.size(), 50u);
  EXPECT_EQ(iow_preadv(service, file.fd(), vectors.data(), static_cast<int>(vectors.size()), 77),
            10'000 - 77);
  std::vector<std::byte> expected = pattern(77, 10'000 - 77);
  expected.resize(12'000, kUntouched);
  EXPECT_EQ(buffer, expected);
  EXPECT_EQ(::lseek(file.fd(), 0, SEEK_CUR), 0);
}

TEST_P(CBlocking, WritesFromAsManyVectorsAsThereMayBe) {
  const TempFile file;
  std::vector<std::byte> content = pattern(0, 3 * IOV_MAX);
  const std::vector<iovec> vectors = vectors_over(content, std::array<size_t, 1>{3});
  ASSERT_EQ(vectors.size(), size_t{IOV_MAX});
  EXPECT_EQ(iow_pwritev(service, file.fd(), vectors.data(), IOV_MAX, 0), 3 * IOV_MAX);
  EXPECT_EQ(content_of(file, 10'000), content);
  EXPECT_EQ(iow_pwritev(service, file.fd(), vectors.data(), 2, 5000), 6);
  EXPECT_EQ(::lseek(file.fd(), 0, SEEK_END), 5006);
}

TEST_P(CBlocking, RefusesVectorsThatCannotBe) {
  const TempFile file(100);
  std::array<std::byte, 8> bytes{};
  const std::vector<iovec> many(IOV_MAX + 1, iovec{bytes.data(), 1});
  const std::array<iovec, 2> too_long{iovec{bytes.data(), SSIZE_MAX}, iovec{bytes.data(), 1}};
  for (const auto& call : {&iow_preadv, &iow_pwritev}) {
    EXPECT_EQ(call(service, file.fd(), many.data(), IOV_MAX + 1, 0), -EINVAL);
    EXPECT_EQ(call(service, file.fd(), many.data(), -1, 0), -EINVAL);
    EXPECT_EQ(call(service, file.fd(), many.data(), INT_MIN, 0), -EINVAL);
    EXPECT_EQ(call(service, file.fd(), nullptr, 1, 0), -EINVAL);
    EXPECT_EQ(call(service, file.fd(), too_long.data(), 2, 0), -EINVAL);
    EXPECT_EQ(call(service, file.fd(), many.data(), 1, -1), -EINVAL);
    EXPECT_EQ(call(service, file.fd(), nullptr, 0, 0), 0);
  }
  EXPECT_EQ(content_of(file, 1000), pattern(0, 100)) << "nothing was written";
}

TEST_P(CBlocking, GivesTheErrorsOfTheSystemCall) {
  const TempFile file(100, O_RDONLY);
  Gate gate;
  std::array<std::byte, 8> bytes{};
  const iovec vector{bytes.data(), bytes.size()};
  EXPECT_EQ(iow_pread(service, kNoFd, bytes.data(), 8, 0), -EBADF);
  EXPECT_EQ(iow_pread(service, file.fd(), bytes.data(), 8, -1), -EINVAL);
  EXPECT_EQ(iow_pread(service, file.fd(), bytes.data(), SIZE_MAX, 0), -EINVAL);
  EXPECT_EQ(iow_pread(service, gate.fd(), bytes.data(), 8, 0), -ESPIPE);
  EXPECT_EQ(iow_pwrite(service, file.fd(), bytes.data(), 8, 0), -EBADF) << "opened for reading";
  EXPECT_EQ(iow_pwrite(service, file.fd(), bytes.data(), 8, -5), -EINVAL);
  EXPECT_EQ(iow_preadv(service, kNoFd, &vector, 1, 0), -EBADF);
  EXPECT_EQ(iow_pwritev(service, file.fd(), &vector, 1, 0), -EBADF);
  for (const auto& call : {&iow_fsync, &iow_fdatasync}) {
    EXPECT_EQ(call(service, file.fd()), 0);
    EXPECT_EQ(call(service, kNoFd), -EBADF);
    EXPECT_EQ(call(service, gate.fd()), -EINVAL) << "a pipe";
  }
}

/// In a child, as the limit cannot be lifted again: 0 where `write`, asked for 2000 bytes of which
/// the limit lets 1000 pass, first tells these and then the error.
int writes_up_to_a_limit(const TempFile& file, iow_engine engine,
                         const std::function<int64_t(iow_service*, std::byte*, int64_t)>& write) {
  return run_in_child([&] {
    const rlimit limit{1000, 1000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0 || std::signal(SIGXFSZ, SIG_IGN) == SIG_ERR) {
      return 77;
    }
    iow_options options{};
    options.engine = engine;
    const OwnedService service = open_service(options);
    std::vector<std::byte> content = pattern(0, 2000);
    if (service == nullptr || write(service.get(), content.data(), 0) != 1000) {
      return 1;
    }
    return content_of(file, 5000) == pattern(0, 1000) &&
                   write(service.get(), content.data() + 1000, 1000) == -EFBIG
               ? 0
               : 2;
  });
}

TEST_P(CBlocking, AWriteThatMeetsAnErrorTellsWhatItWroteAndTheNextOneTellsTheError) {
  const TempFile file;
  EXPECT_EQ(writes_up_to_a_limit(file, GetParam(),
                                 [&](iow_service* limited, std::byte* from, int64_t at) -> int64_t {
                                   return iow_pwrite(limited, file.fd(), from, 2000, at);
                                 }),
            0);
}

// ---- What a request moves
// ------------------------------------------------------------------------

class CRequest : public OnEveryEngine {};
INSTANTIATE_TEST_SUITE_P(, CRequest, every_engine(), name_of);

TEST_P(CRequest, ReadsAndWritesAtAnOffset) {
  const TempFile file(kFileBytes);
  std::vector<std::byte> buffer(5000, kUntouched);
  iow_request read = make_request(IOW_OP_READ, file.fd(), buffer.data(), 5000, 12'345);
  EXPECT_EQ(result_of(read), 5000);
  EXPECT_EQ(buffer, pattern(12'345, 5000));
  iow_request past_end = make_request(IOW_OP_READ, file.fd(), buffer.data(), 5000, kFileBytes - 10);
  EXPECT_EQ(result_of(past_end), 10);

  std::vector<std::byte> fresh(3000, std::byte{9});
  iow_request write = make_request(IOW_OP_WRITE, file.fd(), fresh.data(), 3000, 50'000);
  EXPECT_EQ(result_of(write), 3000);
  std::vector<std::byte> expected = pattern(0, kFileBytes);
  std::copy(fresh.begin(), fresh.end(), expected.begin() + 50'000);
  EXPECT_EQ(content_of(file, kFileBytes + 1), expected);
  EXPECT_EQ(::lseek(file.fd(), 0, SEEK_CUR), 0);
}

TEST_P(CRequest, AsyncMovesTheSameBytes) {
  const TempFile file(10'000);
  std::vector<std::byte> buffer(5000);
  iow_request request = make_request(IOW_OP_READ, file.fd(), buffer.data(), 5000, 10);
  request.flags = IOW_ASYNC;
  ASSERT_EQ(submit(request), 1);
  ASSERT_EQ(iow_wait(service, &request, kForEver), 0);
  EXPECT_EQ(request.result, 5000);
  EXPECT_EQ(buffer, pattern(10, 5000));
}

TEST_P(CRequest, MovesVectors) {
  const TempFile file(10'000);
  std::vector<std::byte> buffer(12'000, kUntouched);
  std::vector<iovec> vectors = vectors_over(buffer, kUneven);
  iow_request read = make_request(IOW_OP_READV, file.fd(), vectors.data(), vectors.size(), 77);
  EXPECT_EQ(result_of(read), 10'000 - 77);
  std::vector<std::byte> expected = pattern(77, 10'000 - 77);
  expected.resize(12'000, kUntouched);
  EXPECT_EQ(buffer, expected);

  const TempFile target;
  iow_request write = make_request(IOW_OP_WRITEV, target.fd(), vectors.data(), vectors.size(), 0);
  EXPECT_EQ(result_of(write), 12'000);
  EXPECT_EQ(content_of(target, 20'000), buffer);
}

TEST_P(CRequest, WithoutAnOffsetMovesOnFromThePosition) {
  const TempFile file(1000);
  ASSERT_EQ(::lseek(file.fd(), 100, SEEK_SET), 100);
  std::vector<std::byte> buffer(400, kUntouched);
  for (const uint64_t at : {100u, 500u}) {
    iow_request read = make_request(IOW_OP_READ, file.fd(), buffer.data(), 400, -1);
    EXPECT_EQ(result_of(read), 400);
    EXPECT_EQ(buffer, pattern(at, 400));
  }
  iow_request at_end = make_request(IOW_OP_READ, file.fd(), buffer.data(), 400, -1);
  EXPECT_EQ(result_of(at_end), 100);
  EXPECT_EQ(::lseek(file.fd(), 0, SEEK_CUR), 1000);
  iow_request write = make_request(IOW_OP_WRITE, file.fd(), buffer.data(), 50, -1);
  EXPECT_EQ(result_of(write), 50);
  EXPECT_EQ(::lseek(file.fd(), 0, SEEK_END), 1050);
}

TEST_P(CRequest, SyncsAndPrefetchesAndDoesNothing) {
  const TempFile file(kFileBytes);
  for (const iow_op op : {IOW_OP_FSYNC, IOW_OP_FDATASYNC, IOW_OP_NOP}) {
    iow_request request = make_request(op, file.fd(), nullptr, 0, 0);
    request.result = -1;
    EXPECT_EQ(result_of(request), 0) << op;
  }
  iow_request prefetch = make_request(IOW_OP_PREFETCH, file.fd(), nullptr, kFileBytes, 0);
  EXPECT_EQ(result_of(prefetch), static_cast<int64_t>(kFileBytes));
  for (const uint64_t bytes : {uint64_t{0}, kFileBytes, uint64_t{1} << 40}) {
    iow_request write_back = make_request(IOW_OP_WRITE_BACK, file.fd(), nullptr, bytes, 0);
    write_back.result = -1;
    EXPECT_EQ(result_of(write_back), 0) << bytes;
  }
}

/// Bytes of changed pages whose writing has not begun; nothing without cachestat(2) (Linux 6.5).
std::optional<uint64_t> changed_bytes(int fd, uint64_t offset, uint64_t bytes) {
  constexpr long kCachestat = 451;
  const std::array<uint64_t, 2> range{offset, bytes};
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } answer{};
  if (::syscall(kCachestat, fd, range.data(), &answer, 0) != 0) {
    return std::nullopt;
  }
  return answer.dirty * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST_P(CRequest, WriteBackHasBegunToWriteWhatWasChangedInItsRange) {
  constexpr uint64_t kPiece = 256 << 10;
  struct Range {
    uint64_t offset, bytes, changed_at;
  };
  constexpr uint64_t kGiB = 1 << 30;  // the file has holes
  for (const Range& range :
       {Range{0, kPiece, 0}, Range{0, 0, kPiece}, Range{kPiece, 0, 3 * kGiB},
        Range{0, 3 * kGiB, 3 * kGiB - kPiece}, Range{kPiece, 6 * kGiB, 5 * kGiB},
        Range{kPiece, SSIZE_MAX, 5 * kGiB}}) {
    SCOPED_TRACE(std::to_string(range.bytes) + " bytes, changed at " +
                 std::to_string(range.changed_at));
    const TempFile file;  // of its own: what is being written just now would be left out
    const std::vector<std::byte> fresh(kPiece, std::byte{7});
    ASSERT_EQ(::pwrite(file.fd(), fresh.data(), kPiece, static_cast<off_t>(range.changed_at)),
              static_cast<ssize_t>(kPiece));
    if (changed_bytes(file.fd(), range.changed_at, kPiece).value_or(0) == 0) {
      GTEST_SKIP() << "the kernel tells of no changed page: no cachestat(2), or a file in memory";
    }
    iow_request request = make_request(IOW_OP_WRITE_BACK, file.fd(), nullptr, range.bytes,
                                       static_cast<int64_t>(range.offset));
    EXPECT_EQ(result_of(request), 0);
    EXPECT_EQ(changed_bytes(file.fd(), range.changed_at, kPiece), 0u);
  }
}

TEST_P(CRequest, ErrorsOfTheTransferAreItsResult) {
  const TempFile file(100, O_RDONLY);
  std::array<std::byte, 8> bytes{};
  iovec vector{bytes.data(), bytes.size()};
  for (const iow_op op :
       {IOW_OP_READ, IOW_OP_FSYNC, IOW_OP_FDATASYNC, IOW_OP_PREFETCH, IOW_OP_WRITE_BACK}) {
    iow_request bad = make_request(op, kNoFd, bytes.data(), 8, 0);
    EXPECT_EQ(result_of(bad), -EBADF) << op;
  }
  iow_request readv = make_request(IOW_OP_READV, kNoFd, &vector, 1, 0);
  EXPECT_EQ(result_of(readv), -EBADF);
  iow_request write = make_request(IOW_OP_WRITE, file.fd(), bytes.data(), 8, 0);
  EXPECT_EQ(result_of(write), -EBADF) << "opened for reading";
}

TEST_P(CRequest, AWriteThatMeetsAnErrorTellsWhatItWroteAndTheNextOneTellsTheError) {
  const TempFile file;
  const auto write = [&](iow_service* limited, std::byte* from, int64_t at) -> int64_t {
    iow_request request = make_request(IOW_OP_WRITE, file.fd(), from, 2000, at);
    iow_request* const one = &request;
    const bool well = iow_submit(limited, &one, 1) == 1 && iow_wait(limited, one, kForEver) == 0;
    return well ? request.result : -1;
  };
  EXPECT_EQ(writes_up_to_a_limit(file, GetParam(), write), 0);
}

TEST_P(CRequest, ExactIsOneSystemCallAndOtherwiseItGoesOn) {
  Gate gate;
  std::array<std::byte, 10> bytes{};
  iow_request exact = make_request(IOW_OP_READ, gate.fd(), bytes.data(), 10, 0);
  exact.flags = IOW_EXACT;
  gate.open("abc");
  EXPECT_EQ(result_of(exact), 3);

  iow_request all = make_request(IOW_OP_READ, gate.fd(), bytes.data(), 10, 0);
  gate.open("defg");
  ASSERT_EQ(submit(all), 1);
  EXPECT_EQ(iow_wait(service, &all, kMomentNs), -ETIME) << "six bytes are still to come";
  gate.open("hijklm");
  EXPECT_EQ(iow_wait(service, &all, kForEver), 0);
  EXPECT_EQ(all.result, 10);
  EXPECT_EQ(std::memcmp(bytes.data(), "defghijklm", 10), 0);
  EXPECT_GE(stats_of(service).continued, 1u);
}

/// io_uring itself waits for a pipe, O_NONBLOCK or not; the workers meet -EAGAIN.
class CWorkers : public OnEveryEngine {};
INSTANTIATE_TEST_SUITE_P(, CWorkers, ::testing::Values(IOW_ENGINE_AIO, IOW_ENGINE_THREADS),
                         name_of);

TEST_P(CWorkers, ExactDoesNotRepeatWhatWouldBlock) {
  Gate gate;
  ASSERT_EQ(::fcntl(gate.fd(), F_SETFL, O_NONBLOCK), 0);
  iow_request exact = gate.wait_for_byte(0);
  exact.flags = IOW_EXACT;
  EXPECT_EQ(result_of(exact), -EAGAIN);
  EXPECT_EQ(stats_of(service).reissued, 0u);
  iow_request patient = gate.wait_for_byte(0);
  EXPECT_EQ(result_of(patient), -EAGAIN);
  EXPECT_GT(stats_of(service).reissued, 0u);
}

// ---- Submission
// ----------------------------------------------------------------------------------

TEST_P(CRequest, MalformedOnesAreRefusedAndChangeNothing) {
  std::array<std::byte, 8> bytes{};
  const std::vector<iovec> many(IOV_MAX + 1, iovec{bytes.data(), 1});
  const std::array<iovec, 2> too_long{iovec{bytes.data(), SSIZE_MAX}, iovec{bytes.data(), 1}};
  const TempFile file(100);
  const int fd = file.fd();
  const auto vectored = [&](const iovec* vectors, uint64_t count) {
    return make_request(IOW_OP_READV, fd, const_cast<iovec*>(vectors), count, 0);
  };
  iow_request op = make_nop();
  op.op = IOW_OP_WRITE_BACK + 1;
  iow_request flag = make_nop();
  flag.flags = 1u << 5;
  iow_request flow = make_nop();
  flow.flow = 1;
  const std::array<iow_request, 11> malformed{
      op,
      flag,
      flow,
      make_request(IOW_OP_READ, fd, bytes.data(), 8, -2),
      make_request(IOW_OP_WRITE, fd, bytes.data(), 8, INT64_MIN),
      make_request(IOW_OP_PREFETCH, fd, nullptr, 8, -1),
      make_request(IOW_OP_WRITE_BACK, fd, nullptr, 8, -1),
      make_request(IOW_OP_READ, fd, bytes.data(), uint64_t{SSIZE_MAX} + 1, 0),
      vectored(many.data(), IOV_MAX + 1),
      vectored(nullptr, 1),
      vectored(too_long.data(), 2)};
  for (size_t i = 0; i < malformed.size(); ++i) {
    iow_request request = malformed[i];
    EXPECT_EQ(submit(request), -EINVAL) << i;
    EXPECT_EQ(iow_wait(service, &request, kForEver), -EINVAL) << i << " was never submitted";
    EXPECT_EQ(iow_test(service, &request), 0) << i;
    EXPECT_EQ(iow_cancel(service, &request), -EALREADY) << i;
  }
  EXPECT_EQ(stats_of(service).submitted, 0u);
  EXPECT_EQ(content_of(file, 1000), pattern(0, 100));
}

TEST_P(CRequest, ThoseBeforeAMalformedOneAreTakenAndTheNextCallTellsItsError) {
  std::array<iow_request, 4> requests{make_nop(), make_nop(), make_nop(), make_nop()};
  requests[2].flow = 4095;
  std::array<iow_request*, 4> list{&requests[0], &requests[1], &requests[2], &requests[3]};
  EXPECT_EQ(iow_submit(service, list.data(), 4), 2);
  EXPECT_EQ(iow_submit(service, list.data() + 2, 2), -EINVAL);
  EXPECT_EQ(iow_wait_all(service, list.data(), 2, kForEver), 0);
  EXPECT_EQ(iow_wait(service, list[3], kForEver), -EINVAL) << "came after the malformed one";
}

TEST_P(CRequest, OneInFlightCannotBeSubmittedAgainAndOneThatEndedCan) {
  Gate gate;
  iow_request request = gate.wait_for_byte();
  ASSERT_EQ(submit(request), 1);
  EXPECT_EQ(submit(request), -EBUSY);
  gate.open("ab");
  EXPECT_EQ(iow_wait(service, &request, kForEver), 0);
  EXPECT_EQ(request.result, 1);
  EXPECT_EQ(result_of(request), 1);
}

TEST_P(CRequest, NoneIsNone) {
  EXPECT_EQ(iow_submit(service, nullptr, 0), 0);
  EXPECT_EQ(iow_wait_all(service, nullptr, 0, kForEver), 0);
  EXPECT_EQ(iow_poll(service, 5, kForEver), 0) << "nothing is in flight: it must not sleep";
  EXPECT_EQ(iow_submit(service, nullptr, unsigned{INT_MAX} + 1), -EINVAL);
}

/// Eight reads with IOW_MORE on the last one, too.
struct HeldBatch {
  explicit HeldBatch(const TempFile& file) : buffer(8 * 512, kUntouched) {
    for (size_t i = 0; i < 8; ++i) {
      requests[i] = make_request(IOW_OP_READ, file.fd(), &buffer[i * 512], 512,
                                 static_cast<int64_t>(i * 512));
      requests[i].flags = IOW_MORE;
      list[i] = &requests[i];
    }
  }
  std::vector<std::byte> buffer;
  std::array<iow_request, 8> requests;
  std::array<iow_request*, 8> list{};
};

class CBatch : public OnEveryEngine {
 protected:
  /// Submits a batch that may be held, then `hand_over`, after which all of it must end.
  void expect_all_after(const std::function<void(HeldBatch&)>& hand_over) {
    const TempFile file(kFileBytes);
    HeldBatch batch(file);
    ASSERT_EQ(iow_submit(service, batch.list.data(), 8), 8);
    hand_over(batch);
    ASSERT_EQ(iow_wait_all(service, batch.list.data(), 8, kForEver), 0);
    for (const iow_request& request : batch.requests) {
      EXPECT_EQ(request.result, 512);
    }
    EXPECT_EQ(batch.buffer, pattern(0, batch.buffer.size()));
  }
};
INSTANTIATE_TEST_SUITE_P(, CBatch, every_engine(), name_of);

TEST_P(CBatch, GoesOutWithASubmissionThatIsNotHeld) {
  expect_all_after([&](HeldBatch& batch) {
    EXPECT_EQ(iow_submit(service, nullptr, 0), 0);
    // Another thread only looks: it can hand over nothing of ours.
    std::thread([&] {
      for (iow_request& request : batch.requests) {
        EXPECT_EQ(iow_wait(service, &request, kForEver), 0);
      }
    }).join();
  });
}

TEST_P(CBatch, GoesOutWithATest) {
  expect_all_after([&](HeldBatch& batch) {
    while (iow_test(service, batch.list[7]) == 0) {
      std::this_thread::yield();
    }
  });
}

TEST_P(CBatch, GoesOutWithAPollWhichCountsThem) {
  expect_all_after([&](HeldBatch& batch) {
    EXPECT_EQ(iow_poll(service, 8, kForEver), 8);
    for (iow_request& request : batch.requests) {
      EXPECT_EQ(iow_test(service, &request), 1);
    }
  });
}

TEST_P(CBatch, GoesOutWithAWaitForAnother) {
  expect_all_after([&](HeldBatch& batch) {
    iow_request other = make_nop();
    other.flags = IOW_MORE;
    ASSERT_EQ(submit(other), 1);
    EXPECT_EQ(iow_wait(service, &other, kForEver), 0);
    std::thread([&] { EXPECT_EQ(iow_wait(service, batch.list[0], kForEver), 0); }).join();
  });
}

TEST_P(CBatch, GoesOutWithATestOrAWaitForOneThatIsElsewhere) {
  iow_flow_options options{};
  options.max_in_flight = 1;  // so that its requests take another way than the batch
  const int flow = iow_flow_create(service, "elsewhere", &options, nullptr);
  ASSERT_GT(flow, 0);
  for (const bool waits : {false, true}) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    std::byte byte{};
    iow_request other = make_request(IOW_OP_READ, pipe[0], &byte, 1, -1);
    other.flow = static_cast<uint32_t>(flow);
    ASSERT_EQ(submit(other), 1);
    iow_request held = make_request(IOW_OP_WRITE, pipe[1], &byte, 1, -1);
    held.flags = IOW_MORE;
    ASSERT_EQ(submit(held), 1);
    // Other ends when the held one has been handed over, and not before.
    const auto patience = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kLongNs);
    while (!waits && iow_test(service, &other) == 0 &&
           std::chrono::steady_clock::now() < patience) {
      std::this_thread::yield();
    }
    EXPECT_EQ(iow_wait(service, &other, waits ? kLongNs : 0), 0) << (waits ? "wait" : "test");
    EXPECT_EQ(iow_wait(service, &held, kForEver), 0);
    EXPECT_EQ(iow_wait(service, &other, kForEver), 0);
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
}

/// The operations that each io_uring_enter(2) submits, of those that submit some: what makes the
/// queue of a service, and then `body` with it.
bool count_submissions(std::vector<uint64_t>& submitted,
                       const std::function<void(iow_service*)>& body) {
  return run_watched(
      {SYS_io_uring_enter},
      [&](const WatchedCall& call) {
        if (call.arguments[1] != 0) {
          submitted.push_back(call.arguments[1]);
        }
      },
      [&] {
        iow_options options{};
        options.engine = IOW_ENGINE_URING;
        const OwnedService service = open_service(options);
        iow_request first = make_nop();  // makes the queue of this thread
        iow_request* const one = &first;
        ASSERT_EQ(iow_submit(service.get(), &one, 1), 1);
        ASSERT_EQ(iow_wait(service.get(), one, kForEver), 0);
        body(service.get());
      });
}

TEST(CBatchOfMore, IsOneSystemCallWhetherTheLastOneOrAWaitHandsItOver) {
  iow_options options{};
  options.engine = IOW_ENGINE_URING;
  options.required = 1;
  std::string why;
  if (open_service(options, &why) == nullptr) {
    GTEST_SKIP() << why;
  }
  const TempFile file(kFileBytes);
  std::vector<uint64_t> submitted;
  const bool watched = count_submissions(submitted, [&](iow_service* service) {
    HeldBatch one_call(file);
    one_call.requests[7].flags = 0;
    EXPECT_EQ(iow_submit(service, one_call.list.data(), 8), 8);
    EXPECT_EQ(iow_wait_all(service, one_call.list.data(), 8, kForEver), 0);
    HeldBatch eight_calls(file);
    eight_calls.requests[7].flags = 0;
    HeldBatch waited_for(file);
    for (HeldBatch* const batch : {&eight_calls, &waited_for}) {
      for (size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(iow_submit(service, &batch->list[i], 1), 1);
      }
      EXPECT_EQ(iow_wait_all(service, batch->list.data(), 8, kForEver), 0);
    }
    HeldBatch alone(file);
    for (size_t i = 0; i < 2; ++i) {
      alone.requests[i].flags = 0;
      EXPECT_EQ(iow_submit(service, &alone.list[i], 1), 1);
    }
    EXPECT_EQ(iow_wait_all(service, alone.list.data(), 2, kForEver), 0);
  });
  if (!watched) {
    GTEST_SKIP() << "no notifications of seccomp here";
  }
  // Those before them made the queue.
  ASSERT_GE(submitted.size(), 5u);
  submitted.erase(submitted.begin(), submitted.end() - 5);
  EXPECT_EQ(submitted, (std::vector<uint64_t>{8, 8, 8, 1, 1}));
}

TEST(CNoWait, WhatIsNotTakenHoldsNoLowerClassBack) {
  iow_options options{};
  options.engine = IOW_ENGINE_URING;
  options.required = 1;
  options.queue_depth = 1;
  std::string why;
  const OwnedService service = open_service(options, &why);
  if (service == nullptr) {
    GTEST_SKIP() << why;
  }
  iow_flow_options lower{};
  lower.priority = IOW_PREFETCH;
  const int flow = iow_flow_create(service.get(), "lower", &lower, nullptr);
  ASSERT_GT(flow, 0);
  const auto submit = [&](iow_request& request) {
    iow_request* const one = &request;
    return iow_submit(service.get(), &one, 1);
  };
  Gate gate;
  iow_request taken = gate.wait_for_byte();
  ASSERT_EQ(submit(taken), 1);
  iow_request refused = make_nop();
  refused.flags = IOW_NOWAIT;
  ASSERT_EQ(submit(refused), -EAGAIN);
  gate.open();
  ASSERT_EQ(iow_wait(service.get(), &taken, kForEver), 0);
  iow_request low = make_nop();
  low.flow = static_cast<uint32_t>(flow);
  ASSERT_EQ(submit(low), 1);
  EXPECT_EQ(iow_wait(service.get(), &low, kLongNs), 0);
}

TEST(CNoWait, TakesWhatThereIsRoomForAndNeverSleeps) {
  iow_options options{};
  options.engine = IOW_ENGINE_URING;
  options.required = 1;
  options.queue_depth = 4;
  std::string why;
  const OwnedService service = open_service(options, &why);
  if (service == nullptr) {
    GTEST_SKIP() << why;
  }
  Gate gate;
  std::array<std::byte, 6> bytes{};
  std::array<iow_request, 6> requests;
  std::array<iow_request*, 6> list{};
  for (size_t i = 0; i < 6; ++i) {
    requests[i] = make_request(IOW_OP_READ, gate.fd(), &bytes[i], 1, -1);
    requests[i].flags = IOW_NOWAIT;
    list[i] = &requests[i];
  }
  ASSERT_EQ(iow_submit(service.get(), list.data(), 6), 4) << "as many as queue_depth";
  EXPECT_EQ(iow_submit(service.get(), &list[4], 2), -EAGAIN);
  EXPECT_EQ(iow_wait(service.get(), list[4], kForEver), -EINVAL) << "was not taken";
  EXPECT_EQ(stats_of(service.get()).submitted, 4u);
  gate.open("1234");
  EXPECT_EQ(iow_wait_all(service.get(), list.data(), 4, kForEver), 0);
  EXPECT_EQ(iow_submit(service.get(), &list[4], 2), 2);
  gate.open("56");
  EXPECT_EQ(iow_wait_all(service.get(), list.data(), 6, kForEver), 0);
  std::sort(bytes.begin(), bytes.end());
  EXPECT_EQ(std::memcmp(bytes.data(), "123456", 6), 0);
}

TEST_P(CRequest, AFullQueueMakesTheSubmitterSleepAndTakesAll) {
  iow_options options{};
  options.queue_depth = 2;
  open(options);
  const TempFile file(kFileBytes);
  std::vector<std::byte> buffer(100 * 512);
  std::vector<iow_request> requests;
  std::vector<iow_request*> list;
  requests.reserve(100);
  for (size_t i = 0; i < 100; ++i) {
    requests.push_back(
        make_request(IOW_OP_READ, file.fd(), &buffer[i * 512], 512, static_cast<int64_t>(i * 512)));
    list.push_back(&requests[i]);
  }
  EXPECT_EQ(iow_submit(service, list.data(), 100), 100);
  EXPECT_EQ(iow_wait_all(service, list.data(), 100, kForEver), 0);
  EXPECT_EQ(buffer, pattern(0, buffer.size()));
}

// ---- Waiting
// -------------------------------------------------------------------------------------

TEST_P(CRequest, AWaitEndsWithItsTimeAndTheRequestGoesOn) {
  Gate gate;
  iow_request request = gate.wait_for_byte();
  iow_request* const one = &request;
  ASSERT_EQ(submit(request), 1);
  for (const int64_t timeout_ns : {int64_t{0}, int64_t{1'000'000}}) {
    EXPECT_EQ(iow_wait(service, &request, timeout_ns), -ETIME);
    EXPECT_EQ(iow_wait_all(service, &one, 1, timeout_ns), -ETIME);
    EXPECT_EQ(iow_poll(service, 1, timeout_ns), 0);
  }
  EXPECT_EQ(iow_test(service, &request), 0);
  gate.open();
  EXPECT_EQ(iow_wait(service, &request, kForEver), 0);
  EXPECT_EQ(request.result, 1);
  EXPECT_EQ(iow_wait(service, &request, 0), 0) << "it has ended: waiting again costs no time";
  EXPECT_EQ(iow_wait_all(service, &one, 1, 0), 0);
  EXPECT_EQ(iow_test(service, &request), 1);
}

TEST_P(CRequest, AWaitWithoutTimeSeesWhatHasEnded) {
  const TempFile file(100);
  iow_request request = make_request(IOW_OP_FSYNC, file.fd(), nullptr, 0, 0);
  ASSERT_EQ(submit(request), 1);
  int error = -ETIME;
  for (int look = 0; look < 1'000'000 && error == -ETIME; ++look) {
    error = iow_wait(service, &request, 0);
  }
  EXPECT_EQ(error, 0);
  EXPECT_EQ(iow_wait(service, &request, kForEver), 0);
}

std::atomic<int> signals_handled{0};

/// Sends a signal whose handler interrupts system calls, each time when the thread is asleep, until
/// it has come `times` times or the thread is `done`.
void interrupt_in_sleep(pthread_t thread, pid_t id, int times, const std::atomic<bool>& done) {
  const std::string stat = "/proc/self/task/" + std::to_string(id) + "/stat";
  for (int sent = 0; sent < times && !done;) {
    std::string text;
    std::getline(std::ifstream(stat), text);
    if (text.find(") S ") == std::string::npos) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(::pthread_kill(thread, SIGUSR1), 0);
    ++sent;
    while (signals_handled < sent) {
      std::this_thread::yield();
    }
  }
}

TEST_P(CRequest, AWaitGoesOnAfterASignal) {
  struct sigaction counts {};
  counts.sa_handler = [](int) { ++signals_handled; };  // without SA_RESTART
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &counts, &before), 0);
  iow_flow_options options{};
  options.max_in_flight = 1;  // so that its requests take another way
  const int flow = iow_flow_create(service, "elsewhere", &options, nullptr);
  ASSERT_GT(flow, 0);
  using WaitFor = int (*)(iow_service*, iow_request*);
  const std::array<WaitFor, 3> waits{
      [](iow_service* of, iow_request* request) { return iow_wait(of, request, kForEver); },
      [](iow_service* of, iow_request* request) { return iow_wait_all(of, &request, 1, kForEver); },
      [](iow_service* of, iow_request*) { return iow_poll(of, 1, kForEver) - 1; }};
  for (const int of_flow : {0, flow}) {
    for (size_t i = 0; i < waits.size(); ++i) {
      SCOPED_TRACE(std::to_string(i) + " in flow " + std::to_string(of_flow));
      Gate gate;
      iow_request request = gate.wait_for_byte();
      request.flow = static_cast<uint32_t>(of_flow);
      signals_handled = 0;
      std::atomic<pid_t> waiter{0};
      std::atomic<bool> done{false};
      int answer = -1;
      std::thread thread([&] {
        EXPECT_EQ(submit(request), 1);
        waiter = ::gettid();
        answer = waits.at(i)(service, &request);
        done = true;
      });
      while (waiter == 0) {
        std::this_thread::yield();
      }
      interrupt_in_sleep(thread.native_handle(), waiter, 5, done);
      EXPECT_FALSE(done);
      gate.open();
      thread.join();
      EXPECT_EQ(answer, 0);
      EXPECT_EQ(request.result, 1);
    }
  }
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST_P(CRequest, TheLongestTimeIsLong) {
  Gate gate;
  iow_request request = gate.wait_for_byte();
  iow_request* const one = &request;
  ASSERT_EQ(submit(request), 1);
  std::thread opener([&] { gate.open(); });
  EXPECT_EQ(iow_wait(service, &request, INT64_MAX), 0);
  EXPECT_EQ(iow_wait_all(service, &one, 1, INT64_MAX), 0);
  opener.join();
  EXPECT_EQ(request.result, 1);
}

TEST_P(CRequest, WaitingForAllEndsWithTheFirstError) {
  Gate gate;
  iow_request ended = make_nop();
  iow_request blocked = gate.wait_for_byte();
  iow_request never = make_nop();
  ASSERT_EQ(submit(ended), 1);
  ASSERT_EQ(submit(blocked), 1);
  const std::array<iow_request*, 3> list{&ended, &blocked, &never};
  EXPECT_EQ(iow_wait_all(service, list.data(), 3, kMomentNs), -ETIME);
  EXPECT_EQ(iow_test(service, &ended), 1) << "what came before the error has ended";
  gate.open();
  EXPECT_EQ(iow_wait_all(service, list.data(), 3, kForEver), -EINVAL);
  EXPECT_EQ(iow_wait_all(service, list.data(), 2, kForEver), 0);
}

TEST_P(CRequest, ATestSeesTheEndAndTheResult) {
  Gate gate;
  std::array<std::byte, 3> bytes{};
  iow_request request = make_request(IOW_OP_READ, gate.fd(), bytes.data(), 3, -1);
  ASSERT_EQ(submit(request), 1);
  EXPECT_EQ(iow_test(service, &request), 0);
  gate.open("xyz");
  while (iow_test(service, &request) == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(request.result, 3);
  EXPECT_EQ(std::memcmp(bytes.data(), "xyz", 3), 0);
}

TEST_P(CRequest, APollSleepsForAsManyAsItIsAskedFor) {
  Gate gate;
  std::array<std::byte, 3> bytes{};
  std::array<iow_request, 3> requests;
  for (size_t i = 0; i < 3; ++i) {
    requests[i] = make_request(IOW_OP_READ, gate.fd(), &bytes[i], 1, -1);
    ASSERT_EQ(submit(requests[i]), 1);
  }
  EXPECT_EQ(iow_poll(service, 0, kForEver), 0) << "asked for none, it only looks";
  gate.open("ab");
  EXPECT_EQ(iow_poll(service, 2, kForEver), 2);
  gate.open("c");
  EXPECT_EQ(iow_poll(service, 100, kForEver), 1) << "no longer than anything is in flight";
  EXPECT_EQ(iow_poll(service, 1, kForEver), 0);
}

TEST_P(CRequest, APollIsAboutTheRequestsOfItsOwnThread) {
  Gate gate;
  iow_request request = gate.wait_for_byte();
  ASSERT_EQ(submit(request), 1);
  std::thread([&] { EXPECT_EQ(iow_poll(service, 1, kForEver), 0); }).join();
  gate.open();
  EXPECT_EQ(iow_poll(service, 1, kForEver), 1);
  EXPECT_EQ(request.result, 1);
}

// ---- Callbacks
// -----------------------------------------------------------------------------------

TEST_P(CRequest, CallbacksRunOnceOnTheServicesThreadWithTheResult) {
  const TempFile file(kFileBytes);
  std::vector<std::byte> buffer(1000);
  Calls calls;
  iow_request request = make_request(IOW_OP_READ, file.fd(), buffer.data(), 1000, 10);
  request.callback = &note_call;
  request.user = &calls;
  ASSERT_EQ(submit(request), 1);
  await(calls.count, 1);
  EXPECT_EQ(calls.result, 1000);
  EXPECT_EQ(buffer, pattern(10, 1000));
  const std::thread::id first = calls.thread;
  EXPECT_NE(first, std::this_thread::get_id());
  EXPECT_EQ(iow_poll(service, 1, kForEver), 0) << "those are nobody's to poll for";

  iow_request failing = make_request(IOW_OP_READ, kNoFd, buffer.data(), 1000, 10);
  failing.callback = &note_call;
  failing.user = &calls;
  ASSERT_EQ(submit(failing), 1);
  await(calls.count, 2);
  EXPECT_EQ(calls.result, -EBADF);
  EXPECT_NE(calls.thread.load(), std::this_thread::get_id());
  close();
  EXPECT_EQ(calls.count, 2);
}

TEST_P(CRequest, CallbacksOnPollRunInsideThePollOfTheSubmitter) {
  Calls calls;
  std::array<iow_request, 10> requests;
  for (iow_request& request : requests) {
    request = make_nop();
    request.flags = IOW_CALLBACK_ON_POLL;
    request.callback = &note_call;
    request.user = &calls;
    ASSERT_EQ(submit(request), 1);
  }
  std::thread([&] { (void)iow_poll(service, 10, kMomentNs); }).join();
  EXPECT_EQ(calls.count, 0) << "another thread's poll runs none of ours, nor does a submission";
  int polled = 0;
  while (polled < 10) {
    const int now = iow_poll(service, 1, kForEver);
    ASSERT_GT(now, 0);
    polled += now;
    EXPECT_EQ(calls.count, polled);
  }
  EXPECT_EQ(polled, 10);
  EXPECT_EQ(calls.thread.load(), std::this_thread::get_id());
}

TEST_P(CRequest, CallbacksOnPollRunInsideTheWaitsOfTheSubmitterToo) {
  iow_flow_options options{};
  options.max_in_flight = 1;  // so that its requests take another way
  const int flow = iow_flow_create(service, "elsewhere", &options, nullptr);
  ASSERT_GT(flow, 0);
  const auto patience = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kLongNs);
  for (const bool all : {false, true}) {
    for (const int of_flow : {0, flow}) {
      for (const int wait_in_flow : {0, flow}) {
        SCOPED_TRACE(std::to_string(of_flow) + " " + std::to_string(wait_in_flow));
        Calls calls;
        iow_request request = make_nop();
        request.flow = static_cast<uint32_t>(of_flow);
        request.flags = IOW_CALLBACK_ON_POLL;
        request.callback = &note_call;
        request.user = &calls;
        ASSERT_EQ(submit(request), 1);
        Gate gate;
        iow_request other = gate.wait_for_byte();
        other.flow = static_cast<uint32_t>(wait_in_flow);
        iow_request* const one = &other;
        ASSERT_EQ(submit(other), 1);
        EXPECT_EQ(calls.count, 0) << "no submission runs it";
        while (calls.count == 0 && std::chrono::steady_clock::now() < patience) {
          EXPECT_EQ(all ? iow_wait_all(service, &one, 1, 1'000'000)
                        : iow_wait(service, &other, 1'000'000),
                    -ETIME);
        }
        const int in_waits = calls.count;
        gate.open();
        EXPECT_EQ(iow_wait(service, &other, kForEver), 0);
        while (calls.count == 0) {
          (void)iow_poll(service, 1, kMomentNs);  // its memory ends here
        }
        ASSERT_EQ(in_waits, 1);
        EXPECT_EQ(calls.count, 1);
        EXPECT_EQ(calls.thread.load(), std::this_thread::get_id());
      }
    }
  }
}

struct Chain {
  iow_service* service;
  std::atomic<int> left;
};

void submit_again(iow_request* request, void* user) {
  auto& chain = *static_cast<Chain*>(user);
  if (chain.left > 1) {
    EXPECT_EQ(iow_submit(chain.service, &request, 1), 1);
  }
  --chain.left;
}

TEST_P(CRequest, ACallbackMaySubmitItsRequestAgain) {
  for (const unsigned flags : {0u, static_cast<unsigned>(IOW_CALLBACK_ON_POLL)}) {
    Chain chain{service, 50};
    iow_request request = make_nop();
    request.flags = static_cast<uint8_t>(flags);
    request.callback = &submit_again;
    request.user = &chain;
    ASSERT_EQ(submit(request), 1);
    while (chain.left > 0) {
      (void)iow_poll(service, 1, kMomentNs);
    }
    EXPECT_EQ(request.result, 0);
  }
}

// ---- Registered buffers and files
// ----------------------------------------------------------------

class CRegistered : public OnEveryEngine {
 protected:
  int64_t read_with(int fd, std::byte* into, uint64_t bytes, int64_t offset, int buffer, int file) {
    iow_request request = make_request(IOW_OP_READ, fd, into, bytes, offset);
    request.fixed_buffer = static_cast<uint16_t>(buffer);
    request.fixed_file = static_cast<uint16_t>(file);
    return result_of(request);
  }
};
INSTANTIATE_TEST_SUITE_P(, CRegistered, every_engine(), name_of);

TEST_P(CRegistered, BuffersAndFilesMoveTheSameBytes) {
  const TempFile file(kFileBytes);
  std::vector<std::byte> memory(8192, kUntouched);
  const int buffer = iow_register_buffer(service, memory.data(), memory.size());
  const int descriptor = iow_register_file(service, file.fd());
  ASSERT_GE(buffer, 1);
  ASSERT_LE(buffer, 1023);
  ASSERT_GE(descriptor, 1);
  ASSERT_LE(descriptor, 1023);
  EXPECT_EQ(read_with(file.fd(), &memory[100], 4000, 777, buffer, descriptor), 4000);
  EXPECT_TRUE(std::equal(&memory[100], &memory[4100], pattern(777, 4000).begin()));
  EXPECT_EQ(std::count(memory.begin(), memory.begin() + 100, kUntouched), 100);

  iow_request write = make_request(IOW_OP_WRITE, file.fd(), &memory[100], 4000, 50'000);
  write.fixed_buffer = static_cast<uint16_t>(buffer);
  write.fixed_file = static_cast<uint16_t>(descriptor);
  EXPECT_EQ(result_of(write), 4000);
  std::vector<std::byte> back(4000);
  EXPECT_EQ(::pread(file.fd(), back.data(), 4000, 50'000), 4000);
  EXPECT_EQ(back, pattern(777, 4000));
  EXPECT_EQ(iow_unregister_buffer(service, buffer), 0);
  EXPECT_EQ(iow_unregister_file(service, descriptor), 0);
}

TEST_P(CRegistered, AnIdThatDoesNotFitTheRequestDoesNoHarm) {
  const TempFile file(kFileBytes);
  const TempFile other(10);
  std::vector<std::byte> memory(4096);
  std::vector<std::byte> elsewhere(4096);
  const int buffer = iow_register_buffer(service, memory.data(), memory.size());
  const int descriptor = iow_register_file(service, other.fd());
  EXPECT_EQ(read_with(file.fd(), elsewhere.data(), 4096, 55, buffer, descriptor), 4096);
  EXPECT_EQ(elsewhere, pattern(55, 4096));
  EXPECT_EQ(read_with(file.fd(), elsewhere.data(), 4096, 66, 1023, UINT16_MAX), 4096);
  EXPECT_EQ(elsewhere, pattern(66, 4096));
}

TEST_P(CRegistered, RefusesWhatIsNoMemoryAndNoDescriptor) {
  std::byte byte{};
  EXPECT_EQ(iow_register_buffer(service, nullptr, 10), -EINVAL);
  EXPECT_EQ(iow_register_buffer(service, &byte, 0), -EINVAL);
  EXPECT_EQ(iow_register_file(service, -1), -EBADF);
  EXPECT_EQ(iow_register_file(service, kNoFd), -EBADF);
}

TEST_P(CRegistered, WhatIsNotRegisteredCannotBeUnregistered) {
  std::byte byte{};
  const TempFile file;
  const int buffer = iow_register_buffer(service, &byte, 1);
  const int descriptor = iow_register_file(service, file.fd());
  for (const int id :
       {INT_MIN, -1, 0, buffer + 1, 1023, 1024, UINT16_MAX, UINT16_MAX + 1 + buffer, INT_MAX}) {
    EXPECT_EQ(iow_unregister_buffer(service, id), -ENOENT) << id;
    EXPECT_EQ(iow_unregister_file(service, id), -ENOENT) << id;
  }
  EXPECT_EQ(iow_unregister_buffer(service, buffer), 0);
  EXPECT_EQ(iow_unregister_buffer(service, buffer), -ENOENT);
  EXPECT_EQ(iow_unregister_file(service, descriptor), 0);
  EXPECT_EQ(iow_unregister_file(service, descriptor), -ENOENT);
}

TEST_P(CRegistered, ThereAre1023IdsOfEachAndTheyAreUsedAgain) {
  std::vector<std::byte> memory(1023);
  const TempFile file;
  for (size_t i = 0; i < 1023; ++i) {
    ASSERT_EQ(iow_register_buffer(service, &memory[i], 1), static_cast<int>(i + 1));
    ASSERT_EQ(iow_register_file(service, file.fd()), static_cast<int>(i + 1));
  }
  EXPECT_EQ(iow_register_buffer(service, memory.data(), 1), -ENOSPC);
  EXPECT_EQ(iow_register_file(service, file.fd()), -ENOSPC);
  EXPECT_EQ(iow_unregister_buffer(service, 500), 0);
  EXPECT_EQ(iow_unregister_file(service, 600), 0);
  EXPECT_EQ(iow_register_buffer(service, memory.data(), 1), 500);
  EXPECT_EQ(iow_register_file(service, file.fd()), 600);
}

TEST_P(CRegistered, AnIdUsedAgainMeansTheNewMemoryAndTheNewFile) {
  const TempFile first(kFileBytes);
  const TempFile second;
  std::vector<std::byte> content(4096, std::byte{3});
  ASSERT_EQ(::pwrite(second.fd(), content.data(), 4096, 0), 4096);
  std::vector<std::byte> one(4096);
  std::vector<std::byte> two(4096);
  const int buffer = iow_register_buffer(service, one.data(), one.size());
  const int descriptor = iow_register_file(service, first.fd());
  EXPECT_EQ(read_with(first.fd(), one.data(), 4096, 0, buffer, descriptor), 4096);
  EXPECT_EQ(iow_unregister_buffer(service, buffer), 0);
  EXPECT_EQ(iow_unregister_file(service, descriptor), 0);
  ASSERT_EQ(iow_register_buffer(service, two.data(), two.size()), buffer);
  ASSERT_EQ(iow_register_file(service, second.fd()), descriptor);
  EXPECT_EQ(read_with(second.fd(), two.data(), 4096, 0, buffer, descriptor), 4096);
  EXPECT_EQ(two, content);
  EXPECT_EQ(one, pattern(0, 4096));
}

TEST_P(CRegistered, ADescriptorOpenedAgainUnderItsNumberIsTheNewFile) {
  const TempFile first(kFileBytes);
  const TempFile second;
  std::vector<std::byte> content(4096, std::byte{3});
  ASSERT_EQ(::pwrite(second.fd(), content.data(), 4096, 0), 4096);
  const int fd = ::dup(first.fd());
  std::vector<std::byte> buffer(4096);
  const int descriptor = iow_register_file(service, fd);
  EXPECT_EQ(read_with(fd, buffer.data(), 4096, 0, 0, descriptor), 4096);
  EXPECT_EQ(buffer, pattern(0, 4096));
  EXPECT_EQ(iow_unregister_file(service, descriptor), 0);
  ASSERT_EQ(::dup2(second.fd(), fd), fd);  // as close and open do
  ASSERT_EQ(iow_register_file(service, fd), descriptor);
  EXPECT_EQ(read_with(fd, buffer.data(), 4096, 0, 0, descriptor), 4096);
  EXPECT_EQ(buffer, content);
  ::close(fd);
}

TEST_P(CRegistered, MemoryMappedAgainAtItsAddressIsTheNewMemory) {
  const TempFile file(kFileBytes);
  const auto map_at = [](void* address, int fixed) {
    return ::mmap(address, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1,
                  0);
  };
  void* const memory = map_at(nullptr, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(memory);
  const int buffer = iow_register_buffer(service, memory, 4096);
  EXPECT_EQ(read_with(file.fd(), bytes, 4096, 0, buffer, 0), 4096);
  EXPECT_EQ(iow_unregister_buffer(service, buffer), 0);
  ASSERT_EQ(map_at(memory, MAP_FIXED), memory);  // as munmap and mmap do
  ASSERT_EQ(iow_register_buffer(service, memory, 4096), buffer);
  EXPECT_EQ(read_with(file.fd(), bytes, 4096, 100, buffer, 0), 4096);
  EXPECT_TRUE(std::equal(bytes, bytes + 4096, pattern(100, 4096).begin()));
  ::munmap(memory, 4096);
}

}  // namespace
}  // namespace ioweave::test
