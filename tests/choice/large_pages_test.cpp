// Whether large pages pay, on transfers whose times are made up.

#include "choice/large_pages.hpp"

#include <cstdint>
#include <random>

#include <gtest/gtest.h>

namespace ioweave::choice {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kBytes = 4 << 20;
const size_t kClass = class_of(kBytes);

using Verdict = LargePages::Verdict;

/// Makes transfers of one size, and lays their buffer in large pages as far as that is allowed.
class Program {
 public:
  Program(uint64_t small_ns, uint64_t large_ns, uint64_t conversion_ns)
      : small_ns_(small_ns), large_ns_(large_ns), conversion_ns_(conversion_ns) {}

  /// `is_new`: each transfer has another buffer.
  void make(int count, bool is_new = false) {
    for (int i = 0; i < count; ++i) {
      if (is_new) is_large_ = false;
      if (!is_large_ && pages_.allowance_ns(Operation::read, kClass) > 0) {
        pages_.note_conversion(Operation::read, kClass, kBytes, conversion_ns_);
        spent_ns_ += conversion_ns_;
        is_large_ = true;
      }
      const uint64_t noise = random_() % (small_ns_ * noise_percent_ / 100 + 1);
      const uint64_t ns = (is_large_ ? large_ns_ : small_ns_) + noise;
      plain_ns_ += small_ns_ + noise;
      spent_ns_ += ns;
      pages_.note_transfer(Operation::read, kClass, kBytes, is_large_ ? kBytes : 0, ns);
    }
  }
  void set_noise(uint64_t percent, unsigned seed) {
    noise_percent_ = percent;
    random_.seed(seed);
  }
  [[nodiscard]] Verdict verdict() const { return pages_.kind(Operation::read, kClass).verdict; }
  /// Over plain's time.
  [[nodiscard]] double took() const {
    return static_cast<double>(spent_ns_) / static_cast<double>(plain_ns_);
  }
  [[nodiscard]] uint64_t plain_ns() const { return plain_ns_; }
  [[nodiscard]] const LargePages& pages() const { return pages_; }

 private:
  uint64_t small_ns_, large_ns_, conversion_ns_;
  uint64_t noise_percent_ = 0;
  std::mt19937_64 random_;
  LargePages pages_;
  bool is_large_ = false;
  uint64_t plain_ns_ = 0;
  uint64_t spent_ns_ = 0;
};

TEST(LargePages, AreLeftToProgramsThatTransferMuch) {
  Program program(3 * kMs, kMs, kMs);
  program.make(8);
  EXPECT_EQ(program.pages().converting_ns(), 0u);
  program.make(2);
  EXPECT_EQ(program.pages().converted_bytes(), kBytes);
}

TEST(LargePages, PayWhereTransfersGetFaster) {
  Program program(3 * kMs, kMs, kMs);
  program.make(100);
  EXPECT_EQ(program.verdict(), Verdict::pays);
  EXPECT_LT(program.took(), 0.42);
  const LargePages::Kind& kind = program.pages().kind(Operation::read, kClass);
  EXPECT_FLOAT_EQ(kind.small.median(), 3 * kind.large.median());
}

TEST(LargePages, DoNotPayWhereTransfersStayAsTheyAre) {
  Program program(3 * kMs, 3 * kMs, kMs);
  program.make(100);
  EXPECT_EQ(program.verdict(), Verdict::pays_not);
  EXPECT_EQ(program.pages().allowance_ns(Operation::read, kClass), 0u);
}

TEST(LargePages, AreTriedAgainAfterEightTimesAsMany) {
  Program program(3 * kMs, 3 * kMs, kMs);
  program.make(200, /*is_new=*/true);
  ASSERT_EQ(program.verdict(), Verdict::pays_not);
  const uint64_t spent_ns = program.pages().converting_ns();
  program.make(200, /*is_new=*/true);
  EXPECT_EQ(program.pages().converting_ns(), spent_ns);
  program.make(1600, /*is_new=*/true);
  EXPECT_GT(program.pages().converting_ns(), spent_ns);
}

/// Where nothing is gained, trying costs a 32nd of the time at most, and one buffer.
TEST(LargePages, TryingCostsLittle) {
  for (const uint64_t conversion_ns : {kMs / 2, 5 * kMs, 19 * kMs, 40 * kMs}) {
    for (const int count : {10, 100, 10'000}) {
      for (const bool is_new : {false, true}) {
        Program program(3 * kMs, 3 * kMs, conversion_ns);
        program.make(count, is_new);
        const auto one = static_cast<double>(conversion_ns);
        EXPECT_LE(program.took(), 1 + 1.0 / 32 + one / static_cast<double>(program.plain_ns()))
            << conversion_ns << ", " << count;
        if (count < 1000) {
          EXPECT_LE(program.pages().converting_ns(), 12 * kMs + conversion_ns);
        }
      }
    }
  }
}

/// Though noise may look like a gain, it does not pay for more.
TEST(LargePages, NoiseCostsLittleToo) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    Program program(3 * kMs, 3 * kMs, kMs);
    program.set_noise(40, seed);
    program.make(3000, /*is_new=*/true);
    EXPECT_LE(program.took(), 1.06) << "seed " << seed;
  }
}

/// Even if each buffer is used once after it was laid in large pages.
TEST(LargePages, TakeHalfOfWhatTheyGainAtMost) {
  for (const uint64_t conversion_ns : {kMs / 2, 2 * kMs, 15 * kMs}) {
    Program program(3 * kMs, 2 * kMs, conversion_ns);
    program.make(10'000, /*is_new=*/true);
    EXPECT_LE(program.took(), 1.04) << conversion_ns;
  }
}

TEST(LargePages, AreLeftAloneWhereTheKernelTakesLong) {
  Program program(3 * kMs, kMs, 30 * kMs);
  program.make(10'000, /*is_new=*/true);
  EXPECT_EQ(program.pages().converting_ns(), 30 * kMs);
}

TEST(LargePages, AreJudgedForEachKindOfTransfers) {
  LargePages pages;
  for (const uint64_t large_bytes : {uint64_t{0}, kBytes}) {
    for (int i = 0; i < 20; ++i) {
      const bool is_large = large_bytes > 0;
      pages.note_transfer(Operation::read, kClass, kBytes, large_bytes, is_large ? kMs : 3 * kMs);
      pages.note_transfer(Operation::write, kClass, kBytes, large_bytes, 2 * kMs);
    }
  }
  EXPECT_EQ(pages.kind(Operation::read, kClass).verdict, Verdict::pays);
  EXPECT_EQ(pages.kind(Operation::write, kClass).verdict, Verdict::pays_not);
  EXPECT_EQ(pages.kind(Operation::read, kClass + 1).verdict, Verdict::unknown);
}

/// Of a buffer that lies there in part, that part must be faster by a tenth.
TEST(LargePages, APartOfTheBufferIsJudgedAsAPart) {
  for (const bool pays : {true, false}) {
    LargePages pages;
    for (const uint64_t large_bytes : {uint64_t{0}, kBytes / 2}) {
      for (int i = 0; i < 3; ++i) {
        const uint64_t percent = large_bytes == 0 ? 100 : pays ? 94 : 96;
        pages.note_transfer(Operation::write, kClass, kBytes, large_bytes, percent * kMs);
      }
    }
    EXPECT_EQ(pages.kind(Operation::write, kClass).verdict,
              pays ? Verdict::pays : Verdict::unknown);
  }
}

}  // namespace
}  // namespace ioweave::choice
