#include <initializer_list>
#include <random>

#include <gtest/gtest.h>

#include "cipher.hpp"

namespace hill {
namespace {

using Direction = Cipher::Direction;
using Text = std::vector<std::byte>;

Text bytes(const std::vector<int>& values) {
  Text text;
  for (const int value : values) text.push_back(static_cast<std::byte>(value));
  return text;
}

Text random_text(size_t size) {
  std::mt19937_64 random(size + 1);
  Text text(size);
  for (std::byte& byte : text) byte = static_cast<std::byte>(random());
  return text;
}

Text transformed(Text text, const std::vector<Matrix>& keys, Direction direction) {
  Cipher(keys, direction).transform(text);
  return text;
}

/// The definition: each block, as a column vector, times the matrix.
Text multiplied(const Matrix& matrix, const Text& text) {
  Text result(text.size());
  const size_t size = matrix.size();
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned sum = 0;
    for (size_t j = 0; j < size; ++j) {
      sum +=
          unsigned{matrix.at(i % size, j)} * std::to_integer<unsigned>(text[i / size * size + j]);
    }
    result[i] = static_cast<std::byte>(sum & 0xff);
  }
  return result;
}

TEST(HillMultiplier, IsTheProductModulo256WithEveryInstructionSet) {
  for (const std::string_view instructions : Multiplier::available()) {
    for (const size_t size : std::initializer_list<size_t>{1, 2, 3, 5, 8, 10, 15, 16, 17, 31, 32,
                                                           33, 63, 64, 65, 100, 128}) {
      const Matrix key = key_from_seed(size, size);
      const Multiplier multiplier(key, instructions);
      for (const size_t blocks :
           std::initializer_list<size_t>{0, 1, 2, 3, 4, 5, 7, 8, 9, 33, 131}) {
        Text text = random_text(size * blocks);
        const Text expected = multiplied(key, text);
        multiplier.apply(text);
        ASSERT_EQ(text, expected) << instructions << ", key " << size << ", blocks " << blocks;
      }
    }
  }
}

TEST(HillMultiplier, WrapsTheLargestProducts) {
  const Matrix key(200, std::vector<uint8_t>(200 * 200, 255));
  Text text(400, std::byte{255});
  const Text expected = multiplied(key, text);
  Multiplier(key).apply(text);
  EXPECT_EQ(text, expected);
}

// Computed apart, with Python's integers.
TEST(HillCipher, EnciphersTheKnownVector) {
  const Matrix key(3, {5, 17, 4, 2, 251, 9, 1, 3, 7});
  const Text plain = bytes({200, 201, 202, 203, 204, 205, 206, 207, 208, 209});
  const Text cipher = bytes({105, 189, 169, 183, 207, 202, 5, 225, 235, 21});
  EXPECT_EQ(transformed(plain, {key}, Direction::kEncrypt), cipher);
  EXPECT_EQ(transformed(cipher, {key}, Direction::kDecrypt), plain);
}

TEST(HillCipher, EnciphersATailWithRowsMovedWhenTheCornerHasNoInverse) {
  const Matrix key(2, {2, 3, 5, 4});
  EXPECT_EQ(transformed(bytes({10, 20, 30}), {key}, Direction::kEncrypt), bytes({80, 130, 150}));
  EXPECT_EQ(transformed(bytes({80, 130, 150}), {key}, Direction::kDecrypt), bytes({10, 20, 30}));
}

class HillRoundTrip : public testing::TestWithParam<size_t> {};

TEST_P(HillRoundTrip, RestoresEveryLength) {
  const size_t key_size = GetParam();
  const Matrix key = key_from_seed(key_size, 5);
  for (const size_t size :
       {size_t{0}, size_t{1}, key_size - 1, key_size, key_size + 1, 7 * key_size - 1,
        kPieceBytes - 1, kPieceBytes, kPieceBytes + 1, 3 * kPieceBytes + key_size / 2}) {
    const Text plain = random_text(size);
    const Text cipher = transformed(plain, {key}, Direction::kEncrypt);
    ASSERT_EQ(cipher.size(), size);
    EXPECT_EQ(transformed(cipher, {key}, Direction::kDecrypt), plain) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(KeySizes, HillRoundTrip,
                         testing::Values(1, 2, 3, 4, 8, 16, 31, 32, 33, 64, 100, 257));

TEST(HillCipher, RestoresWithAKeyWhoseCornersHaveNoInverse) {
  Matrix key = key_from_seed(37, 9);
  for (size_t i = 0; i + 1 < key.size(); i += 2) key.swap_rows(i, key.size() - 1 - i);
  const Text plain = random_text(2 * kPieceBytes + 36);
  const Text cipher = transformed(plain, {key}, Direction::kEncrypt);
  EXPECT_EQ(transformed(cipher, {key}, Direction::kDecrypt), plain);
}

TEST(HillCipher, UndoesRoundsInTheirOrder) {
  const std::vector<Matrix> keys = {key_from_seed(10, 1), key_from_seed(10, 2),
                                    key_from_seed(10, 3)};
  const Text plain = random_text(kPieceBytes + 1234);
  const Text cipher = transformed(plain, keys, Direction::kEncrypt);
  EXPECT_EQ(transformed(cipher, keys, Direction::kDecrypt), plain);
  EXPECT_NE(cipher, transformed(plain, {keys[0]}, Direction::kEncrypt));
}

TEST(HillCipher, DoesNotDependOnTheChunks) {
  const Matrix key = key_from_seed(100, 1);
  const Text plain = random_text(5 * kPieceBytes + 99);
  Text parts = plain;
  Cipher cipher({&key, 1}, Direction::kEncrypt);
  const std::span<std::byte> all(parts);
  cipher.transform(all.first(kPieceBytes));
  cipher.transform(all.subspan(kPieceBytes, 3 * kPieceBytes));
  cipher.transform(all.subspan(4 * kPieceBytes));
  EXPECT_EQ(parts, transformed(plain, {key}, Direction::kEncrypt));
}

TEST(HillCipher, DoesNotOpenToAnotherKey) {
  const Text plain = random_text(5000);
  const Text cipher = transformed(plain, {key_from_seed(8, 1)}, Direction::kEncrypt);
  EXPECT_NE(cipher, plain);
  EXPECT_NE(transformed(cipher, {key_from_seed(8, 2)}, Direction::kDecrypt), plain);
}

TEST(HillCipher, RefusesAKeyWithoutInverseInBothDirections) {
  const std::vector<Matrix> keys = {Matrix(2, {2, 4, 6, 8})};
  EXPECT_THROW(Cipher(keys, Direction::kEncrypt), KeyError);
  EXPECT_THROW(Cipher(keys, Direction::kDecrypt), KeyError);
}

}  // namespace
}  // namespace hill
