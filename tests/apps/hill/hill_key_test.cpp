#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "key.hpp"

namespace hill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Matrix rows(size_t size, std::vector<uint8_t> elements) {
  return {size, std::move(elements)};
}

TEST(HillKey, TimesItsInverseIsTheIdentity) {
  for (const size_t size : std::initializer_list<size_t>{1, 2, 3, 4, 7, 16, 31, 32, 33, 100, 131}) {
    const Matrix key = key_from_seed(size, size);
    EXPECT_EQ(key * inverse(key), Matrix::identity(size)) << size;
    EXPECT_EQ(inverse(key) * key, Matrix::identity(size)) << size;
  }
}

TEST(HillKey, InvertsEveryOddNumber) {
  for (unsigned odd = 1; odd < 256; odd += 2) {
    const Matrix key = rows(1, {static_cast<uint8_t>(odd)});
    EXPECT_EQ(inverse(key) * key, Matrix::identity(1)) << odd;
  }
}

TEST(HillKey, InvertsByTheTextbook) {
  // det = 9, 9 * 57 = 513 = 1 (mod 256): the inverse is 57 * [5 -3; -2 3].
  EXPECT_EQ(inverse(rows(2, {3, 3, 2, 5})), rows(2, {29, 85, 142, 171}));
}

TEST(HillKey, InvertsWhereEliminationMustExchangeRows) {
  const Matrix key = rows(3, {0, 1, 0, 0, 0, 1, 1, 0, 0});
  EXPECT_EQ(key * inverse(key), Matrix::identity(3));
}

TEST(HillKey, WithAnEvenDeterminantHasNoInverse) {
  EXPECT_THROW(inverse(rows(1, {2})), KeyError);
  EXPECT_THROW(inverse(rows(2, {1, 3, 5, 17})), KeyError);
  EXPECT_THROW(with_invertible_corners(rows(2, {1, 3, 5, 17})), KeyError);
}

TEST(HillKey, FromASeedHasInvertibleCorners) {
  const Matrix key = key_from_seed(40, 3);
  EXPECT_EQ(with_invertible_corners(key), key);
  for (size_t size = 1; size <= 40; ++size) EXPECT_NO_THROW(inverse(key.corner(size))) << size;
}

TEST(HillKey, GetsInvertibleCornersByMovingRows) {
  const Matrix key = rows(3, {2, 1, 0, 1, 4, 6, 8, 0, 1});
  const Matrix moved = with_invertible_corners(key);
  EXPECT_EQ(moved, rows(3, {1, 4, 6, 2, 1, 0, 8, 0, 1}));
  for (size_t size = 1; size <= 3; ++size) EXPECT_NO_THROW(inverse(moved.corner(size))) << size;
}

TEST(HillKey, FromASeedIsTheSameEverywhere) {
  const Matrix key = key_from_seed(3, 1);
  EXPECT_EQ(key, key_from_seed(3, 1));
  EXPECT_NE(key, key_from_seed(3, 2));
  EXPECT_THAT(std::vector<uint8_t>(key.row(0).begin(), key.row(0).end()), ElementsAre(35, 34, 115));
}

class HillKeyFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "hill-key-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string file_with(const std::string& text) {
    const std::string path = directory_ / "key";
    std::ofstream(path) << text;
    return path;
  }

  std::filesystem::path directory_;
};

TEST_F(HillKeyFile, IsReadRowByRowWithComments) {
  EXPECT_EQ(key_from_file(file_with("# a key\n3 3\n2 255 # odd\n")), rows(2, {3, 3, 2, 255}));
}

TEST_F(HillKeyFile, ThatIsNotSquareIsRefused) {
  const std::string path = file_with("1 2 3");
  EXPECT_THAT([&] { key_from_file(path); }, ThrowsMessage<KeyError>(HasSubstr("holds 3 numbers")));
}

TEST_F(HillKeyFile, ThatIsEmptyIsRefused) {
  const std::string path = file_with("");
  EXPECT_THAT([&] { key_from_file(path); }, ThrowsMessage<KeyError>(HasSubstr("holds 0 numbers")));
}

TEST_F(HillKeyFile, NamesTheWordThatIsNoByte) {
  for (const char* word : {"256", "-1", "x", "1.5", "99999999999"}) {
    const std::string path = file_with(std::string("1 ") + word);
    EXPECT_THAT([&] { key_from_file(path); }, ThrowsMessage<KeyError>(HasSubstr(word)));
  }
}

TEST_F(HillKeyFile, ThatIsMissingIsNamed) {
  const std::string path = directory_ / "missing";
  EXPECT_THAT([&] { key_from_file(path); }, ThrowsMessage<KeyError>(HasSubstr(path)));
}

}  // namespace
}  // namespace hill
