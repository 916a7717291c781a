// The types of values that Cube profiles store, by the words of <dtype>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cube {

enum class Scalar {
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kDouble,
  kOpaque
};

/// How values of call paths or locations become one.
enum class Combine {
  kSum,
  kMin,
  kMax,
  kNone  // only copied
};

inline constexpr uint32_t kMaxLanes = 4096;

struct ValueType {
  Scalar scalar = Scalar::kDouble;
  Combine combine = Combine::kSum;
  uint32_t lanes = 1;  // scalars of a value, each combined for itself: 2 for COMPLEX
  uint32_t bytes = 8;  // of a value; 0: the data's size tells (SCALE_FUNC)

  /// True if an inclusive value is what the children and the call path itself add up to, so that
  /// inclusive and exclusive values follow from each other.
  [[nodiscard]] bool is_additive() const { return combine == Combine::kSum; }
  /// True if it is one number, which an expression may use.
  [[nodiscard]] bool is_number() const { return lanes == 1 && combine != Combine::kNone; }
};

/// "UINT64", "HISTOGRAM(5)"; nothing for words that Cube does not know.
std::optional<ValueType> parse_value_type(std::string_view words);

size_t scalar_bytes(Scalar scalar);

/// Calls `act` with a value of the C++ type, and not at all for kOpaque.
template <typename Act>
void with_scalar(Scalar scalar, Act act) {
  switch (scalar) {
    case Scalar::kInt8:
      return act(int8_t{});
    case Scalar::kUint8:
      return act(uint8_t{});
    case Scalar::kInt16:
      return act(int16_t{});
    case Scalar::kUint16:
      return act(uint16_t{});
    case Scalar::kInt32:
      return act(int32_t{});
    case Scalar::kUint32:
      return act(uint32_t{});
    case Scalar::kInt64:
      return act(int64_t{});
    case Scalar::kUint64:
      return act(uint64_t{});
    case Scalar::kDouble:
      return act(double{});
    case Scalar::kOpaque:
      return;
  }
}

}  // namespace cube
