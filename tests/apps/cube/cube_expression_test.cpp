// The subset of CubePL.
#include <cfloat>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error.hpp"
#include "expression.hpp"

namespace {

using cube::CubeError;
using cube::Expression;
using cube::Flavour;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The value with metric::x() = 4 inclusive and 3 exclusive, any other metric 0.5.
double value_of(const std::string& text, Flavour own = Flavour::kInclusive) {
  const Expression expression(text);
  Expression::Scratch scratch;
  std::vector<double> result(3);
  expression.evaluate(
      own,
      [&](size_t number, Flavour flavour, std::span<double> into) {
        const bool is_x = expression.metrics()[number] == "x";
        for (double& value : into) value = !is_x ? 0.5 : flavour == Flavour::kInclusive ? 4 : 3;
      },
      scratch, result);
  EXPECT_EQ(result[0], result[2]) << text;
  return result[0];
}

TEST(CubeExpression, BindsAsInMathematics) {
  EXPECT_EQ(value_of("1 + 2 * 3"), 7);
  EXPECT_EQ(value_of("(1 + 2) * 3"), 9);
  EXPECT_EQ(value_of("10 - 4 - 3"), 3);
  EXPECT_EQ(value_of("16 / 4 / 2"), 2);
  EXPECT_EQ(value_of("2 ^ 3 ^ 2"), 512);
  EXPECT_EQ(value_of("-2 ^ 2"), -4);
  EXPECT_EQ(value_of("2 ^ -1"), 0.5);
  EXPECT_EQ(value_of("1.5e2 + .5"), 150.5);
  EXPECT_EQ(value_of("|3 - 5| * 2"), 4);
}

TEST(CubeExpression, ComparesAndDecides) {
  EXPECT_EQ(value_of("3 > 2"), 1);
  EXPECT_EQ(value_of("3 <= 2"), 0);
  EXPECT_EQ(value_of("3 == 3"), 1);
  EXPECT_EQ(value_of("3 != 3"), 0);
  EXPECT_EQ(value_of("1 > 2 or 2 >= 2"), 1);
  EXPECT_EQ(value_of("1 and 0 or 1"), 1);
  EXPECT_EQ(value_of("1 xor 1"), 0);
  EXPECT_EQ(value_of("not 0 and not 5"), 0);
  EXPECT_EQ(value_of("(metric::x() > 3) * 10"), 10);
}

TEST(CubeExpression, DividesAsCubeDoes) {
  EXPECT_EQ(value_of("0 / 0"), 0);
  EXPECT_EQ(value_of("2 / 0"), DBL_MAX);
  EXPECT_EQ(value_of("-2 / 0"), -DBL_MAX);
  EXPECT_EQ(value_of("7 / 2"), 3.5);
}

TEST(CubeExpression, HasFunctions) {
  EXPECT_EQ(value_of("min(3, 2) + max(3, 2)"), 5);
  EXPECT_EQ(value_of("sqrt(9) + abs(-1) + ceil(1.2) + floor(1.8)"), 7);
  EXPECT_EQ(value_of("pos(-2) + neg(-2) + sgn(-2)"), -3);
  EXPECT_DOUBLE_EQ(value_of("exp(ln(5))"), 5);
  EXPECT_DOUBLE_EQ(value_of("sin(1)^2 + cos(1)^2"), 1);
  EXPECT_DOUBLE_EQ(value_of("tan(1) * cot(1)"), 1);
  EXPECT_DOUBLE_EQ(value_of("asin(1) + acos(1)"), std::asin(1));
  EXPECT_DOUBLE_EQ(value_of("atan(2) + acot(2)"), std::asin(1));
}

TEST(CubeExpression, TakesValuesOfMetricsInTheFlavourAskedFor) {
  EXPECT_EQ(value_of("metric::x()"), 4);
  EXPECT_EQ(value_of("metric::x()", Flavour::kExclusive), 3);
  EXPECT_EQ(value_of("metric::x(*)", Flavour::kExclusive), 3);
  EXPECT_EQ(value_of("metric::x(i)", Flavour::kExclusive), 4);
  EXPECT_EQ(value_of("metric::x(e)"), 3);
  EXPECT_EQ(value_of("metric::x( e , i )"), 3);
}

TEST(CubeExpression, KnowsNamesWithColonsAndSigns) {
  const Expression expression("metric::a::B:c=0() + metric::x-y() + metric::a::B:c=0(i)");
  EXPECT_THAT(expression.metrics(), ElementsAre("a::B:c=0", "x-y"));
}

TEST(CubeExpression, TakesTheFormOfAFunctionThatReturnsIt) {
  EXPECT_EQ(value_of("{ return metric::x() * 2; }"), 8);
  EXPECT_EQ(value_of("metric::x();"), 4);
}

TEST(CubeExpression, SaysWhatItDoesNotKnow) {
  const auto parse = [](const std::string& text) { return [text] { Expression{text}; }; };
  EXPECT_THAT(parse("${a} + 1"), ThrowsMessage<CubeError>(HasSubstr("variables")));
  EXPECT_THAT(parse("\"a\""), ThrowsMessage<CubeError>(HasSubstr("strings")));
  EXPECT_THAT(parse("random(3)"), ThrowsMessage<CubeError>(HasSubstr("'random'")));
  EXPECT_THAT(parse("{ if (1) { return 2; } }"), ThrowsMessage<CubeError>(HasSubstr("statements")));
  EXPECT_THAT(parse("metric::fixed::x()"), ThrowsMessage<CubeError>(HasSubstr("fixed")));
  EXPECT_THAT(parse("1 +"), ThrowsMessage<CubeError>(HasSubstr("ends too early")));
  EXPECT_THAT(parse(""), ThrowsMessage<CubeError>(HasSubstr("ends too early")));
  EXPECT_THAT(parse("1 2"), ThrowsMessage<CubeError>(HasSubstr("character 2")));
  EXPECT_THAT(parse("(1"), ThrowsMessage<CubeError>(HasSubstr("')' is missing")));
  EXPECT_THAT(parse("min(1)"), ThrowsMessage<CubeError>(HasSubstr("',' is missing")));
}

TEST(CubeExpression, BoundsItsSize) {
  const auto parse = [](const std::string& text) { return [text] { Expression{text}; }; };
  EXPECT_THAT(parse(std::string(10000, '(')), ThrowsMessage<CubeError>(HasSubstr("nested")));
  std::string signs(10000, '-');
  signs.push_back('1');
  EXPECT_THAT(parse(signs), ThrowsMessage<CubeError>(HasSubstr("nested")));
  std::string sum = "1";
  for (int i = 0; i < 5000; ++i) sum += "+1";
  EXPECT_THAT(parse(sum), ThrowsMessage<CubeError>(HasSubstr("4096 steps")));
}

}  // namespace
