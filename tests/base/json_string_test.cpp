#include "base/json_string.hpp"

#include <gtest/gtest.h>

namespace ioweave {
namespace {

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonString, WhatWouldEndItIsEscaped) {
  EXPECT_EQ(json_string(""), R"("")");
  EXPECT_EQ(json_string(R"(a "b" \c)"), R"("a \"b\" \\c")");
}

TEST(JsonString, ControlCharactersAreEscapedTheNullAmongThem) {
  EXPECT_EQ(json_string(std::string_view("a\n\t\0\x1f", 5)), R"("a\u000a\u0009\u0000\u001f")");
}

TEST(JsonString, Utf8IsKeptAndWhatIsNoneIsReplaced) {
  EXPECT_EQ(json_string("na\xC3\xAFve"), "\"na\xC3\xAFve\"");
  EXPECT_EQ(json_string("\xFFz\xC3"), "\"\xEF\xBF\xBDz\xEF\xBF\xBD\"");
  EXPECT_EQ(json_string("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // surrogate
}

}  // namespace
}  // namespace ioweave
