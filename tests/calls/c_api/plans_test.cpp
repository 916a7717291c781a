// Plans and pre-execution in C and C++: what is refused, what is told, and in which order a loop
// and the one ahead of it go.
#include "ioweave/plans.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>

#include <gmock/gmock.h>

#include "fixture.hpp"

namespace ioweave::test {
namespace {

using ::testing::HasSubstr;

class Plans : public ::testing::Test {
 protected:
  Plans() { make_old(file_.fd()); }

  std::string refusal(const iow_plan_options& options) {
    ErrorText text;
    auto* plan = reinterpret_cast<iow_plan*>(1);
    EXPECT_EQ(iow_plan_open(service_.raw(), &plan, &options, text.out()), -EINVAL);
    EXPECT_EQ(plan, nullptr);
    return text.str();
  }

  static constexpr uint64_t kBlock = 16 << 10;
  static constexpr uint64_t kBlocks = 64;
  TempFile file_{kBlock * kBlocks};
  Service service_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kBlock);
};

/// Waits until so many bytes need not be waited for any more.
void wait_ahead(const Plan& plan, uint64_t bytes) {
  const auto ready = [&] { return plan.stats().ahead_bytes + plan.stats().cached_bytes; };
  for (int tries = 0; tries < 20'000 && ready() < bytes; ++tries) {
    ::usleep(1000);
  }
  ASSERT_GE(ready(), bytes);
}

// ---- C

TEST_F(Plans, OptionsOutOfRangeAreNamed) {
  iow_plan_options options{};
  options.size = 2;
  EXPECT_THAT(refusal(options), HasSubstr("options.size"));
  options = {};
  options.schedule = static_cast<iow_plan_schedule>(5);
  EXPECT_THAT(refusal(options), HasSubstr("schedule must be 0..4, not 5"));
  options = {};
  options.budget_bytes = 1000;
  EXPECT_THAT(refusal(options), HasSubstr("budget_bytes must be 65536..1099511627776, not 1000"));
  options = {};
  options.slice_bytes = 5000;
  EXPECT_THAT(refusal(options), HasSubstr("slice_bytes must be a multiple of 4096, not 5000"));
  options.slice_bytes = 1 << 20;
  options.budget_bytes = 1 << 20;
  EXPECT_THAT(refusal(options), HasSubstr("a quarter of budget_bytes"));
  options = {};
  options.depth = 257;
  EXPECT_THAT(refusal(options), HasSubstr("depth must be 0..256, not 257"));
  options = {};
  options.flow = 77;
  EXPECT_THAT(refusal(options), HasSubstr("flow 77 was not created"));
  options.flow = static_cast<uint32_t>(iow_flow_create(service_.raw(), "ahead", nullptr, nullptr));
  EXPECT_THAT(refusal(options), HasSubstr("flow and own_flow belong together"));
  options.own_flow = options.flow;
  options.schedule = IOW_PLAN_PP;
  EXPECT_THAT(refusal(options), HasSubstr("set schedule to IOW_PLAN_AUTO"));
}

TEST_F(Plans, ALeaseIsEmptyWhereNothingWasRead) {
  iow_plan* plan = nullptr;
  ASSERT_EQ(iow_plan_open(service_.raw(), &plan, nullptr, nullptr), 0);
  iow_plan_lease lease{};
  lease.owner = &lease;
  EXPECT_EQ(iow_plan_lease_read(plan, &lease, -1, 10, 0), -EBADF);
  EXPECT_EQ(lease.owner, nullptr);
  EXPECT_EQ(iow_plan_lease_read(plan, &lease, file_.fd(), 10, kBlock * kBlocks), 0);
  EXPECT_EQ(lease.owner, nullptr);
  iow_plan_lease_end(plan, &lease);
  ASSERT_EQ(iow_plan_lease_read(plan, &lease, file_.fd(), 10, kBlock * kBlocks - 4), 4);
  EXPECT_EQ(lease.bytes, 4u);
  iow_plan_lease_end(plan, &lease);
  EXPECT_EQ(lease.data, nullptr);
  iow_plan_close(plan);
}

TEST_F(Plans, LeasesAreMoved) {
  Plan plan(service_);
  plan.add_strided(file_.fd(), 0, kBlock, kBlock, kBlocks);
  wait_ahead(plan, kBlock * 8);
  PlanLease kept;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    PlanLease lease = plan.lease(file_.fd(), kBlock, static_cast<off_t>(i * kBlock));
    const std::vector<std::byte> wanted = pattern(i * kBlock, kBlock);
    ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), lease.data().begin(), lease.data().end()));
    kept = std::move(lease);
  }
  EXPECT_EQ(kept.data()[0], pattern_at((kBlocks - 1) * kBlock));
  EXPECT_EQ(plan.stats().reads, kBlocks);
}

TEST_F(Plans, ALoopLeasesWhatWasReadAhead) {
  Plan plan(service_);
  uint64_t wrong = 0;
  const PreExecution found = pre_execute(plan, [&](LoopIo& io) {
    for (uint64_t i = 0; i < kBlocks; ++i) {
      const PlanLease lease = io.lease(file_.fd(), kBlock, static_cast<off_t>(i * kBlock));
      io.compute([&] {
        const std::vector<std::byte> wanted = pattern(i * kBlock, kBlock);
        wrong += std::equal(wanted.begin(), wanted.end(), lease.data().begin(), lease.data().end())
                     ? 0
                     : 1;
      });
    }
  });
  EXPECT_EQ(wrong, 0u);
  EXPECT_LE(found.planned_reads, kBlocks);  // the loop may have ended before the one ahead began
  EXPECT_EQ(found.stopped, "");
  EXPECT_EQ(plan.stats().reads, kBlocks);
}

TEST_F(Plans, NullIsRefused) {
  ErrorText text;
  EXPECT_EQ(iow_plan_open(nullptr, nullptr, nullptr, text.out()), -EINVAL);
  EXPECT_THAT(text.str(), HasSubstr("must not be NULL"));
  const Plan plan(service_);
  EXPECT_EQ(iow_plan_generate(plan.raw(), nullptr, nullptr), -EINVAL);
  EXPECT_EQ(iow_plan_get_stats(plan.raw(), nullptr), -EINVAL);
  iow_plan_close(nullptr);
}

TEST_F(Plans, AReadReturnsWhatPreadReturns) {
  Plan plan(service_);
  errno = 7;
  EXPECT_EQ(iow_plan_read(plan.raw(), -1, buffer_.data(), 1, 0), -EBADF);
  EXPECT_EQ(iow_plan_read(plan.raw(), file_.fd(), buffer_.data(), 1, -1), -EINVAL);
  EXPECT_EQ(iow_plan_read(plan.raw(), file_.fd(), buffer_.data(), 0, 0), 0);
  EXPECT_EQ(iow_plan_read(plan.raw(), file_.fd(), buffer_.data(), 1, kBlock * kBlocks), 0);
  EXPECT_EQ(errno, 7);
}

TEST_F(Plans, AShorterStructOfStatisticsIsFilledInAsFarAsItGoes) {
  const Plan plan(service_);
  iow_plan_stats stats{};
  std::memset(&stats, 0xff, sizeof stats);
  stats.size = 8;
  EXPECT_EQ(iow_plan_get_stats(plan.raw(), &stats), 0);
  EXPECT_EQ(stats.size, 8u);
  EXPECT_EQ(stats.depth, 2u);
  EXPECT_EQ(stats.planned_reads, UINT64_MAX);
}

TEST_F(Plans, InAChildReadsAreMadeAndAllElseIsRefused) {
  Plan plan(service_);
  plan.add(file_.fd(), 0, kBlock);
  const pid_t child = ::fork();
  if (child == 0) {
    iow_plan_stats stats{};
    stats.size = sizeof stats;
    const bool is_right =
        iow_plan_read(plan.raw(), file_.fd(), buffer_.data(), kBlock, 0) == kBlock &&
        buffer_ == pattern(0, kBlock) && iow_plan_add(plan.raw(), file_.fd(), 0, 1) == -ECANCELED &&
        iow_plan_forget(plan.raw(), file_.fd()) == -ECANCELED &&
        iow_plan_invalidate(plan.raw(), file_.fd(), 0, 1) == -ECANCELED &&
        iow_plan_get_stats(plan.raw(), &stats) == -ECANCELED;
    ::_exit(is_right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Plans, FlowsOfTheUsersAreUsed) {
  iow_flow_options of_flow{};
  of_flow.priority = IOW_PREFETCH;
  const auto ahead =
      static_cast<uint32_t>(iow_flow_create(service_.raw(), "ahead", &of_flow, nullptr));
  const auto own = static_cast<uint32_t>(iow_flow_create(service_.raw(), "own", nullptr, nullptr));
  iow_plan_options options{};
  options.flow = ahead;
  options.own_flow = own;
  Plan plan(service_, options);
  constexpr uint64_t kLarge = 8 * kBlock;  // so that it is not left to the page cache
  plan.add(file_.fd(), 0, kLarge);
  wait_ahead(plan, kLarge);
  EXPECT_EQ(plan.read(file_.fd(), buffer_, 0), kBlock);
  EXPECT_EQ(plan.read(file_.fd(), buffer_, 9 * kBlock), kBlock);
  iow_flow_stats stats{};
  stats.size = sizeof stats;
  ASSERT_EQ(iow_service_flow_stats(service_.raw(), ahead, &stats), 0);
  EXPECT_EQ(stats.moved_bytes, kLarge);
}

// ---- C++

TEST_F(Plans, AFileIsReadPieceByPiece) {
  Plan plan(service_);
  plan.add_sequential(file_.fd(), 0, kBlock * kBlocks, kBlock);
  for (uint64_t block = 0; block < kBlocks; ++block) {
    ASSERT_EQ(plan.read(file_.fd(), buffer_, static_cast<off_t>(block * kBlock)), kBlock);
    ASSERT_EQ(buffer_, pattern(block * kBlock, kBlock));
  }
  const iow_plan_stats stats = plan.stats();
  EXPECT_EQ(stats.planned_reads, kBlocks);
  EXPECT_EQ(stats.unplanned_reads, 0u);
  EXPECT_EQ(stats.reads, kBlocks);
}

TEST_F(Plans, AGeneratorThatThrowsEnds) {
  Plan plan(service_);
  uint64_t calls = 0;
  plan.generate([&](iow_planned_read& read) {
    if (++calls == 3) {
      throw std::runtime_error("no more");
    }
    read.fd = file_.fd();
    read.offset = static_cast<int64_t>(calls * kBlock);
    read.bytes = kBlock;
    return true;
  });
  EXPECT_EQ(plan.read(file_.fd(), buffer_, kBlock), kBlock);
  EXPECT_EQ(calls, 3u);
  EXPECT_EQ(plan.stats().planned_reads, 2u);
}

TEST_F(Plans, ErrorsAreThrown) {
  Plan plan(service_);
  EXPECT_THROW(plan.add(-1, 0, 1), std::system_error);
  EXPECT_THROW(plan.read(-1, buffer_, 0), std::system_error);
  iow_plan_options options{};
  options.depth = 1000;
  try {
    const Plan bad(service_, options);
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("depth must be 0..256"));
  }
}

// ---- Pre-execution

TEST_F(Plans, ALoopIsRunAheadOfItself) {
  Plan plan(service_);
  std::vector<uint64_t> computed;
  const PreExecution ahead = pre_execute(plan, [&](LoopIo& io) {
    std::vector<std::byte> block(kBlock);
    for (uint64_t i = 0; i < kBlocks; ++i) {
      const uint64_t at = i * 37 % kBlocks * kBlock;
      ASSERT_EQ(io.read(file_.fd(), block, static_cast<off_t>(at)), kBlock);
      io.compute([&] {
        EXPECT_EQ(block, pattern(at, kBlock));
        computed.push_back(at);
      });
    }
  });
  EXPECT_EQ(computed.size(), kBlocks);
  EXPECT_EQ(ahead.stopped, "");
  EXPECT_EQ(ahead.waits, 0u);
  EXPECT_LE(ahead.planned_reads, kBlocks);
}

/// Of a loop that waits for the one ahead of it, all reads are known before it makes them.
TEST_F(Plans, TheLoopAheadNamesTheReadsOfTheLoop) {
  Plan plan(service_);
  std::atomic<bool> is_ahead_over{false};
  const PreExecution ahead = pre_execute(plan, [&](LoopIo& io) {
    if (!io.is_ahead()) {
      while (!is_ahead_over) {
        ::usleep(100);
      }
    }
    std::vector<std::byte> block(kBlock);
    for (uint64_t i = 0; i < kBlocks; ++i) {
      io.read(file_.fd(), block, static_cast<off_t>(i * kBlock));
    }
    is_ahead_over = is_ahead_over || io.is_ahead();
  });
  EXPECT_EQ(ahead.planned_reads, kBlocks);
  EXPECT_EQ(plan.stats().planned_reads, kBlocks);
  EXPECT_EQ(plan.stats().unplanned_reads, 0u);
}

TEST_F(Plans, TheLoopAheadIsNotTooFarAhead) {
  Plan plan(service_);
  std::atomic<uint64_t> named{0};
  pre_execute(plan,
              [&](LoopIo& io) {
                std::vector<std::byte> block(kBlock);
                for (uint64_t i = 0; i < kBlocks; ++i) {
                  if (!io.is_ahead()) {
                    ::usleep(500);
                    EXPECT_LE(named, i + 9);  // one may be on its way
                  }
                  io.read(file_.fd(), block, static_cast<off_t>(i * kBlock));
                  named += io.is_ahead() ? 1 : 0;
                }
              },
              {.most_ahead = 8});
}

/// Every second read is of what was written just before: the loop ahead can only follow.
TEST_F(Plans, ReadsOfWhatIsYetToBeWrittenWaitForIt) {
  Plan plan(service_);
  std::atomic<uint64_t> written{0};
  std::atomic<uint64_t> too_early{0};
  const PreExecution ahead = pre_execute(plan, [&](LoopIo& io) {
    std::vector<std::byte> block(kBlock);
    for (uint64_t i = 0; i < kBlocks; ++i) {
      const auto at = static_cast<off_t>(i / 2 * kBlock);
      io.read(file_.fd(), block, at);
      if (io.is_ahead() && i % 2 == 1) {
        too_early += written < i / 2 + 1 ? 1 : 0;
      }
      io.compute([&] {
        if (i % 2 == 1) {
          EXPECT_EQ(block, std::vector<std::byte>(kBlock, static_cast<std::byte>(i - 1)));
        }
        std::fill(block.begin(), block.end(), static_cast<std::byte>(i));
      });
      if (i % 2 == 0) {
        written += io.is_ahead() ? 0 : 1;  // as it begins to write
        io.write(file_.fd(), block, at);
      }
    }
  });
  EXPECT_EQ(ahead.stopped, "");
  EXPECT_EQ(too_early, 0u);
  EXPECT_LE(ahead.waits, kBlocks / 2);
}

TEST_F(Plans, ReadsOfWhatIsYetToBeWrittenEndTheLoopAheadWhereThatIsWanted) {
  Plan plan(service_);
  std::atomic<bool> is_ahead_over{false};
  int written = 0;
  const PreExecution ahead = pre_execute(plan,
                                         [&](LoopIo& io) {
                                           struct AtEnd {
                                             ~AtEnd() { flag = flag || is_ahead; }
                                             std::atomic<bool>& flag;
                                             bool is_ahead;
                                           };
                                           const AtEnd at_end{is_ahead_over, io.is_ahead()};
                                           while (!io.is_ahead() && !is_ahead_over) {
                                             ::usleep(100);
                                           }
                                           std::vector<std::byte> block(kBlock);
                                           io.read(file_.fd(), block, 0);
                                           io.write(file_.fd(), block, 0);
                                           io.read(file_.fd(), block, 100);
                                           io.compute([&] { ++written; });
                                         },
                                         {.read_after_write = ReadAfterWrite::stop});
  EXPECT_EQ(ahead.stopped, "read 1 wants bytes at offset 100 that write 0 has not written yet");
  EXPECT_EQ(written, 1);
}

/// All reads are planned before the loop makes the first. By an index that the loop ahead had not
/// read, others would be.
TEST_F(Plans, AnIndexIsReadByTheLoopAheadToo) {
  std::vector<std::byte> index(kBlock);
  for (uint64_t i = 0; i < 32; ++i) {
    const uint64_t next = i * 7 % 32 + 1;
    std::memcpy(index.data() + i * 8, &next, 8);
  }
  ASSERT_EQ(::pwrite(file_.fd(), index.data(), kBlock, 0), static_cast<ssize_t>(kBlock));
  make_old(file_.fd());
  Plan plan(service_);
  std::atomic<bool> is_ahead_over{false};
  uint64_t right = 0;
  const PreExecution ahead = pre_execute(plan, [&](LoopIo& io) {
    std::vector<std::byte> block(kBlock);
    std::vector<std::byte> of_index(kBlock);
    while (!io.is_ahead() && !is_ahead_over) {
      ::usleep(100);
    }
    io.read_now(file_.fd(), of_index, 0);
    for (uint64_t i = 0; i < 32; ++i) {
      uint64_t next = 0;
      std::memcpy(&next, of_index.data() + i * 8, 8);
      io.read(file_.fd(), block, static_cast<off_t>(next * kBlock));
      io.compute([&] { right += block == pattern(next * kBlock, kBlock) ? 1 : 0; });
    }
    is_ahead_over = is_ahead_over || io.is_ahead();
  });
  EXPECT_EQ(ahead.stopped, "");
  EXPECT_EQ(ahead.planned_reads, 32u);
  EXPECT_EQ(right, 32u);
  EXPECT_EQ(plan.stats().unplanned_reads, 2u) << "of the index, by both";
}

TEST_F(Plans, WhatTheLoopThrowsEndsBoth) {
  Plan plan(service_);
  const auto loop = [&](LoopIo& io) {
    std::vector<std::byte> block(kBlock);
    for (uint64_t i = 0;; ++i) {
      io.read(file_.fd(), block, static_cast<off_t>(i % kBlocks * kBlock));
      io.compute([&] {
        if (i == 10) {
          throw std::runtime_error("enough");
        }
      });
    }
  };
  EXPECT_THROW(pre_execute(plan, loop), std::runtime_error);
}

TEST_F(Plans, WhatTheLoopAheadThrowsIsReportedAndEndsItAlone) {
  Plan plan(service_);
  std::atomic<bool> is_ahead_over{false};
  uint64_t computed = 0;
  const PreExecution ahead = pre_execute(plan, [&](LoopIo& io) {
    std::vector<std::byte> block(kBlock);
    if (io.is_ahead()) {
      is_ahead_over = true;
      throw std::runtime_error("this needs the result");
    }
    while (!is_ahead_over) {
      ::usleep(100);
    }
    for (uint64_t i = 0; i < 5; ++i) {
      io.read(file_.fd(), block, static_cast<off_t>(i * kBlock));
      io.compute([&] { ++computed; });
    }
  });
  EXPECT_EQ(ahead.stopped, "this needs the result");
  EXPECT_EQ(computed, 5u);
}

}  // namespace
}  // namespace ioweave::test
