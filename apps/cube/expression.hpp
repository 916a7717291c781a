// The expressions of derived metrics: a subset of CubePL, compiled once and evaluated for many
// values at a time.
//
// What there is: numbers; metric::NAME(), whose argument may be i (inclusive), e (exclusive) or *
// (as the metric itself is evaluated); + - * / ^, the negative, |x|, parentheses; > < >= <= == !=;
// and, or, xor, not; min(x,y), max(x,y), abs, sqrt, exp, ln, sin, cos, tan, cot, asin, acos, atan,
// acot, ceil, floor, pos, neg, sgn; { return EXPRESSION; } around all of it. ^ binds its right
// side first, so 2^3^2 is 2^9. Conditions are 1 or 0, and what is not 0 is true. Division is
// CubePL's: 0/x is 0, and x/0 is the largest double with the sign of x.
// Strings, variables, if, while, and metric::context or metric::fixed are errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cube {

enum class Flavour { kInclusive, kExclusive };

/// Immutable; any thread may evaluate it.
class Expression {
 public:
  /// Throws CubeError that says what is not understood, and where.
  explicit Expression(std::string_view text);

  /// The names of the metrics used, each once.
  [[nodiscard]] const std::vector<std::string>& metrics() const { return metrics_; }

  /// Fills `into` with the values of metrics()[number].
  using Fetch = std::function<void(size_t number, Flavour flavour, std::span<double> into)>;

  /// Memory for evaluations, of one thread.
  using Scratch = std::vector<std::vector<double>>;

  /// Fills `into`; `own` is the flavour that metric::NAME() and metric::NAME(*) mean.
  void evaluate(Flavour own, const Fetch& fetch, Scratch& scratch, std::span<double> into) const;

 private:
  friend class ExpressionParser;
  enum class Code {
    kNumber,
    kMetric,
    kNegative,
    kNot,
    kAbs,
    kSqrt,
    kExp,
    kLn,
    kSin,
    kCos,
    kTan,
    kCot,
    kAsin,
    kAcos,
    kAtan,
    kAcot,
    kCeil,
    kFloor,
    kPos,
    kNeg,
    kSgn,
    // Of two values:
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kPower,
    kMin,
    kMax,
    kGreater,
    kLess,
    kGreaterEqual,
    kLessEqual,
    kEqual,
    kNotEqual,
    kAnd,
    kOr,
    kXor
  };
  enum class Argument { kOwn, kInclusive, kExclusive };
  struct Step {
    Code code;
    double number = 0;
    size_t metric = 0;
    Argument argument = Argument::kOwn;
  };
  static double apply(Code code, double x);
  static double apply(Code code, double x, double y);

  std::vector<Step> steps_;  // in the order of evaluation: a stack's
  std::vector<std::string> metrics_;
  size_t stack_ = 0;  // most values on it
};

}  // namespace cube
