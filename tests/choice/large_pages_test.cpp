// Whether large pages pay, on transfers whose times are made up.

#include "choice/large_pages.hpp"

#include <cstdint>

#include <gtest/gtest.h>

namespace ioweave::choice {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kBytes = 4 << 20;
const size_t kClass = class_of(kBytes);

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
        pages_.note_conversion(kBytes, conversion_ns_);
        spent_ns_ += conversion_ns_;
        is_large_ = true;
      }
      const uint64_t ns = is_large_ ? large_ns_ : small_ns_;
      plain_ns_ += small_ns_;
      spent_ns_ += ns;
      pages_.note_transfer(Operation::read, kClass, kBytes, is_large_ ? kBytes : 0, ns);
    }
  }
  [[nodiscard]] LargePages::Verdict verdict() const {
    return pages_.kind(Operation::read, kClass).verdict;
  }
  /// Over plain's time.
  [[nodiscard]] double took() const {
    return static_cast<double>(spent_ns_) / static_cast<double>(plain_ns_);
  }
  [[nodiscard]] const LargePages& pages() const { return pages_; }

 private:
  uint64_t small_ns_, large_ns_, conversion_ns_;
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
  EXPECT_EQ(program.verdict(), LargePages::Verdict::pays);
  EXPECT_LT(program.took(), 0.42);
  EXPECT_FLOAT_EQ(program.pages().kind(Operation::read, kClass).small_pace,
                  3 * program.pages().kind(Operation::read, kClass).large_pace);
}

TEST(LargePages, DoNotPayWhereTransfersStayAsTheyAre) {
  Program program(3 * kMs, 3 * kMs, kMs);
  program.make(100);
  EXPECT_EQ(program.verdict(), LargePages::Verdict::pays_not);
  EXPECT_EQ(program.pages().allowance_ns(Operation::read, kClass), 0u);
}

/// Where nothing is gained, trying costs a sixteenth of the time at most, and 25 ms and one buffer.
TEST(LargePages, TryingCostsLittle) {
  for (const uint64_t conversion_ns : {kMs / 2, 5 * kMs, 40 * kMs}) {
    for (const int count : {10, 100, 10'000}) {
      for (const bool is_new : {false, true}) {
        Program program(3 * kMs, 3 * kMs, conversion_ns);
        program.make(count, is_new);
        const double transfers_ns = static_cast<double>(3 * kMs) * count;
        const auto one = static_cast<double>(conversion_ns);
        EXPECT_LE(program.took(), 1 + 1.0 / 16 + one / transfers_ns)
            << conversion_ns << ", " << count;
        EXPECT_LE(program.pages().converting_ns(), 25 * kMs + conversion_ns);
      }
    }
  }
}

/// Even if each buffer were used once after it was laid in large pages.
TEST(LargePages, NeverTakeMoreThanAQuarterOfTheTransfers) {
  Program program(3 * kMs, 2 * kMs, 20 * kMs);
  program.make(10'000, /*is_new=*/true);
  EXPECT_EQ(program.verdict(), LargePages::Verdict::pays);
  EXPECT_LE(program.took(), 1.26);
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
  EXPECT_EQ(pages.kind(Operation::read, kClass).verdict, LargePages::Verdict::pays);
  EXPECT_EQ(pages.kind(Operation::write, kClass).verdict, LargePages::Verdict::pays_not);
  EXPECT_EQ(pages.kind(Operation::read, kClass + 1).verdict, LargePages::Verdict::unknown);
}

/// Of a buffer that lies there in part, that part must be faster by a tenth.
TEST(LargePages, APartOfTheBufferIsJudgedAsAPart) {
  for (const bool pays : {true, false}) {
    LargePages pages;
    for (int i = 0; i < 2; ++i) {
      pages.note_transfer(Operation::write, kClass, kBytes, 0, 1000 * kMs / 10);
    }
    pages.note_transfer(Operation::write, kClass, kBytes, kBytes / 2,
                        (pays ? 940 : 960) * kMs / 10);
    EXPECT_EQ(pages.kind(Operation::write, kClass).verdict,
              pays ? LargePages::Verdict::pays : LargePages::Verdict::unknown);
  }
}

}  // namespace
}  // namespace ioweave::choice
