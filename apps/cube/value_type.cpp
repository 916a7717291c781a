#include "value_type.hpp"

#include <charconv>
#include <string>

namespace cube {
namespace {

struct Word {
  std::string_view word;
  Scalar scalar;
  Combine combine = Combine::kSum;
  uint32_t lanes = 1;
  uint32_t bytes = 0;  // 0: those of the scalars
};

// CubeLib's names, the older ones of C types included. FLOAT is stored as a double there.
constexpr Word kWords[] = {
    {"DOUBLE", Scalar::kDouble},
    {"FLOAT", Scalar::kDouble},
    {"UINT64", Scalar::kUint64},
    {"INT64", Scalar::kInt64},
    {"UINT32", Scalar::kUint32},
    {"INT32", Scalar::kInt32},
    {"UINT16", Scalar::kUint16},
    {"INT16", Scalar::kInt16},
    {"UINT8", Scalar::kUint8},
    {"INT8", Scalar::kInt8},
    {"CHAR", Scalar::kUint8},
    {"INTEGER", Scalar::kInt64},
    {"SIGNED INTEGER", Scalar::kInt64},
    {"UNSIGNED INTEGER", Scalar::kUint64},
    {"INT", Scalar::kInt32},
    {"SIGNED INT", Scalar::kInt32},
    {"UNSIGNED INT", Scalar::kUint32},
    {"SHORT INT", Scalar::kInt16},
    {"SIGNED SHORT INT", Scalar::kInt16},
    {"UNSIGNED SHORT INT", Scalar::kUint16},
    {"MINDOUBLE", Scalar::kDouble, Combine::kMin},
    {"MAXDOUBLE", Scalar::kDouble, Combine::kMax},
    {"COMPLEX", Scalar::kDouble, Combine::kSum, 2},
    {"RATE", Scalar::kDouble, Combine::kSum, 2},  // numerator and denominator
    // A count of 32 bits, then minimum, maximum, sum and sum of squares.
    {"TAU_ATOMIC", Scalar::kOpaque, Combine::kNone, 1, 36},
    {"SCALE_FUNC", Scalar::kOpaque, Combine::kNone, 1, 0},
};

/// The number in "NAME(number)", at most kMaxLanes.
std::optional<uint32_t> parse_argument(std::string_view words, std::string_view name) {
  if (!words.starts_with(name)) return std::nullopt;
  words.remove_prefix(name.size());
  if (words.size() < 3 || words.front() != '(' || words.back() != ')') return std::nullopt;
  words = words.substr(1, words.size() - 2);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(words.begin(), words.end(), number);
  if (error != std::errc() || end != words.end() || number == 0 || number > kMaxLanes) {
    return std::nullopt;
  }
  return number;
}

std::string without_blanks(std::string_view words) {
  std::string kept;
  for (const char c : words) {
    if (c != ' ') kept += c;
  }
  return kept;
}

}  // namespace

size_t scalar_bytes(Scalar scalar) {
  size_t bytes = 1;
  with_scalar(scalar, [&bytes](auto value) { bytes = sizeof value; });
  return bytes;
}

std::optional<ValueType> parse_value_type(std::string_view words) {
  for (const Word& word : kWords) {
    if (word.word != words) continue;
    ValueType type{word.scalar, word.combine, word.lanes, word.bytes};
    if (word.combine != Combine::kNone) {
      type.bytes = static_cast<uint32_t>(scalar_bytes(word.scalar)) * word.lanes;
    }
    return type;
  }
  const std::string compact = without_blanks(words);
  if (const auto values = parse_argument(compact, "NDOUBLES")) {
    return ValueType{Scalar::kDouble, Combine::kSum, *values, *values * 8};
  }
  if (const auto bins = parse_argument(compact, "HISTOGRAM")) {
    return ValueType{Scalar::kOpaque, Combine::kNone, 1, (*bins + 2) * 8};  // and the two ends
  }
  return std::nullopt;
}

}  // namespace cube
