// System calls in machine code: code written here, and that of libraries of this machine.

#include "cli/raw_calls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ioweave::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using namespace std::string_view_literals;

#if defined(__x86_64__)

TEST(RawCalls, AreNamedByTheNumberBeforeThem) {
  EXPECT_THAT(find_raw_calls("\x90\xb8\x01\x00\x00\x00\x0f\x05\xc3"sv), ElementsAre("write"));
  EXPECT_THAT(find_raw_calls("\x31\xc0\x0f\x05\xc3"sv), ElementsAre("read"));
}

TEST(RawCalls, OfAWrapperMaySetArgumentsInBetween) {
  // mov eax, 17; mov r10, rcx; syscall; cmp rax, -4096
  EXPECT_THAT(find_raw_calls("\xb8\x11\x00\x00\x00\x49\x89\xca\x0f\x05\x48\x3d\x00\xf0\xff\xff"sv),
              ElementsAre("pread64"));
  // The constant nearest to the call is its number.
  EXPECT_THAT(find_raw_calls("\xb8\x01\x00\x00\x00\xb8\x4a\x00\x00\x00\x49\x89\xca\x0f\x05\x48\x3d"
                             "\x00\xf0\xff\xff"sv),
              ElementsAre("fsync"));
}

TEST(RawCalls, AreNotSeenInBytesThatHappenToLookLikeOne) {
  EXPECT_THAT(find_raw_calls("\xb8\x01\x00\x00\x00\x49\x89\xca\x0f\x05\xc3"sv), IsEmpty());
  EXPECT_THAT(find_raw_calls("\x0f\x05"sv), IsEmpty());
  EXPECT_THAT(find_raw_calls("\xb8\x01\x00\x00\x00\x0f"sv), IsEmpty());
  EXPECT_THAT(find_raw_calls(""sv), IsEmpty());
}

TEST(RawCalls, ThatAreNoTransfersAreLeftOut) {
  EXPECT_THAT(find_raw_calls("\xb8\x27\x00\x00\x00\x0f\x05\xc3"sv), IsEmpty());  // getpid
}

#elif defined(__aarch64__)

TEST(RawCalls, AreNamedByTheNumberBeforeThem) {
  // mov x8, 64; svc 0
  EXPECT_THAT(find_raw_calls("\x08\x08\x80\xd2\x01\x00\x00\xd4"sv), ElementsAre("write"));
  // mov w8, 63; mov x1, x2; svc 0
  EXPECT_THAT(find_raw_calls("\xe8\x07\x80\x52\xe1\x03\x02\xaa\x01\x00\x00\xd4"sv),
              ElementsAre("read"));
}

TEST(RawCalls, ThatAreNoTransfersAreLeftOut) {
  EXPECT_THAT(find_raw_calls("\x88\x15\x80\xd2\x01\x00\x00\xd4"sv), IsEmpty());  // getpid
  EXPECT_THAT(find_raw_calls("\x01\x00\x00\xd4"sv), IsEmpty());
}

#endif

TEST(RawCalls, OfAFileThatIsNoProgramAreNone) {
  EXPECT_THAT(raw_calls_of("/etc/passwd"), IsEmpty());
  EXPECT_THAT(raw_calls_of("/nonexistent"), IsEmpty());
}

}  // namespace
}  // namespace ioweave::cli
