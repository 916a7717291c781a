#include "expression.hpp"

#include <algorithm>
#include <array>
#include <cfloat>
#include <charconv>
#include <cmath>
#include <numbers>
#include <utility>

#include "error.hpp"

namespace cube {
namespace {

constexpr size_t kMaxText = size_t{1} << 16;
constexpr size_t kMaxSteps = 4096;
constexpr size_t kMaxNesting = 100;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace

/// Recursive descent; the lower a function stands, the stronger its operators bind.
class ExpressionParser {
 public:
  using Code = Expression::Code;

  ExpressionParser(Expression& expression, std::string_view text)
      : expression_(expression), text_(text) {}

  void parse() {
    if (text_.size() > kMaxText) fail("it is longer than " + std::to_string(kMaxText) + " bytes");
    const bool braces = take("{");
    if (braces && !take_word("return"))
      fail("only '{ return EXPRESSION; }' is known of statements");
    parse_either();
    if (braces) {
      take(";");
      expect("}");
    }
    take(";");
    skip_blanks();
    if (at_ < text_.size()) fail_here();
  }

 private:
  struct Operator {
    std::string_view sign;
    Code code;
  };

  /// Counts how deep functions call each other.
  class Level {
   public:
    explicit Level(ExpressionParser& parser) : parser_(parser) {
      if (++parser.nesting_ > kMaxNesting) parser.fail("it is nested too deeply");
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --parser_.nesting_; }

   private:
    ExpressionParser& parser_;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw CubeError("expression, character " + std::to_string(at_) + ": " + what);
  }
  [[noreturn]] void fail_here() {
    if (at_ == text_.size()) fail("it ends too early");
    fail("'" + std::string(text_.substr(at_, 16)) + "' is not understood");
  }

  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  bool take(std::string_view sign) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  bool take_word(std::string_view word) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(word)) return false;
    const size_t end = at_ + word.size();
    if (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) return false;
    at_ = end;
    return true;
  }
  void expect(std::string_view sign) {
    if (!take(sign)) fail("'" + std::string(sign) + "' is missing");
  }

  void add(Expression::Step step) {
    auto& steps = expression_.steps_;
    if (steps.size() == kMaxSteps) fail("it has more than " + std::to_string(kMaxSteps) + " steps");
    steps.push_back(step);
    if (step.code <= Code::kMetric) {
      expression_.stack_ = std::max(expression_.stack_, ++height_);
    } else if (step.code >= Code::kAdd) {
      --height_;
    }
  }

  template <size_t n>
  bool take_operator(const std::array<Operator, n>& operators, Code& code) {
    for (const Operator& one : operators) {
      if (is_letter(one.sign.front()) ? take_word(one.sign) : take(one.sign)) {
        code = one.code;
        return true;
      }
    }
    return false;
  }

  /// PART { OPERATOR PART }, from left to right.
  template <size_t n>
  void parse_chain(const std::array<Operator, n>& operators, void (ExpressionParser::*part)()) {
    (this->*part)();
    for (Code code{}; take_operator(operators, code);) {
      (this->*part)();
      add({code});
    }
  }

  void parse_either() {
    const Level level(*this);
    parse_chain(std::array{Operator{"or", Code::kOr}, Operator{"xor", Code::kXor}},
                &ExpressionParser::parse_both);
  }
  void parse_both() {
    parse_chain(std::array{Operator{"and", Code::kAnd}}, &ExpressionParser::parse_negation);
  }
  void parse_negation() {
    const Level level(*this);
    if (take_word("not")) {
      parse_negation();
      add({Code::kNot});
    } else {
      parse_comparison();
    }
  }
  void parse_comparison() {
    parse_chain(std::array{Operator{">=", Code::kGreaterEqual}, Operator{"<=", Code::kLessEqual},
                           Operator{"==", Code::kEqual}, Operator{"!=", Code::kNotEqual},
                           Operator{">", Code::kGreater}, Operator{"<", Code::kLess}},
                &ExpressionParser::parse_sum);
  }
  void parse_sum() {
    parse_chain(std::array{Operator{"+", Code::kAdd}, Operator{"-", Code::kSubtract}},
                &ExpressionParser::parse_product);
  }
  void parse_product() {
    parse_chain(std::array{Operator{"*", Code::kMultiply}, Operator{"/", Code::kDivide}},
                &ExpressionParser::parse_sign);
  }
  void parse_sign() {
    const Level level(*this);
    if (take("-")) {
      parse_sign();
      add({Code::kNegative});
    } else {
      static_cast<void>(take("+"));
      parse_power();
    }
  }
  void parse_power() {
    parse_value();
    if (take("^")) {
      parse_sign();
      add({Code::kPower});
    }
  }

  void parse_value() {
    skip_blanks();
    if (at_ == text_.size()) fail_here();
    if (is_digit(text_[at_]) || text_[at_] == '.') return parse_number();
    if (take("(")) {
      parse_either();
      return expect(")");
    }
    if (take("|")) {
      parse_either();
      expect("|");
      return add({Code::kAbs});
    }
    if (take("metric::")) return parse_metric();
    if (is_letter(text_[at_])) return parse_call();
    if (text_[at_] == '$') fail("variables are not supported");
    if (text_[at_] == '"') fail("strings are not supported");
    fail_here();
  }

  void parse_number() {
    double number = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
    if (error != std::errc()) fail_here();
    at_ += static_cast<size_t>(end - begin);
    add({Code::kNumber, number});
  }

  /// Behind "metric::". Names have colons, dots and signs in them: all up to the parenthesis.
  void parse_metric() {
    const size_t end = text_.find('(', at_);
    if (end == std::string_view::npos) fail("'(' is missing behind metric::");
    std::string_view name = text_.substr(at_, end - at_);
    while (!name.empty() && is_blank(name.back())) name.remove_suffix(1);
    for (const std::string_view other : {"context::", "fixed::", "call::"}) {
      if (name.starts_with(other)) fail("metric::" + std::string(other) + " is not supported");
    }
    if (name.empty()) fail("a name is missing behind metric::");
    Expression::Step step{Code::kMetric};
    auto& names = expression_.metrics_;
    const auto known = std::find(names.begin(), names.end(), name);
    step.metric = static_cast<size_t>(known - names.begin());
    if (known == names.end()) names.emplace_back(name);
    at_ = end + 1;
    step.argument = parse_argument();
    // The second one is of the system tree, in which a location is all there is.
    if (take(",")) static_cast<void>(parse_argument());
    expect(")");
    add(step);
  }
  Expression::Argument parse_argument() {
    if (take_word("i")) return Expression::Argument::kInclusive;
    if (take_word("e")) return Expression::Argument::kExclusive;
    static_cast<void>(take("*"));
    return Expression::Argument::kOwn;
  }

  void parse_call() {
    static constexpr std::array<Operator, 19> kFunctions{{
        {"min", Code::kMin},     {"max", Code::kMax},   {"abs", Code::kAbs},
        {"sqrt", Code::kSqrt},   {"exp", Code::kExp},   {"ln", Code::kLn},
        {"sin", Code::kSin},     {"cos", Code::kCos},   {"tan", Code::kTan},
        {"cot", Code::kCot},     {"asin", Code::kAsin}, {"acos", Code::kAcos},
        {"atan", Code::kAtan},   {"acot", Code::kAcot}, {"ceil", Code::kCeil},
        {"floor", Code::kFloor}, {"pos", Code::kPos},   {"neg", Code::kNeg},
        {"sgn", Code::kSgn},
    }};
    size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    const std::string name(text_.substr(at_, end - at_));
    Code code{};
    if (!take_operator(kFunctions, code)) fail("'" + name + "' is not supported");
    expect("(");
    parse_either();
    if (code >= Code::kAdd) {
      expect(",");
      parse_either();
    }
    expect(")");
    add({code});
  }

  Expression& expression_;
  std::string_view text_;
  size_t at_ = 0;
  size_t nesting_ = 0;
  size_t height_ = 0;
};

Expression::Expression(std::string_view text) {
  ExpressionParser(*this, text).parse();
}

double Expression::apply(Code code, double x) {
  switch (code) {
    case Code::kNegative:
      return -x;
    case Code::kNot:
      return x == 0 ? 1 : 0;
    case Code::kAbs:
      return std::abs(x);
    case Code::kSqrt:
      return std::sqrt(x);
    case Code::kExp:
      return std::exp(x);
    case Code::kLn:
      return std::log(x);
    case Code::kSin:
      return std::sin(x);
    case Code::kCos:
      return std::cos(x);
    case Code::kTan:
      return std::tan(x);
    case Code::kCot:
      return 1 / std::tan(x);
    case Code::kAsin:
      return std::asin(x);
    case Code::kAcos:
      return std::acos(x);
    case Code::kAtan:
      return std::atan(x);
    case Code::kAcot:
      return std::numbers::pi / 2 - std::atan(x);
    case Code::kCeil:
      return std::ceil(x);
    case Code::kFloor:
      return std::floor(x);
    case Code::kPos:
      return x > 0 ? x : 0;
    case Code::kNeg:
      return x < 0 ? x : 0;
    default:  // kSgn
      return x > 0 ? 1 : x < 0 ? -1 : 0;
  }
}

double Expression::apply(Code code, double x, double y) {
  switch (code) {
    case Code::kAdd:
      return x + y;
    case Code::kSubtract:
      return x - y;
    case Code::kMultiply:
      return x * y;
    case Code::kDivide:
      if (x == 0) return 0;
      if (y == 0) return x > 0 ? DBL_MAX : -DBL_MAX;
      return x / y;
    case Code::kPower:
      return std::pow(x, y);
    case Code::kMin:
      return std::min(x, y);
    case Code::kMax:
      return std::max(x, y);
    case Code::kGreater:
      return x > y ? 1 : 0;
    case Code::kLess:
      return x < y ? 1 : 0;
    case Code::kGreaterEqual:
      return x >= y ? 1 : 0;
    case Code::kLessEqual:
      return x <= y ? 1 : 0;
    case Code::kEqual:
      return x == y ? 1 : 0;
    case Code::kNotEqual:
      return x != y ? 1 : 0;
    case Code::kAnd:
      return x != 0 && y != 0 ? 1 : 0;
    case Code::kOr:
      return x != 0 || y != 0 ? 1 : 0;
    default:  // kXor
      return (x != 0) != (y != 0) ? 1 : 0;
  }
}

void Expression::evaluate(Flavour own, const Fetch& fetch, Scratch& scratch,
                          std::span<double> into) const {
  if (scratch.size() < stack_) scratch.resize(stack_);
  for (std::vector<double>& values : scratch) {
    if (values.size() < into.size()) values.resize(into.size());
  }
  const auto top = [&](size_t height) { return std::span(scratch[height - 1]).first(into.size()); };
  size_t height = 0;
  for (const Step& step : steps_) {
    if (step.code <= Code::kMetric) ++height;
    if (step.code >= Code::kAdd) --height;
    const std::span<double> values = top(height);
    if (step.code == Code::kNumber) {
      std::fill(values.begin(), values.end(), step.number);
    } else if (step.code == Code::kMetric) {
      fetch(step.metric,
            step.argument == Argument::kOwn         ? own
            : step.argument == Argument::kInclusive ? Flavour::kInclusive
                                                    : Flavour::kExclusive,
            values);
    } else if (step.code >= Code::kAdd) {
      const std::span<double> right = top(height + 1);
      for (size_t i = 0; i < values.size(); ++i) values[i] = apply(step.code, values[i], right[i]);
    } else {
      for (double& value : values) value = apply(step.code, value);
    }
  }
  const std::span<double> result = top(1);
  std::copy(result.begin(), result.end(), into.begin());
}

}  // namespace cube
