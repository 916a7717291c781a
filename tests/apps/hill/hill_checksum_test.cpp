// The checksum by which runs of hill_mpi are compared.
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "checksum.hpp"

namespace hill {
namespace {

std::vector<std::byte> random_text(size_t bytes) {
  std::mt19937_64 random(bytes);
  std::vector<std::byte> text(bytes);
  for (std::byte& each : text) each = static_cast<std::byte>(random());
  return text;
}

uint64_t checksum_of(std::span<const std::byte> text, uint64_t offset = 0) {
  Checksum checksum;
  checksum.add(text, offset);
  return checksum.value();
}

TEST(HillChecksum, IsTheSumOfWordsTimesOddNumbers) {
  const std::vector<uint64_t> words = {5, 7, 1};
  EXPECT_EQ(checksum_of(std::as_bytes(std::span(words))), 5u * 1 + 7u * 3 + 1u * 5);
  EXPECT_EQ(checksum_of(std::as_bytes(std::span(words)), 80), 5u * 21 + 7u * 23 + 1u * 25);
  EXPECT_EQ(checksum_of({}), 0u);
}

TEST(HillChecksum, IsTheSameHoweverAFileIsCut) {
  const std::vector<std::byte> text = random_text(10'003);
  const uint64_t wanted = checksum_of(text);
  for (const size_t piece : {8u, 64u, 4096u}) {
    uint64_t sum = 0;  // as that over ranks
    for (size_t at = 0; at < text.size(); at += piece) {
      sum += checksum_of(std::span(text).subspan(at, std::min(piece, text.size() - at)), at);
    }
    EXPECT_EQ(sum, wanted) << piece;
  }
}

TEST(HillChecksum, EveryByteCounts) {
  std::vector<std::byte> text = random_text(1003);
  const uint64_t wanted = checksum_of(text);
  for (std::byte& each : text) {
    each ^= std::byte{16};
    EXPECT_NE(checksum_of(text), wanted);
    each ^= std::byte{16};
  }
}

TEST(HillChecksum, PartsInAnotherOrderAreAnotherText) {
  std::vector<std::byte> text = random_text(8192);
  const uint64_t wanted = checksum_of(text);
  std::rotate(text.begin(), text.begin() + 4096, text.end());
  EXPECT_NE(checksum_of(text), wanted);
}

}  // namespace
}  // namespace hill
