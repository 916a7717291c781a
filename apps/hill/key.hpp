#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace hill {

/// A key that is no key; the text says which and why.
struct KeyError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr size_t kMaxKeySize = 1024;

/// A square matrix over the integers modulo 256, row by row. A value.
class Matrix {
 public:
  explicit Matrix(size_t size) : size_(size), elements_(size * size) {}
  /// `elements` holds size * size numbers, row by row.
  Matrix(size_t size, std::vector<uint8_t> elements);

  static Matrix identity(size_t size);

  [[nodiscard]] size_t size() const noexcept { return size_; }
  [[nodiscard]] uint8_t at(size_t row, size_t column) const {
    return elements_[row * size_ + column];
  }
  [[nodiscard]] std::span<const uint8_t> row(size_t index) const {
    return {elements_.data() + index * size_, size_};
  }
  [[nodiscard]] std::span<uint8_t> row(size_t index) {
    return {elements_.data() + index * size_, size_};
  }
  void swap_rows(size_t a, size_t b);

  /// The first `size` elements of the first `size` rows.
  [[nodiscard]] Matrix corner(size_t size) const;

  bool operator==(const Matrix&) const = default;

 private:
  size_t size_;
  std::vector<uint8_t> elements_;
};

Matrix operator*(const Matrix& left, const Matrix& right);

/// The inverse; throws KeyError if there is none, that is if the determinant is even.
Matrix inverse(const Matrix& matrix);

/// `matrix` with its rows in an order in which every corner has an inverse too, whatever its
/// size: one always exists for an invertible matrix. Rows move only where they must, so that a
/// matrix whose corners have inverses stays as it is. Throws KeyError as `inverse` does.
Matrix with_invertible_corners(Matrix matrix);

/// An invertible matrix; the same for the same size and seed on every machine.
Matrix key_from_seed(size_t size, uint64_t seed);

/// A text of size * size numbers from 0 to 255 between white space, row by row, where '#' begins
/// a comment. Throws KeyError with the file's name for a file that is not of that form.
Matrix key_from_file(const std::string& path);

}  // namespace hill
