#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "key.hpp"

namespace hill {

/// Multiplies blocks of bytes by one matrix modulo 256, with the vector instructions of the
/// processor it runs on. Immutable; any number of threads may share one.
class Multiplier {
 public:
  /// `instructions` must be one of `available()`; by default the best.
  explicit Multiplier(const Matrix& matrix, std::string_view instructions = available().front());

  /// The instruction sets that this processor can use, such as "avx512", the best first.
  static std::span<const std::string_view> available();

  [[nodiscard]] size_t size() const noexcept { return size_; }

  /// Replaces every block of size() bytes, as a column vector, by its product with the matrix.
  /// `text` must be a multiple of size() long.
  void apply(std::span<std::byte> text) const;

 private:
  using Kernel = void (*)(const uint16_t* strips, size_t size, std::byte* text, size_t bytes);

  size_t size_;
  size_t step_;  // the bytes that are multiplied as one block: size_ or a multiple
  // The matrix cut into strips of 32 rows, each by columns: the kernel reads it front to back.
  std::vector<uint16_t> strips_;
  Kernel kernel_;
};

}  // namespace hill
