// Plans over files that change and back ends that misbehave: reads always return what pread(2)
// would.
#include "stream/plan/plan.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "engine/backend.hpp"
#include "engine/prefetch.hpp"
#include "service/service.hpp"
#include "support/faulty_backend.hpp"
#include "support/temp_file.hpp"

namespace ioweave::stream {
namespace {

using test::make_old;
using test::pattern;
using test::TempFile;

test::FaultOptions faults;

std::unique_ptr<engine::Backend> open_faulty(const engine::BackendOptions& options, int& error,
                                             std::string& why) {
  auto inner = engine::open_backend(options, error, why);
  return inner == nullptr ? nullptr
                          : std::make_unique<test::FaultyBackend>(std::move(inner), faults);
}

class PlanTest : public ::testing::Test {
 protected:
  void open(const PlanOptions& options, const test::FaultOptions* with_faults = nullptr,
            engine::Kind engine = engine::Kind::uring) {
    service::Options of_service;
    of_service.engine = engine;
    if (with_faults != nullptr) {
      faults = *with_faults;
      of_service.open_backend = &open_faulty;
    }
    int error = 0;
    std::string why;
    plan.reset();  // before the service that it is on
    service = service::Service::open(of_service, error, why);
    ASSERT_NE(service, nullptr) << why;
    plan = Plan::open(*service, options, error, why);
    ASSERT_NE(plan, nullptr) << why;
  }

  /// A descriptor stays open as long as the plan may read ahead from it.
  const TempFile& add_file(size_t bytes) { return files.emplace_back(bytes); }

  /// Waits until so many bytes have been read ahead.
  void wait_ahead(uint64_t bytes) {
    for (int tries = 0; tries < 20'000 && plan->statistics().ahead_bytes < bytes; ++tries) {
      ::usleep(1000);
    }
    ASSERT_GE(plan->statistics().ahead_bytes, bytes);
  }

  /// Requests of the service.
  [[nodiscard]] uint64_t submitted() const {
    iow_stats stats{};
    service->statistics(stats);
    return stats.submitted;
  }

  std::vector<std::byte> read(int fd, uint64_t offset, uint64_t bytes) {
    std::vector<std::byte> buffer(bytes);
    const int64_t got = plan->read(fd, buffer.data(), bytes, static_cast<int64_t>(offset));
    buffer.resize(static_cast<size_t>(std::max<int64_t>(got, 0)));
    return buffer;
  }

  std::list<TempFile> files;
  service::Service::Owner service;
  Plan::Owner plan;
};

PlanOptions small_plan(iow_plan_schedule schedule = IOW_PLAN_PPIS) {
  PlanOptions options;
  options.schedule = schedule;
  options.budget_bytes = 1 << 20;
  options.slice_bytes = 16 << 10;
  options.reads_cached = true;  // most files of tests are
  return options;
}

service::Call call_of(int fd, std::byte& byte) {
  service::Call call;
  call.op = engine::Op::read;
  call.fd = fd;
  call.buffer = &byte;
  call.bytes = SIZE_MAX;
  return call;
}

/// What a lease says, or nothing.
std::vector<std::byte> leased(Plan& plan, int fd, uint64_t offset, uint64_t bytes) {
  LeasedMemory* memory = nullptr;
  const int64_t got = plan.lease(fd, bytes, static_cast<int64_t>(offset), memory);
  std::vector<std::byte> found;
  if (got > 0) {
    std::byte* const data = memory->memory.data();
    found.assign(data, data + got);
    std::fill(data, data + got, std::byte{0xee});  // it is the caller's
  }
  EXPECT_EQ(memory == nullptr, got <= 0);
  plan.end_lease(memory);
  return found;
}

TEST_F(PlanTest, WhatWasPlannedIsLeasedWithoutACopy) {
  const TempFile& file = add_file(256 << 10);
  make_old(file.fd());
  open(small_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 64 << 10, 4), 0);
  wait_ahead(256 << 10);
  for (uint64_t at = 0; at < 256 << 10; at += 64 << 10) {
    EXPECT_EQ(leased(*plan, file.fd(), at, 64 << 10), pattern(at, 64 << 10));
  }
  const iow_plan_stats stats = plan->statistics();
  EXPECT_EQ(stats.hit_reads, 4u);
  EXPECT_EQ(stats.hit_bytes, 256u << 10);
  EXPECT_EQ(stats.own_bytes, 0u);
  EXPECT_EQ(stats.unread_bytes, 0u);
}

TEST_F(PlanTest, WhatWasNotPlannedIsLeasedToo) {
  const TempFile& file = add_file(100'000);
  make_old(file.fd());
  open(small_plan());
  EXPECT_EQ(leased(*plan, file.fd(), 5, 70'000), pattern(5, 70'000));
  EXPECT_EQ(leased(*plan, file.fd(), 90'000, 70'000), pattern(90'000, 10'000));
  EXPECT_TRUE(leased(*plan, file.fd(), 200'000, 10).empty());
  LeasedMemory* memory = nullptr;
  EXPECT_EQ(plan->lease(-1, 10, 0, memory), -EBADF);
  EXPECT_EQ(memory, nullptr);
}

/// The memory of a lease is not free before its end.
TEST_F(PlanTest, LeasesHoldTheirRoom) {
  const TempFile& file = add_file(4 << 20);
  make_old(file.fd());
  open(small_plan());  // 1 MiB
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 512 << 10, 512 << 10, 8), 0);
  std::vector<LeasedMemory*> leases(2);
  for (size_t i = 0; i < leases.size(); ++i) {
    const auto at = static_cast<int64_t>(i * (512 << 10));
    ASSERT_EQ(plan->lease(file.fd(), 512 << 10, at, leases[i]), 512 << 10);
  }
  ::usleep(20'000);
  EXPECT_LE(plan->statistics().ahead_bytes, 1u << 20);
  for (size_t i = 0; i < leases.size(); ++i) {
    const std::byte* const data = leases[i]->memory.data();
    const std::vector<std::byte> wanted = pattern(i * (512 << 10), 512 << 10);
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), data));
    plan->end_lease(leases[i]);
  }
  wait_ahead(512 << 10);
}

TEST_F(PlanTest, ALeaseOfWhatOthersChangedIsReadAnew) {
  const TempFile& file = add_file(128 << 10);
  make_old(file.fd());
  open(small_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 128 << 10, 0, 1), 0);
  wait_ahead(128 << 10);
  const std::vector<std::byte> other(10, std::byte{1});
  ASSERT_EQ(::pwrite(file.fd(), other.data(), other.size(), 70'000), 10);
  std::vector<std::byte> wanted = pattern(0, 128 << 10);
  std::copy(other.begin(), other.end(), wanted.begin() + 70'000);
  EXPECT_EQ(leased(*plan, file.fd(), 0, 128 << 10), wanted);
  EXPECT_EQ(plan->statistics().stale_bytes, 128u << 10);
}

TEST_F(PlanTest, AForkedChildLeasesAndLeavesTheParentsAlone) {
  const TempFile& file = add_file(128 << 10);
  make_old(file.fd());
  open(small_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 0, 1), 0);
  LeasedMemory* memory = nullptr;
  ASSERT_EQ(plan->lease(file.fd(), 64 << 10, 0, memory), 64 << 10);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    LeasedMemory* own = nullptr;
    const bool is_good = plan->lease(file.fd(), 1000, 5, own) == 1000 &&
                         own->memory.data()[0] == test::pattern_at(5);
    plan->end_lease(own);
    plan->end_lease(memory);
    ::_exit(is_good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(memory->memory.data()[9], test::pattern_at(9));
  plan->end_lease(memory);
}

TEST_F(PlanTest, WhatWasPlannedIsCopied) {
  const TempFile& file = add_file(256 << 10);
  make_old(file.fd());
  open(small_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 64 << 10, 4), 0);
  wait_ahead(256 << 10);
  for (uint64_t at = 0; at < 256 << 10; at += 64 << 10) {
    EXPECT_EQ(read(file.fd(), at, 64 << 10), pattern(at, 64 << 10));
  }
  const iow_plan_stats stats = plan->statistics();
  EXPECT_EQ(stats.planned_reads, 4u);
  EXPECT_EQ(stats.hit_reads, 4u);
  EXPECT_EQ(stats.hit_bytes, 256u << 10);
  EXPECT_EQ(stats.own_bytes, 0u);
  EXPECT_EQ(stats.unread_bytes, 0u);
}

TEST_F(PlanTest, ReadsInAnotherOrderAndSizeAreCopiedToo) {
  const TempFile& file = add_file(512 << 10);
  make_old(file.fd());
  open(small_plan());
  for (uint64_t at = 0; at < 512 << 10; at += 32 << 10) {
    ASSERT_EQ(plan->add_strided(file.fd(), static_cast<int64_t>(at), 32 << 10, 0, 1), 0);
  }
  wait_ahead(512 << 10);
  for (uint64_t end = 512 << 10; end != 0; end -= 64 << 10) {
    EXPECT_EQ(read(file.fd(), end - (64 << 10), 48 << 10), pattern(end - (64 << 10), 48 << 10));
    EXPECT_EQ(read(file.fd(), end - (16 << 10), 16 << 10), pattern(end - (16 << 10), 16 << 10));
  }
  EXPECT_EQ(plan->statistics().hit_bytes, 512u << 10);
  EXPECT_EQ(plan->statistics().hit_reads, 16u);
}

TEST_F(PlanTest, WithoutAScheduleNothingIsReadAhead) {
  const TempFile& file = add_file(64 << 10);
  make_old(file.fd());
  open(small_plan(IOW_PLAN_NORMAL));
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 0, 1), 0);
  EXPECT_EQ(read(file.fd(), 0, 64 << 10), pattern(0, 64 << 10));
  EXPECT_EQ(plan->statistics().ahead_bytes, 0u);
}

TEST_F(PlanTest, MemoryIsBoundedByTheBudget) {
  const TempFile& file = add_file(4 << 20);
  make_old(file.fd());
  PlanOptions options = small_plan();
  options.budget_bytes = 256 << 10;
  open(options);
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 64 << 10, 64), 0);
  wait_ahead(128 << 10);
  ::usleep(50'000);
  EXPECT_LE(plan->statistics().ahead_bytes, 256u << 10);
  for (uint64_t at = 0; at < 4 << 20; at += 64 << 10) {
    ASSERT_EQ(read(file.fd(), at, 64 << 10), pattern(at, 64 << 10));
  }
  EXPECT_EQ(plan->statistics().unread_bytes, 0u);
}

/// A program that begins with computing finds as much as the budget allows. One that reads and does
/// not wait has no use for more than a few reads ahead of it.
TEST_F(PlanTest, OfAProgramThatDoesNotWaitNoMoreIsReadAheadThanItNeeds) {
  constexpr uint64_t kFile = 64 << 20;
  constexpr uint64_t kRead = 1 << 20;
  const TempFile& file = add_file(kFile);
  make_old(file.fd());
  PlanOptions options = small_plan(IOW_PLAN_PP);
  options.budget_bytes = 48 << 20;
  options.slice_bytes = kRead;
  options.depth = 2;
  open(options);
  ASSERT_EQ(plan->add_strided(file.fd(), 0, kRead, kRead, kFile / kRead), 0);
  wait_ahead(24 << 20);  // half of the budget
  uint64_t at = 0;
  for (; at < 40 << 20; at += kRead) {
    wait_ahead(at + kRead);
    ASSERT_EQ(read(file.fd(), at, kRead), pattern(at, kRead));
  }
  wait_ahead(48 << 20);  // now it has enough
  EXPECT_LE(plan->statistics().ahead_bytes, 49u << 20);
  // Reads that come too late say that it needs more: twice as much, once that is ahead.
  for (uint64_t far = 60 << 20; far < kFile; far += kRead) {
    ASSERT_EQ(read(file.fd(), far, kRead), pattern(far, kRead));
    wait_ahead(56 << 20);
  }
  wait_ahead(60 << 20);
  EXPECT_EQ(plan->statistics().unread_bytes, 0u);
}

/// One read of more than the budget.
TEST_F(PlanTest, AReadLargerThanTheBudgetIsReadInPieces) {
  const TempFile& file = add_file(2 << 20);
  make_old(file.fd());
  PlanOptions options = small_plan();
  options.budget_bytes = 256 << 10;
  open(options);
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 2 << 20, 0, 1), 0);
  wait_ahead(64 << 10);
  EXPECT_EQ(read(file.fd(), 0, 2 << 20), pattern(0, 2 << 20));
  EXPECT_GE(plan->statistics().hit_bytes, 64u << 10);
}

TEST_F(PlanTest, ReadsBehindTheEndOfTheFileReturnWhatThereIs) {
  const TempFile& file = add_file(40 << 10);
  make_old(file.fd());
  open(small_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 32 << 10, 32 << 10, 4), 0);
  wait_ahead(40 << 10);
  EXPECT_EQ(read(file.fd(), 0, 32 << 10), pattern(0, 32 << 10));
  EXPECT_EQ(read(file.fd(), 32 << 10, 32 << 10), pattern(32 << 10, 8 << 10));
  EXPECT_TRUE(read(file.fd(), 64 << 10, 32 << 10).empty());
}

TEST_F(PlanTest, WhatOthersWriteAfterwardsIsSeen) {
  const TempFile& file = add_file(64 << 10);
  make_old(file.fd());
  open(small_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 0, 1), 0);
  wait_ahead(64 << 10);
  const std::vector<std::byte> other(64 << 10, std::byte{0x5a});
  ASSERT_EQ(::pwrite(file.fd(), other.data(), other.size(), 0), 64 << 10);
  EXPECT_EQ(read(file.fd(), 0, 64 << 10), other);
  EXPECT_EQ(plan->statistics().stale_bytes, 64u << 10);
}

TEST_F(PlanTest, AFileThatShrankIsReadAsItIs) {
  const TempFile& file = add_file(64 << 10);
  make_old(file.fd());
  open(small_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 0, 1), 0);
  wait_ahead(64 << 10);
  ASSERT_EQ(::ftruncate(file.fd(), 1000), 0);
  EXPECT_EQ(read(file.fd(), 0, 64 << 10), pattern(0, 1000));
}

TEST_F(PlanTest, AFileThatLostItsNameIsStillRead) {
  const TempFile& file = add_file(64 << 10);
  make_old(file.fd());
  open(small_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 0, 1), 0);
  ASSERT_EQ(::unlink(file.path().c_str()), 0);
  EXPECT_EQ(read(file.fd(), 0, 64 << 10), pattern(0, 64 << 10));
}

TEST_F(PlanTest, AFileJustChangedIsNotReadAheadYet) {
  const TempFile& file = add_file(64 << 10);
  open(small_plan());
  ASSERT_EQ(::pwrite(file.fd(), "x", 1, 0), 1);
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 32 << 10, 32 << 10, 2), 0);
  EXPECT_EQ(plan->statistics().ahead_bytes, 0u);
  ::usleep(50'000);
  EXPECT_EQ(read(file.fd(), 32 << 10, 1), pattern(32 << 10, 1));  // looks again
  wait_ahead(32 << 10);
}

/// Writes of its own drop what they change, and nothing else.
TEST_F(PlanTest, OwnWritesAreSeenAndSpareTheRest) {
  const TempFile& file = add_file(256 << 10);
  make_old(file.fd());
  PlanOptions options = small_plan();
  options.is_sole_writer = true;
  open(options);
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 64 << 10, 4), 0);
  wait_ahead(256 << 10);
  const std::vector<std::byte> other(10, std::byte{0x5a});
  ASSERT_EQ(plan->write(file.fd(), other.data(), 10, 70'000), 10);
  for (uint64_t at = 0; at < 256 << 10; at += 64 << 10) {
    std::vector<std::byte> wanted = pattern(at, 64 << 10);
    if (at == 64 << 10) {
      std::copy(other.begin(), other.end(), wanted.begin() + 70'000 - (64 << 10));
    }
    EXPECT_EQ(read(file.fd(), at, 64 << 10), wanted) << at;
  }
  EXPECT_EQ(plan->statistics().stale_bytes, 64u << 10);
  EXPECT_GE(plan->statistics().hit_bytes, 192u << 10);
}

/// What another writes while the plan writes is not taken for the plan's own doing.
TEST_F(PlanTest, WhatOthersWriteBesideOwnWritesIsSeen) {
  const TempFile& file = add_file(256 << 10);
  open(small_plan());
  const uint64_t theirs = 128 << 10;
  for (int round = 0; round < 40; ++round) {
    make_old(file.fd());
    const uint64_t before = plan->statistics().ahead_bytes;
    ASSERT_EQ(plan->add_strided(file.fd(), static_cast<int64_t>(theirs), 64 << 10, 0, 1), 0);
    wait_ahead(before + (64 << 10));
    const auto value = static_cast<std::byte>(round);
    const std::vector<std::byte> other(64 << 10, value);
    std::atomic<bool> is_over{false};
    std::thread writer([&] {
      const std::vector<std::byte> own(32 << 10, value);
      while (!is_over) {
        EXPECT_EQ(plan->write(file.fd(), own.data(), own.size(), 0), 32 << 10);
      }
    });
    EXPECT_EQ(::pwrite(file.fd(), other.data(), other.size(), theirs), 64 << 10);
    is_over = true;
    writer.join();
    EXPECT_EQ(read(file.fd(), theirs, 64 << 10), other) << "round " << round;
    ASSERT_EQ(plan->forget(file.fd()), 0);
  }
}

/// Also where the gate holds them back and nobody will let them go.
TEST_F(PlanTest, ForgetAndCloseTakeBackWhatIsHeld) {
  const TempFile& file = add_file(1 << 20);
  make_old(file.fd());
  open(small_plan());
  const int64_t admission = service->admit(0, 1 << 20);  // the program's own, which goes on
  ASSERT_GT(admission, 0);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 64 << 10, 16), 0);
    if (i == 0) {
      ASSERT_EQ(plan->forget(file.fd()), 0);
    }
  }
  EXPECT_EQ(plan->statistics().ahead_bytes, 0u) << "nothing was held";
  plan.reset();
  EXPECT_EQ(service->finish(admission, 1 << 20), 0);
}

/// So does a program that reads by itself, and waits for nothing.
TEST_F(PlanTest, ForgetTakesBackWhatWasPassed) {
  const TempFile& file = add_file(1 << 20);
  make_old(file.fd());
  PlanOptions options = small_plan();
  options.only_cache = true;
  open(options);
  const Plan::Activity activity(*plan);
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 64 << 10, 16), 0);
  plan->pass(file.fd(), 0, 1 << 20);
  ASSERT_EQ(plan->forget(file.fd()), 0);  // or it would wait for the end of the activity
}

/// Bytes of address space.
uint64_t mapped_bytes() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Also what a thread is about to begin.
TEST_F(PlanTest, CloseFreesAllMemory) {
  const TempFile& file = add_file(16 << 20);
  make_old(file.fd());
  PlanOptions options = small_plan();
  options.budget_bytes = 64 << 20;
  open(options);
  const uint64_t before = mapped_bytes();
  for (int round = 0; round < 1000; ++round) {
    int error = 0;
    std::string why;
    const auto one = Plan::open(*service, options, error, why);
    ASSERT_NE(one, nullptr) << why;
    ASSERT_EQ(one->add_strided(file.fd(), 0, 4 << 20, 1 << 20, 12), 0);
    if (round % 3 != 0) {
      ::usleep(static_cast<unsigned>(round % 50) * 20);
    }
  }
  EXPECT_LT(mapped_bytes(), before + (128 << 20));
}

TEST_F(PlanTest, InvalidatedReadsKeepTheirPlace) {
  const TempFile& file = add_file(4 << 20);
  make_old(file.fd());
  open(small_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 4096, 4096, 1000), 0);
  wait_ahead(100 * 4096);
  for (uint64_t at = 0; at < 400 * 4096; at += 4096) {
    ASSERT_EQ(read(file.fd(), at, 4096), pattern(at, 4096));
    if (at % (40 * 4096) == 0) {
      ASSERT_EQ(plan->invalidate(file.fd(), 0, 0), 0);
    }
  }
  EXPECT_EQ(plan->statistics().unplanned_reads, 0u);
  const uint64_t before = plan->statistics().hit_reads;
  for (uint64_t at = 400 * 4096; at < 1000 * 4096; at += 4096) {
    ASSERT_EQ(read(file.fd(), at, 4096), pattern(at, 4096));
    if (at % (40 * 4096) == 0) {
      ::usleep(1000);  // reads of a cached file leave none to be made ahead of them
    }
  }
  EXPECT_GT(plan->statistics().hit_reads, before) << "it is followed still";
}

/// One read far ahead of the others does not make these passed by.
TEST_F(PlanTest, AReadFarAheadLosesNothing) {
  const TempFile& file = add_file(4 << 20);
  make_old(file.fd());
  PlanOptions options = small_plan();
  options.budget_bytes = 128 << 10;
  open(options);
  for (int64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(plan->add_strided(file.fd(), i * 4096, 4096, 0, 1), 0);
  }
  EXPECT_EQ(read(file.fd(), 999 * 4096, 4096), pattern(999 * 4096, 4096));
  for (uint64_t at = 0; at < 500 * 4096; at += 4096) {
    ASSERT_EQ(read(file.fd(), at, 4096), pattern(at, 4096));
  }
  EXPECT_EQ(plan->statistics().unplanned_reads, 0u);
  EXPECT_LT(plan->statistics().unread_bytes, 32u * 4096);
}

TEST_F(PlanTest, ReadsThatAreTooLargeAreRefused) {
  const TempFile& file = add_file(4096);
  open(small_plan());
  EXPECT_EQ(plan->add_strided(file.fd(), 0, INT64_MAX, 0, 1), -ENOBUFS);
  std::byte byte{};
  EXPECT_EQ(plan->read(file.fd(), &byte, SIZE_MAX, 0), service->transfer(call_of(file.fd(), byte)));
}

/// Times of another clock tell nothing, and keep no other file waiting.
TEST_F(PlanTest, AFileFromTheFutureIsReadAhead) {
  const TempFile& file = add_file(64 << 10);
  make_old(file.fd());
  const std::array<timespec, 2> times{timespec{8'000'000'000, 5}, timespec{8'000'000'000, 5}};
  ASSERT_EQ(::futimens(file.fd(), times.data()), 0);
  ::usleep(25'000);
  open(small_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 0, 1), 0);
  wait_ahead(64 << 10);
  EXPECT_EQ(read(file.fd(), 0, 64 << 10), pattern(0, 64 << 10));
}

TEST_F(PlanTest, InvalidatedBytesAreReadAnew) {
  const TempFile& file = add_file(128 << 10);
  make_old(file.fd());
  open(small_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 64 << 10, 2), 0);
  wait_ahead(128 << 10);
  ASSERT_EQ(plan->invalidate(file.fd(), 64 << 10, 0), 0);
  wait_ahead(192 << 10);  // it is planned still
  EXPECT_EQ(read(file.fd(), 0, 64 << 10), pattern(0, 64 << 10));
  EXPECT_EQ(read(file.fd(), 64 << 10, 64 << 10), pattern(64 << 10, 64 << 10));
  EXPECT_EQ(plan->statistics().stale_bytes, 64u << 10);
}

/// The file is forgotten with its last entry, of which the program has read a part.
TEST_F(PlanTest, AWriteMayDropAllThatIsPlannedOfAFile) {
  const TempFile& file = add_file(64 << 10);
  make_old(file.fd());
  open(small_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 0, 1), 0);
  wait_ahead(64 << 10);
  EXPECT_EQ(read(file.fd(), 0, 10), pattern(0, 10));
  ASSERT_EQ(plan->write(file.fd(), "x", 1, 0), 1);
  EXPECT_EQ(read(file.fd(), 1, 100), pattern(1, 100));
  EXPECT_EQ(plan->statistics().stale_bytes, (64u << 10) - 10);
}

TEST_F(PlanTest, ForgottenFilesCanBeClosed) {
  const TempFile& file = add_file(1 << 20);
  make_old(file.fd());
  PlanOptions options = small_plan();
  options.depth = 4;
  open(options);
  const int fd = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(plan->add_strided(fd, 0, 64 << 10, 64 << 10, 1000), 0);
  ASSERT_EQ(plan->forget(fd), 0);
  const uint64_t ahead = plan->statistics().ahead_bytes;
  ASSERT_EQ(::close(fd), 0);
  ::usleep(20'000);
  EXPECT_EQ(plan->statistics().ahead_bytes, ahead);
  EXPECT_EQ(plan->forget(fd), -EBADF);
}

/// Reads that never come hold memory, until others have come for long.
TEST_F(PlanTest, ReadsThatNeverComeMakeRoomForOthers) {
  const TempFile& file = add_file(4 << 20);
  make_old(file.fd());
  PlanOptions options = small_plan();
  options.budget_bytes = 256 << 10;
  open(options);
  for (uint64_t at = 0; at < 4 << 20; at += 32 << 10) {
    ASSERT_EQ(plan->add_strided(file.fd(), static_cast<int64_t>(at), 32 << 10, 0, 1), 0);
  }
  wait_ahead(128 << 10);
  for (uint64_t at = 1 << 20; at < 4 << 20; at += 32 << 10) {
    ASSERT_EQ(read(file.fd(), at, 32 << 10), pattern(at, 32 << 10));
  }
  const iow_plan_stats stats = plan->statistics();
  EXPECT_GE(stats.unread_bytes, 128u << 10);
  EXPECT_GT(stats.hit_bytes, 0u);
}

TEST_F(PlanTest, APlanThatIsAllWrongReadsNoMoreThanItsBudget) {
  const TempFile& file = add_file(8 << 20);
  make_old(file.fd());
  PlanOptions options = small_plan();
  options.budget_bytes = 512 << 10;
  open(options);
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 16 << 10, 16 << 10, 256), 0);
  for (int round = 0; round < 4; ++round) {
    for (uint64_t at = 4 << 20; at < 8 << 20; at += 16 << 10) {
      ASSERT_EQ(read(file.fd(), at, 16 << 10), pattern(at, 16 << 10));
    }
  }
  const iow_plan_stats stats = plan->statistics();
  EXPECT_EQ(stats.hit_bytes, 0u);
  EXPECT_EQ(stats.unplanned_reads, 1024u);
  EXPECT_LE(stats.ahead_bytes, 2 * options.budget_bytes);
}

TEST_F(PlanTest, AGeneratorIsAskedAsLateAsPossible) {
  const TempFile& file = add_file(1 << 20);
  make_old(file.fd());
  PlanOptions options = small_plan();
  options.budget_bytes = 256 << 10;
  open(options);
  struct Told {
    int fd;
    uint64_t count = 0;
  } told{file.fd()};
  const iow_plan_next next = [](iow_planned_read* read, void* user) {
    auto& of = *static_cast<Told*>(user);
    *read = {of.fd, 0, static_cast<int64_t>(of.count % 256 * 4096), 4096};
    return ++of.count <= 10'000 ? 1 : 0;
  };
  ASSERT_EQ(plan->generate(next, &told), 0);
  EXPECT_LT(told.count, 1000u);
  for (uint64_t i = 0; i < 10'000; ++i) {
    ASSERT_EQ(read(file.fd(), i % 256 * 4096, 4096), pattern(i % 256 * 4096, 4096));
  }
  EXPECT_EQ(told.count, 10'001u);
  const iow_plan_stats stats = plan->statistics();
  EXPECT_EQ(stats.planned_reads, 10'000u);
  EXPECT_EQ(stats.unplanned_reads, 0u);
}

TEST_F(PlanTest, AGeneratorEndsWithAReadThatCannotBePlanned) {
  const TempFile& file = add_file(64 << 10);
  make_old(file.fd());
  open(small_plan());
  int calls = 0;
  const iow_plan_next next = [](iow_planned_read* read, void* user) {
    ++*static_cast<int*>(user);
    *read = {-1, 0, 0, 4096};
    return 1;
  };
  ASSERT_EQ(plan->generate(next, &calls), 0);
  EXPECT_EQ(read(file.fd(), 0, 4096), pattern(0, 4096));
  EXPECT_EQ(calls, 1);
}

TEST_F(PlanTest, BadReadsAreRefused) {
  const TempFile& file = add_file(4096);
  open(small_plan());
  EXPECT_EQ(plan->add_strided(file.fd(), 0, 0, 0, 1), -EINVAL);
  EXPECT_EQ(plan->add_strided(file.fd(), -1, 1, 0, 1), -EINVAL);
  EXPECT_EQ(plan->add_strided(file.fd(), 0, 1, 0, 0), -EINVAL);
  EXPECT_EQ(plan->add_strided(file.fd(), INT64_MAX, 1, 0, 1), -EINVAL);
  EXPECT_EQ(plan->add_strided(file.fd(), 0, 1, INT64_MAX, 3), -EINVAL);
  EXPECT_EQ(plan->add_strided(file.fd(), 4096, 1, -4096, 3), -EINVAL);
  EXPECT_EQ(plan->add_strided(-1, 0, 1, 0, 1), -EBADF);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  EXPECT_EQ(plan->add_strided(ends[0], 0, 1, 0, 1), -EINVAL);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(plan->statistics().planned_reads, 0u);
}

TEST_F(PlanTest, AChildReadsByItself) {
  const TempFile& file = add_file(64 << 10);
  make_old(file.fd());
  open(small_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 0, 1), 0);
  wait_ahead(64 << 10);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_right = plan->is_inherited() && read(file.fd(), 0, 4096) == pattern(0, 4096);
    plan.reset();
    ::_exit(is_right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read(file.fd(), 0, 4096), pattern(0, 4096));
}

/// The program's own transfers go first: no slice begins while one is under way.
TEST_F(PlanTest, UnderPpisNoSliceBeginsBesideTheProgramsOwn) {
  const TempFile& file = add_file(1 << 20);
  make_old(file.fd());
  open(small_plan());
  const bool counted = service->gate().begin_activity(0);
  ASSERT_TRUE(counted);
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 64 << 10, 16), 0);
  ::usleep(20'000);
  EXPECT_EQ(plan->statistics().ahead_bytes, 0u);
  service->gate().end_activity(0);
  wait_ahead(256 << 10);
}

/// A reader does not wait for a slice that waits for readers.
TEST_F(PlanTest, AHeldSliceIsReadByWhoWantsIt) {
  const TempFile& file = add_file(256 << 10);
  make_old(file.fd());
  open(small_plan());
  ASSERT_TRUE(service->gate().begin_activity(0));
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 64 << 10, 4), 0);
  for (uint64_t at = 0; at < 256 << 10; at += 64 << 10) {
    EXPECT_EQ(read(file.fd(), at, 64 << 10), pattern(at, 64 << 10));
  }
  EXPECT_EQ(plan->statistics().own_bytes, 256u << 10);
  EXPECT_EQ(plan->statistics().late_reads, 4u);
  service->gate().end_activity(0);
}

TEST_F(PlanTest, UnderPpSlicesBeginBesideTheProgramsOwn) {
  const TempFile& file = add_file(1 << 20);
  make_old(file.fd());
  open(small_plan(IOW_PLAN_PP));
  const bool counted = service->gate().begin_activity(0);
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 64 << 10, 64 << 10, 16), 0);
  wait_ahead(256 << 10);
  if (counted) {
    service->gate().end_activity(0);
  }
}

/// A plan that the program does not follow is left alone, until it does.
TEST_F(PlanTest, WhoReadsSomethingElseIsNotInTheWay) {
  const TempFile& file = add_file(4 << 20);
  make_old(file.fd());
  open(small_plan());
  const int64_t middle = 2 << 20;
  const auto plan_read = [&](int i) {
    ASSERT_EQ(plan->add_strided(file.fd(), middle + i * 4096, 4096, 0, 1), 0);
  };
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(read(file.fd(), i * 4096, 4096), pattern(i * 4096, 4096));
  }
  for (int i = 0; i < 100; ++i) {
    plan_read(i);
  }
  ::usleep(20'000);
  EXPECT_EQ(plan->statistics().ahead_bytes, 0u);
  EXPECT_EQ(read(file.fd(), middle, 4096), pattern(middle, 4096));
  wait_ahead(99 * 4096);
}

/// As many reads of something else as there were between planned ones before are no sign.
TEST_F(PlanTest, StraysBetweenPlannedReadsStopNothing) {
  const TempFile& file = add_file(4 << 20);
  make_old(file.fd());
  open(small_plan());
  const uint64_t middle = 2 << 20;
  ASSERT_EQ(plan->add_strided(file.fd(), middle, 4096, 4096, 400), 0);
  uint64_t stray = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    for (uint64_t k = 0; k < 4; ++k, ++stray) {
      EXPECT_EQ(read(file.fd(), stray * 4096, 4096), pattern(stray * 4096, 4096));
    }
    EXPECT_EQ(read(file.fd(), middle + i * 4096, 4096), pattern(middle + i * 4096, 4096));
  }
  wait_ahead(200 * 4096);
}

// ---- Small reads that the kernel is advised of

PlanOptions advising_plan() {
  PlanOptions options = small_plan(IOW_PLAN_PP);
  options.budget_bytes = 4 << 20;
  options.depth = 32;
  return options;
}

TEST_F(PlanTest, SmallReadsAreLeftToTheKernel) {
  const TempFile& file = add_file(1 << 20);
  make_old(file.fd());
  open(advising_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 4096, 4096, 256), 0);
  wait_ahead(1 << 20);
  EXPECT_LT(submitted(), 64u) << "most are advised";
  for (uint64_t at = 0; at < 1 << 20; at += 4096) {
    ASSERT_EQ(read(file.fd(), at, 4096), pattern(at, 4096));
  }
  EXPECT_EQ(plan->statistics().hit_bytes, 1u << 20);
  EXPECT_EQ(plan->statistics().own_bytes, 0u);
  EXPECT_EQ(plan->statistics().unread_bytes, 0u);
}

TEST_F(PlanTest, WhatTheKernelReadIsAsItWasWrittenSince) {
  const TempFile& file = add_file(1 << 20);
  make_old(file.fd());
  open(advising_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 4096, 4096, 256), 0);
  wait_ahead(1 << 20);
  const std::vector<std::byte> other(4096, std::byte{7});
  for (int64_t at = 0; at < 1 << 20; at += 8192) {
    ASSERT_EQ(at % 16384 == 0 ? plan->write(file.fd(), other.data(), 4096, at)
                              : ::pwrite(file.fd(), other.data(), 4096, at),
              4096);
  }
  for (uint64_t at = 0; at < 1 << 20; at += 4096) {
    ASSERT_EQ(read(file.fd(), at, 4096), at % 8192 == 0 ? other : pattern(at, 4096));
  }
}

/// Under every schedule: to read it ahead would cost more than to read it.
TEST_F(PlanTest, SmallReadsOfWhatThePageCacheHasAreLeftToIt) {
  const TempFile& file = add_file(1 << 20);
  if (!engine::is_known_resident(file.fd(), 0, 1 << 20).value_or(false)) {
    GTEST_SKIP() << "the kernel does not tell what is in the page cache (cachestat)";
  }
  for (const iow_plan_schedule schedule : {IOW_PLAN_AUTO, IOW_PLAN_PP, IOW_PLAN_PPIS}) {
    PlanOptions options = small_plan(schedule);
    options.reads_cached = false;
    open(options);
    ASSERT_EQ(plan->add_strided(file.fd(), 0, 4096, 4096, 256), 0);
    for (uint64_t at = 0; at < 1 << 20; at += 4096) {
      ASSERT_EQ(read(file.fd(), at, 4096), pattern(at, 4096));
    }
    EXPECT_EQ(plan->statistics().ahead_bytes, 0u);
    EXPECT_EQ(plan->statistics().cached_bytes, 1u << 20);
    EXPECT_EQ(plan->statistics().hit_bytes, 1u << 20);
    EXPECT_EQ(plan->statistics().unplanned_reads, 0u);
    EXPECT_EQ(leased(*plan, file.fd(), 4096, 4096), pattern(4096, 4096));
    ASSERT_EQ(plan->forget(file.fd()), 0);
  }
}

TEST_F(PlanTest, AdviceIsOfNoUsePastThePageCache) {
  const TempFile file(1 << 20, O_RDWR | O_DIRECT);
  if (file.fd() < 0) {
    GTEST_SKIP() << "no O_DIRECT on this file system";
  }
  make_old(file.fd());
  open(advising_plan());
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 4096, 4096, 256), 0);
  wait_ahead(1 << 20);
  EXPECT_GE(submitted(), 256u);
  ASSERT_EQ(plan->forget(file.fd()), 0);
}

/// Memory that O_DIRECT takes.
class DirectRead {
 public:
  explicit DirectRead(uint64_t most) : buffer_(most + kAlignment) {}
  [[nodiscard]] std::vector<std::byte> operator()(Plan& plan, int fd, uint64_t at, uint64_t bytes) {
    void* aligned = buffer_.data();
    size_t room = buffer_.size();
    std::align(kAlignment, bytes, aligned, room);
    const int64_t got = plan.read(fd, aligned, bytes, static_cast<int64_t>(at));
    EXPECT_GE(got, 0) << std::strerror(static_cast<int>(-got));
    const auto* const begin = static_cast<const std::byte*>(aligned);
    return {begin, begin + std::max<int64_t>(got, 0)};
  }

 private:
  static constexpr uint64_t kAlignment = 4096;
  std::vector<std::byte> buffer_;
};

/// A plan may say how long a file is; a program that reads past the page cache asks for blocks.
TEST_F(PlanTest, ReadsPastThePageCacheNeedNotLieAsPlanned) {
  const TempFile file(60'000, O_RDWR | O_DIRECT);
  if (file.fd() < 0) {
    GTEST_SKIP() << "no O_DIRECT on this file system";
  }
  make_old(file.fd());
  open(small_plan());
  DirectRead read_direct(64 << 10);
  ASSERT_TRUE(service->gate().begin_activity(0));  // no slice begins
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 6000, 0, 1), 0);
  EXPECT_EQ(read_direct(*plan, file.fd(), 0, 8192), pattern(0, 8192));
  service->gate().end_activity(0);
  ASSERT_EQ(plan->add_strided(file.fd(), 8192, 8192, 0, 1), 0);
  wait_ahead(8192);
  ASSERT_TRUE(service->gate().begin_activity(0));
  ASSERT_EQ(plan->add_strided(file.fd(), 16384, 6000, 0, 1), 0);
  EXPECT_EQ(read_direct(*plan, file.fd(), 8192, 16384), pattern(8192, 16384));
  service->gate().end_activity(0);
  // The end of the file is found as ever.
  ASSERT_EQ(plan->add_strided(file.fd(), 53248, 8000, 0, 1), 0);
  EXPECT_EQ(read_direct(*plan, file.fd(), 53248, 16384), pattern(53248, 60'000 - 53248));
  ASSERT_EQ(plan->forget(file.fd()), 0);
}

TEST_F(PlanTest, AdvisedReadsThatNeverComeMakeRoom) {
  const TempFile& file = add_file(4 << 20);
  make_old(file.fd());
  PlanOptions options = advising_plan();
  options.budget_bytes = 256 << 10;
  open(options);
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 4096, 4096, 1024), 0);
  for (uint64_t at = 4096; at < 4 << 20; at += 8192) {
    ASSERT_EQ(read(file.fd(), at, 4096), pattern(at, 4096));
  }
  EXPECT_GT(plan->statistics().unread_bytes, 0u);
  EXPECT_GT(plan->statistics().ahead_bytes, options.budget_bytes + plan->statistics().hit_bytes);
}

TEST_F(PlanTest, PlansOfAServiceShareTheirFlows) {
  open(small_plan(IOW_PLAN_AUTO));
  int error = 0;
  std::string why;
  for (int i = 0; i < 5000; ++i) {
    PlanOptions options = small_plan(static_cast<iow_plan_schedule>(i % 5));
    ASSERT_NE(Plan::open(*service, options, error, why), nullptr) << why;
  }
}

// ---- Faults

class PlanUnderFaults
    : public PlanTest,
      public ::testing::WithParamInterface<std::tuple<iow_plan_schedule, engine::Kind, uint64_t>> {
};
INSTANTIATE_TEST_SUITE_P(, PlanUnderFaults,
                         ::testing::Combine(::testing::Values(IOW_PLAN_AUTO, IOW_PLAN_PP,
                                                              IOW_PLAN_PPIS, IOW_PLAN_WEIGHTED),
                                            ::testing::Values(engine::Kind::threads,
                                                              engine::Kind::uring),
                                            ::testing::Range<uint64_t>(1, 4)));

test::FaultOptions all_faults(iow_plan_schedule schedule, uint64_t seed) {
  test::FaultOptions wanted;
  wanted.seed = seed;
  wanted.short_transfer = 0.1;
  wanted.interrupted = 0.05;
  wanted.again = 0.05;
  wanted.io_error = schedule == IOW_PLAN_WEIGHTED ? 0 : 0.1;  // own reads meet them there, too
  wanted.delay = 0.3;
  wanted.reorder = true;
  return wanted;
}

/// Random plans, reads, writes and changes by others, beside errors of reads ahead: every read
/// returns what the file holds.
TEST_P(PlanUnderFaults, ReadsReturnWhatTheFileHolds) {
  const auto [schedule, engine, seed] = GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const test::FaultOptions wanted = all_faults(schedule, seed);
  PlanOptions options = small_plan(schedule);
  options.budget_bytes = 512 << 10;
  options.depth = seed % 2 == 0 ? 32 : 0;  // so that the kernel is advised of small ones
  options.reads_cached = seed != 3;
  constexpr uint64_t kFile = 2 << 20;
  const TempFile& file = add_file(kFile);
  make_old(file.fd());
  open(options, &wanted, engine);
  std::vector<std::byte> model = pattern(0, kFile);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t most) { return random() % most; };
  const auto range = [&](uint64_t& at, uint64_t& bytes) {
    at = below(kFile);
    bytes = 1 + below(below(4) == 0 ? 300'000 : 20'000);
  };
  uint64_t at = 0;
  uint64_t bytes = 0;
  std::vector<std::pair<uint64_t, uint64_t>> planned;
  for (int step = 0; step < 1500; ++step) {
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        range(at, bytes);
        planned.emplace_back(at, bytes);
        ASSERT_EQ(plan->add_strided(file.fd(), static_cast<int64_t>(at), bytes, 0, 1), 0);
        continue;
      case 4: {
        range(at, bytes);
        bytes = std::min({bytes, kFile - at, uint64_t{5000}});
        std::vector<std::byte> other(bytes, static_cast<std::byte>(step));
        const bool is_own = below(4) != 0;
        const int64_t written =
            is_own ? plan->write(file.fd(), other.data(), bytes, static_cast<int64_t>(at))
                   : ::pwrite(file.fd(), other.data(), bytes, static_cast<off_t>(at));
        ASSERT_EQ(written, static_cast<int64_t>(bytes));
        std::copy(other.begin(), other.end(), model.begin() + static_cast<std::ptrdiff_t>(at));
        continue;
      }
      case 5:
        if (below(10) == 0) {
          ASSERT_EQ(plan->forget(file.fd()), 0);
        } else {
          range(at, bytes);
          ASSERT_EQ(plan->invalidate(file.fd(), static_cast<int64_t>(at), bytes), 0);
        }
        continue;
      case 6:
      case 7:
        range(at, bytes);
        break;
      default:
        if (planned.empty()) {
          continue;
        }
        std::tie(at, bytes) = planned.front();
        planned.erase(planned.begin());
        if (below(3) == 0) {
          ::usleep(300);
        }
    }
    const uint64_t there = at < kFile ? std::min(bytes, kFile - at) : 0;
    const std::vector<std::byte> got =
        below(3) == 0 ? leased(*plan, file.fd(), at, bytes) : read(file.fd(), at, bytes);
    ASSERT_EQ(got.size(), there) << "step " << step;
    ASSERT_TRUE(std::equal(got.begin(), got.end(), model.begin() + static_cast<std::ptrdiff_t>(at)))
        << "step " << step << ": " << bytes << " bytes at " << at;
  }
}

/// Plans of any bytes, reads of blocks as O_DIRECT takes them.
TEST_P(PlanUnderFaults, ReadsPastThePageCacheReturnWhatTheFileHolds) {
  const auto [schedule, engine, seed] = GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr uint64_t kFile = 1 << 20;
  constexpr uint64_t kBlock = 4096;
  const TempFile file(kFile, O_RDWR | O_DIRECT);
  if (file.fd() < 0) {
    GTEST_SKIP() << "no O_DIRECT on this file system";
  }
  make_old(file.fd());
  test::FaultOptions wanted = all_faults(schedule, seed);
  if (schedule == IOW_PLAN_WEIGHTED) {
    wanted.short_transfer = 0;  // of own reads, too, and shorter than a device's blocks
  }
  open(small_plan(schedule), &wanted, engine);
  DirectRead read_direct(20 * kBlock);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t most) { return random() % most; };
  for (int step = 0; step < 300; ++step) {
    const uint64_t at = below(kFile / kBlock) * kBlock;
    const uint64_t bytes = (1 + below(20)) * kBlock;
    uint64_t next = at;
    for (uint64_t plans = below(4); plans > 0; --plans) {
      const uint64_t planned = 1 + below(30'000);
      ASSERT_EQ(plan->add_strided(file.fd(), static_cast<int64_t>(next), planned, 0, 1), 0);
      next += below(2) == 0 ? planned : below(20) * kBlock;
    }
    if (below(3) == 0) {
      ::usleep(300);
    }
    ASSERT_EQ(read_direct(*plan, file.fd(), at, bytes), pattern(at, std::min(bytes, kFile - at)))
        << "step " << step << ": " << bytes << " bytes at " << at;
  }
  ASSERT_EQ(plan->forget(file.fd()), 0);
}

/// Several readers of one plan.
TEST_P(PlanUnderFaults, ThreadsReadAtTheSameTime) {
  const auto [schedule, engine, seed] = GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed));
  test::FaultOptions wanted;
  wanted.seed = seed;
  wanted.short_transfer = 0.1;
  wanted.delay = 0.3;
  wanted.reorder = true;
  constexpr uint64_t kFile = 4 << 20;
  const TempFile& file = add_file(kFile);
  make_old(file.fd());
  PlanOptions options = small_plan(schedule);
  options.depth = seed % 2 == 0 ? 32 : 0;
  open(options, &wanted, engine);
  ASSERT_EQ(plan->add_strided(file.fd(), 0, 20'000, 20'000, kFile / 20'000), 0);
  std::atomic<uint64_t> next{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (uint64_t at = next++ * 5000; at < kFile / 20'000 * 20'000; at = next++ * 5000) {
        wrong += read(file.fd(), at, 5000) == pattern(at, 5000) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

/// A thread that plans, reads, leases, writes and invalidates at random. It writes to a part of the
/// file that is its own, and knows what must be there; what it plans may be anywhere.
class RandomUser {
 public:
  RandomUser(Plan& plan, int fd, uint64_t begin, uint64_t bytes, uint64_t whole, uint64_t seed)
      : plan_(plan),
        fd_(fd),
        begin_(begin),
        whole_(whole),
        model_(pattern(begin, bytes)),
        random_(seed) {}

  /// What was wrong first, or nothing.
  std::string run(int steps) {
    for (int step = 0; step < steps && wrong_.empty(); ++step) {
      take_step(static_cast<std::byte>(step));
    }
    while (!leases_.empty()) {
      end_oldest_lease();
    }
    return wrong_;
  }

 private:
  struct Held {
    LeasedMemory* memory;
    std::vector<std::byte> wanted;
  };

  uint64_t below(uint64_t most) { return random_() % most; }

  void take_step(std::byte value) {
    uint64_t at = begin_ + below(model_.size());
    uint64_t bytes =
        std::min(1 + below(below(4) == 0 ? 200'000 : 20'000), begin_ + model_.size() - at);
    const auto signed_at = static_cast<int64_t>(at);
    const uint64_t kind = below(16);
    if (kind < 4) {
      note(plan_.add_strided(fd_, signed_at, bytes, 0, 1), 0, "add");
      planned_.emplace_back(at, bytes);
    } else if (kind == 4) {
      const auto anywhere = static_cast<int64_t>(below(whole_));
      note(plan_.add_strided(fd_, anywhere, 30'000, 10'000, 1 + below(4)), 0, "add to others");
    } else if (kind < 7) {
      bytes = std::min<uint64_t>(bytes, 5000);
      const std::vector<std::byte> data(bytes, value);
      note(plan_.write(fd_, data.data(), bytes, signed_at), static_cast<int64_t>(bytes), "write");
      std::copy(data.begin(), data.end(), model_.begin() + to_model(at));
    } else if (kind == 7) {
      note(plan_.invalidate(fd_, static_cast<int64_t>(below(whole_)), below(100'000)), 0,
           "invalidate");
    } else if (kind == 8 && below(20) == 0) {
      note(plan_.forget(fd_), 0, "forget");
    } else {
      if (kind > 10 && !planned_.empty()) {
        std::tie(at, bytes) = planned_.front();
        planned_.pop_front();
      }
      kind % 3 == 0 ? lease(at, bytes) : read(at, bytes);
    }
  }

  void read(uint64_t at, uint64_t bytes) {
    std::vector<std::byte> got(bytes);
    note(plan_.read(fd_, got.data(), bytes, static_cast<int64_t>(at)), static_cast<int64_t>(bytes),
         "read");
    compare(got.data(), wanted(at, bytes), "read");
  }

  /// Leases stay for a while, and are looked at again before they end: their memory is nobody
  /// else's meanwhile.
  void lease(uint64_t at, uint64_t bytes) {
    LeasedMemory* memory = nullptr;
    note(plan_.lease(fd_, bytes, static_cast<int64_t>(at), memory), static_cast<int64_t>(bytes),
         "lease");
    if (memory == nullptr) {
      wrong_ += "; no memory";
      return;
    }
    leases_.push_back({memory, wanted(at, bytes)});
    compare(memory->memory.data(), leases_.back().wanted, "lease");
    if (leases_.size() > 3) {
      end_oldest_lease();
    }
  }

  void end_oldest_lease() {
    const Held& held = leases_.front();
    compare(held.memory->memory.data(), held.wanted, "lease held for a while");
    plan_.end_lease(held.memory);
    leases_.pop_front();
  }

  [[nodiscard]] std::ptrdiff_t to_model(uint64_t at) const {
    return static_cast<std::ptrdiff_t>(at - begin_);
  }
  [[nodiscard]] std::vector<std::byte> wanted(uint64_t at, uint64_t bytes) const {
    return {model_.begin() + to_model(at), model_.begin() + to_model(at + bytes)};
  }
  void note(int64_t got, int64_t wanted, const char* what) {
    if (got != wanted && wrong_.empty()) {
      wrong_ = std::string(what) + " returned " + std::to_string(got);
    }
  }
  void compare(const std::byte* got, const std::vector<std::byte>& wanted, const char* what) {
    if (wrong_.empty() && !std::equal(wanted.begin(), wanted.end(), got)) {
      wrong_ = std::string("wrong bytes in a ") + what;
    }
  }

  Plan& plan_;
  const int fd_;
  const uint64_t begin_;
  const uint64_t whole_;
  std::vector<std::byte> model_;
  std::mt19937_64 random_;
  std::deque<std::pair<uint64_t, uint64_t>> planned_;
  std::deque<Held> leases_;
  std::string wrong_;
};

TEST_P(PlanUnderFaults, ThreadsOfOnePlanDisturbNobody) {
  const auto [schedule, engine, seed] = GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const test::FaultOptions wanted = all_faults(schedule, seed);
  constexpr uint64_t kPart = 512 << 10;
  constexpr uint64_t kUsers = 4;
  const TempFile& file = add_file(kUsers * kPart);
  make_old(file.fd());
  PlanOptions options = small_plan(schedule);
  options.budget_bytes = 512 << 10;
  options.depth = seed % 2 == 0 ? 32 : 0;
  open(options, &wanted, engine);
  std::array<std::string, kUsers> wrong;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kUsers; ++i) {
    threads.emplace_back([&, i] {
      RandomUser user(*plan, file.fd(), i * kPart, kPart, kUsers * kPart, seed * kUsers + i);
      wrong[i] = user.run(500);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::string& text : wrong) {
    EXPECT_EQ(text, "");
  }

  // Nothing of it has stayed in the budget: all of that can be read ahead, as at first.
  ASSERT_EQ(plan->forget(file.fd()), 0);
  const TempFile& other = add_file(2 * options.budget_bytes);
  make_old(other.fd());
  const uint64_t before = plan->statistics().ahead_bytes;
  ASSERT_EQ(plan->add_strided(other.fd(), 0, 16 << 10, 16 << 10, 64), 0);
  for (uint64_t at = 0; at < options.budget_bytes; at += 16 << 10) {
    ASSERT_EQ(read(other.fd(), at, 16 << 10), pattern(at, 16 << 10));
  }
  if (wanted.io_error == 0) {  // what could not be read ahead does not count
    wait_ahead(before + options.budget_bytes);
  }
}

/// One thread writes blocks by a plan, each full of a number that only grows, and others plan and
/// read them: what they find was written last before they read, or while they did.
class VersionedFile {
 public:
  VersionedFile(Plan& plan, int fd, uint64_t blocks)
      : plan_(plan), fd_(fd), begun_(blocks), ended_(blocks) {}

  /// Returns what was wrong first, or nothing.
  std::string write(uint64_t seed, int writes, uint64_t pause_every, unsigned pause_us) {
    std::mt19937_64 random(seed);
    for (uint32_t version = 1; version <= static_cast<uint32_t>(writes); ++version) {
      const uint64_t count = 1 + random() % 6;
      const uint64_t first = random() % (begun_.size() - count);
      for (uint64_t i = first; i < first + count; ++i) {
        begun_[i] = version;
      }
      const std::vector<uint32_t> words(count * kWords, version);
      const auto bytes = static_cast<int64_t>(count * kBlock);
      if (plan_.write(fd_, words.data(), count * kBlock, static_cast<int64_t>(first * kBlock)) !=
          bytes) {
        return "a write was short";
      }
      for (uint64_t i = first; i < first + count; ++i) {
        ended_[i] = version;
      }
      if (random() % pause_every == 0) {
        ::usleep(pause_us);
      }
    }
    return "";
  }

  std::string read(uint64_t seed, const std::atomic<bool>& is_over) {
    std::mt19937_64 random(seed);
    std::deque<std::pair<uint64_t, uint64_t>> planned;
    while (!is_over) {
      uint64_t count = 1 + random() % (random() % 4 == 0 ? 50 : 4);
      uint64_t first = random() % (begun_.size() - count);
      if (random() % 4 != 0) {
        const auto offset = static_cast<int64_t>(first * kBlock);
        if (plan_.add_strided(fd_, offset, count * kBlock, 0, 1) != 0) {
          return "a read cannot be planned";
        }
        planned.emplace_back(first, count);
        if (planned.size() < 4) {
          continue;
        }
        std::tie(first, count) = planned.front();
        planned.pop_front();
      }
      const std::string wrong =
          random() % 3 == 0 ? lease_blocks(first, count) : read_blocks(first, count);
      if (!wrong.empty()) {
        return wrong;
      }
    }
    return "";
  }

  static constexpr uint64_t kBlock = 4096;

 private:
  static constexpr uint64_t kWords = kBlock / sizeof(uint32_t);

  std::string read_blocks(uint64_t first, uint64_t count) {
    const std::vector<uint32_t> before = oldest(first, count);
    std::vector<uint32_t> words(count * kWords);
    const int64_t got =
        plan_.read(fd_, words.data(), count * kBlock, static_cast<int64_t>(first * kBlock));
    return got == static_cast<int64_t>(count * kBlock) ? compare(words.data(), before, first)
                                                       : "a read returned " + std::to_string(got);
  }
  std::string lease_blocks(uint64_t first, uint64_t count) {
    const std::vector<uint32_t> before = oldest(first, count);
    LeasedMemory* memory = nullptr;
    const int64_t got =
        plan_.lease(fd_, count * kBlock, static_cast<int64_t>(first * kBlock), memory);
    if (got != static_cast<int64_t>(count * kBlock)) {
      plan_.end_lease(memory);
      return "a lease returned " + std::to_string(got);
    }
    std::vector<uint32_t> words(count * kWords);
    std::memcpy(words.data(), memory->memory.data(), count * kBlock);
    plan_.end_lease(memory);
    return compare(words.data(), before, first);
  }
  [[nodiscard]] std::vector<uint32_t> oldest(uint64_t first, uint64_t count) const {
    std::vector<uint32_t> versions(count);
    for (uint64_t i = 0; i < count; ++i) {
      versions[i] = ended_[first + i];
    }
    return versions;
  }
  [[nodiscard]] std::string compare(const uint32_t* words, const std::vector<uint32_t>& before,
                                    uint64_t first) const {
    for (uint64_t i = 0; i < before.size() * kWords; ++i) {
      const uint64_t block = i / kWords;
      if (words[i] < before[block] || words[i] > begun_[first + block]) {
        return "block " + std::to_string(first + block) + " has version " +
               std::to_string(words[i]) + ", not one from " + std::to_string(before[block]) +
               " to " + std::to_string(begun_[first + block]);
      }
    }
    return "";
  }

  Plan& plan_;
  const int fd_;
  std::vector<std::atomic<uint32_t>> begun_;  ///< by block
  std::vector<std::atomic<uint32_t>> ended_;
};

/// IOWEAVE_PLAN_ROUNDS=N does it N times, each by other seeds.
TEST_P(PlanUnderFaults, ReadersSeeWhatAWriterWritesMeanwhile) {
  const auto [schedule, engine, first_seed] = GetParam();
  const char* const rounds = std::getenv("IOWEAVE_PLAN_ROUNDS");
  for (uint64_t round = 0; round < (rounds != nullptr ? std::stoull(rounds) : 1); ++round) {
    const uint64_t seed = first_seed + 1000 * round;
    SCOPED_TRACE("seed " + std::to_string(seed));
    const test::FaultOptions wanted = all_faults(schedule, seed);
    constexpr uint64_t kBlocks = 128;
    const TempFile& file = add_file(0);
    ASSERT_EQ(::ftruncate(file.fd(), kBlocks * VersionedFile::kBlock), 0);
    make_old(file.fd());
    PlanOptions options = small_plan(schedule);
    options.depth = seed % 2 == 0 ? 32 : 0;
    options.is_sole_writer = seed % 3 != 0;
    plan.reset();
    open(options, &wanted, engine);
    ASSERT_EQ(plan->add_strided(file.fd(), 0, 16 << 10, 16 << 10, kBlocks / 4), 0);
    wait_ahead(1);  // the first writes are of what has been read ahead
    VersionedFile versions(*plan, file.fd(), kBlocks);
    std::atomic<bool> is_over{false};
    std::array<std::string, 3> wrong;
    std::vector<std::thread> readers;
    for (size_t i = 0; i < wrong.size(); ++i) {
      readers.emplace_back([&, i] { wrong[i] = versions.read(seed * 10 + i, is_over); });
    }
    // Where others may write it, too, a file that was just changed is not read ahead.
    EXPECT_EQ(options.is_sole_writer ? versions.write(seed, 200, 4, 300)
                                     : versions.write(seed, 80, 10, 15'000),
              "");
    is_over = true;
    for (std::thread& reader : readers) {
      reader.join();
    }
    for (const std::string& text : wrong) {
      EXPECT_EQ(text, "");
    }
  }
}

}  // namespace
}  // namespace ioweave::stream
