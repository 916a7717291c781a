// What is read ahead of a file of bytes, by the numbers of the plan.

#include "calls/mpiio/open_file.hpp"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temp_file.hpp"

namespace {

using namespace ioweave;
using calls::OpenFile;

constexpr int64_t kFileBytes = 32 << 20;
constexpr int64_t kMostAhead = 8 << 20;

class OpenFileTest : public testing::Test, public calls::PlanKeeper {
 protected:
  void SetUp() override {
    std::string why;
    int error = 0;
    service_ = service::Service::open({}, error, why);
    ASSERT_NE(service_, nullptr) << why;
    stream::PlanOptions options;
    options.only_cache = true;
    options.reads_cached = true;
    plan_ = stream::Plan::open(*service_, options, error, why);
    ASSERT_NE(plan_, nullptr) << why;
    open(true);
  }
  void leave_alone(calls::LeftAlone) noexcept override { ++left_alone_; }
  void open(bool is_eager, int64_t most_ahead = kMostAhead) {
    stream::FileState state;
    ASSERT_EQ(stream::find_state(file_.fd(), state), 0);
    open_ = std::make_unique<OpenFile>(calls::NamedFile{file_.path(), state.id}, *this, most_ahead,
                                       is_eager);
  }
  void read(int64_t offset, int64_t bytes) {
    static_cast<void>(open_->begin_read(offset, static_cast<uint64_t>(bytes), true));
  }
  stream::Plan* open_plan() noexcept override { return plan_.get(); }
  Descriptor open_file(const calls::NamedFile& file) noexcept override {
    ++opened_;
    return may_open_ ? calls::open_known(file) : Descriptor();
  }
  void note_closed() noexcept override { --opened_; }
  [[nodiscard]] iow_plan_stats stats() const { return plan_->statistics(); }

  test::TempFile file_{kFileBytes};
  service::Service::Owner service_;
  stream::Plan::Owner plan_;
  std::unique_ptr<OpenFile> open_;
  int opened_ = 0;
  int left_alone_ = 0;
  bool may_open_ = true;
};

TEST_F(OpenFileTest, HasADescriptorOnlyWhileItReadsAhead) {
  read(0, 1 << 20);
  EXPECT_EQ(opened_, 0);
  for (int64_t i = 1; i < 4; ++i) {
    read(i << 20, 1 << 20);
  }
  EXPECT_EQ(opened_, 1);
  open_ = nullptr;
  EXPECT_EQ(opened_, 0);
}

TEST_F(OpenFileTest, GoesWithoutADescriptorThatCannotBeHad) {
  may_open_ = false;
  for (int64_t i = 0; i < 8; ++i) {
    read(i << 20, 1 << 20);
  }
  EXPECT_EQ(stats().planned_reads, 0u);
  EXPECT_EQ(open_->add_planned(0, 4096), -ENOTSUP);
}

TEST_F(OpenFileTest, AFileOfTheSameNameIsAnother) {
  const test::TempFile other(4096);
  ASSERT_EQ(std::rename(other.path().c_str(), file_.path().c_str()), 0);
  for (int64_t i = 0; i < 8; ++i) {
    read(i << 20, 1 << 20);
  }
  EXPECT_EQ(stats().planned_reads, 0u);
}

/// The next step of a pattern that runs backwards may be before the file, and before its view.
TEST_F(OpenFileTest, ForetellsNothingBeforeTheBeginning) {
  for (const int64_t at : {6, 3, 0}) {
    read(at << 20, 4096);
  }
  EXPECT_EQ(stats().planned_reads, 0u);
}

TEST_F(OpenFileTest, ForetellsASequenceAndStepsOfIt) {
  for (int64_t i = 0; i < 8; ++i) {
    read(i << 20, 1 << 20);
  }
  EXPECT_GE(stats().planned_bytes, 8u << 20);
  EXPECT_GE(stats().hit_bytes + stats().own_bytes, 5u << 20);
  EXPECT_GT(stats().hit_bytes, 0u);
  EXPECT_EQ(stats().unplanned_reads, 0u);
}

TEST_F(OpenFileTest, ForetellsAtMostSoManyBytes) {
  for (int64_t i = 0; i < 6; ++i) {
    read(i * 4096, 4096);
  }
  EXPECT_LE(stats().planned_bytes, static_cast<uint64_t>(kMostAhead) + (2 << 20));
}

/// As the library opens a plan of the least memory: also of reads that the program plans, no more
/// is ahead of it, however little it reads and however long it computes.
TEST_F(OpenFileTest, WhatIsAheadStaysWithinTheLeastBudget) {
  constexpr uint64_t kBudget = 1 << 20;
  stream::PlanOptions options;
  options.only_cache = true;
  options.reads_cached = true;
  options.budget_bytes = kBudget;
  options.slice_bytes = kBudget / 4;
  const auto expect_within = [&] {
    EXPECT_LE(stats().ahead_bytes, stats().hit_bytes + stats().unread_bytes + kBudget);
  };
  // The end of a slice begins the next: until nothing more comes.
  const auto wait_for_the_last = [&] {
    for (uint64_t last = UINT64_MAX; last != stats().ahead_bytes;) {
      last = stats().ahead_bytes;
      ::usleep(20'000);
    }
  };
  for (const int64_t stride : {64 << 10, 200 << 10, 2 << 20}) {
    SCOPED_TRACE("stride " + std::to_string(stride));
    open_ = nullptr;
    int error = 0;
    std::string why;
    plan_ = stream::Plan::open(*service_, options, error, why);
    ASSERT_NE(plan_, nullptr) << why;
    open(true, kBudget / 2);
    for (int64_t i = 0; i < 12; ++i) {
      read(i * stride, 64 << 10);
      expect_within();
    }
    wait_for_the_last();
    EXPECT_GT(stats().ahead_bytes, 0u);
    expect_within();
    for (int64_t i = 0; i < 32; ++i) {
      ASSERT_EQ(open_->add_planned((24 << 20) + i * (200 << 10), 200 << 10), 0);
    }
    wait_for_the_last();
    expect_within();
  }
}

TEST_F(OpenFileTest, ForetellsStepsBackwards) {
  for (int64_t i = 0; i < 10; ++i) {
    read((30 - i * 2) << 20, 64 << 10);
  }
  EXPECT_GE(stats().planned_reads, 7u);
  EXPECT_EQ(stats().unplanned_reads, 0u);
}

TEST_F(OpenFileTest, ForetellsNothingOfRandomReads) {
  for (const int64_t at : {5, 11, 3, 29, 17, 2, 23}) {
    read(at << 20, 4096);
  }
  EXPECT_EQ(stats().planned_reads, 0u);
}

TEST_F(OpenFileTest, ForetellsNothingWhileReadsAreQuick) {
  open(false);
  for (int64_t i = 0; i < 6; ++i) {
    read(i << 20, 1 << 20);
    open_->note_time(1 << 20, 1000);
  }
  EXPECT_EQ(stats().planned_reads, 0u);
  open_->note_time(1 << 20, 50'000'000);
  read(6 << 20, 1 << 20);
  EXPECT_GT(stats().planned_reads, 0u);
}

TEST_F(OpenFileTest, ForetellsNothingBehindTheEnd) {
  for (int64_t i = 4; i > 0; --i) {
    read(kFileBytes - (i << 20), 1 << 20);
  }
  EXPECT_LE(stats().planned_bytes, 2u << 20);
}

TEST_F(OpenFileTest, ReadsWhatTheProgramPlans) {
  ASSERT_EQ(open_->add_planned(5 << 20, 4096), 0);
  ASSERT_EQ(open_->add_planned(1 << 20, 4096), 0);
  EXPECT_EQ(open_->add_planned(0, 0), -EINVAL);
  EXPECT_EQ(open_->add_planned(-1, 10), -EINVAL);
  read(5 << 20, 4096);
  read(1 << 20, 4096);
  EXPECT_EQ(stats().planned_reads, 2u);
  EXPECT_EQ(stats().reads, 2u);
  EXPECT_EQ(stats().unplanned_reads, 0u);
}

TEST_F(OpenFileTest, ForgetsWhatItForetoldWithTheView) {
  for (int64_t i = 0; i < 4; ++i) {
    read(i << 20, 1 << 20);
  }
  ASSERT_GT(stats().planned_reads, 0u);
  open_->set_view({});
  const uint64_t before = stats().reads;
  read(4 << 20, 1 << 20);
  EXPECT_EQ(stats().reads, before) << "no pattern is known any more";
}

}  // namespace
