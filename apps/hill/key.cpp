// Arithmetic modulo 256 knows no division by even numbers, but elimination needs none: modulo 2 it
// is elimination over a field, so that an invertible matrix always has an odd pivot to offer, and
// odd numbers have inverses modulo 256.
#include "key.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>

namespace hill {
namespace {

uint8_t low_byte(unsigned value) {
  return static_cast<uint8_t>(value & 0xff);
}

/// Newton's iteration doubles the correct bits: an odd x is its own inverse modulo 8, then
/// modulo 64, then modulo 4096.
uint8_t inverse_of_odd(uint8_t odd) {
  unsigned inverse = odd;
  for (int i = 0; i < 2; ++i) inverse *= 2 - odd * inverse;
  return low_byte(inverse);
}

void scale(std::span<uint8_t> row, uint8_t factor) {
  for (uint8_t& element : row) element = low_byte(unsigned{element} * factor);
}

void subtract(std::span<uint8_t> row, std::span<const uint8_t> other, uint8_t factor) {
  for (size_t i = 0; i < row.size(); ++i) row[i] = low_byte(row[i] - unsigned{factor} * other[i]);
}

/// The first row from `column` down whose element there is odd.
size_t pivot_row(const Matrix& matrix, size_t column) {
  for (size_t row = column; row < matrix.size(); ++row) {
    if (matrix.at(row, column) & 1) return row;
  }
  throw KeyError("the key has no inverse modulo 256 (its determinant is even)");
}

uint8_t parse_element(const std::string& word, const std::string& path) {
  const bool digits =
      word.size() <= 3 && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
  const int value = digits ? std::stoi(word) : -1;
  if (value < 0 || value > 255) {
    throw KeyError("'" + word + "' in key file '" + path + "' is no number from 0 to 255");
  }
  return static_cast<uint8_t>(value);
}

}  // namespace

Matrix::Matrix(size_t size, std::vector<uint8_t> elements)
    : size_(size), elements_(std::move(elements)) {
  if (elements_.size() != size * size) throw KeyError("a key must be a square matrix");
}

Matrix Matrix::identity(size_t size) {
  Matrix result(size);
  for (size_t i = 0; i < size; ++i) result.row(i)[i] = 1;
  return result;
}

void Matrix::swap_rows(size_t a, size_t b) {
  if (a != b) std::ranges::swap_ranges(row(a), row(b));
}

Matrix Matrix::corner(size_t size) const {
  Matrix result(size);
  for (size_t i = 0; i < size; ++i) std::ranges::copy(row(i).first(size), result.row(i).begin());
  return result;
}

Matrix operator*(const Matrix& left, const Matrix& right) {
  Matrix result(left.size());
  for (size_t i = 0; i < left.size(); ++i) {
    for (size_t j = 0; j < left.size(); ++j) {
      subtract(result.row(i), right.row(j), low_byte(0u - left.at(i, j)));
    }
  }
  return result;
}

// Gauss-Jordan: what turns the matrix into the identity turns the identity into the inverse.
Matrix inverse(const Matrix& matrix) {
  Matrix left = matrix;
  Matrix right = Matrix::identity(matrix.size());
  for (size_t column = 0; column < left.size(); ++column) {
    const size_t pivot = pivot_row(left, column);
    left.swap_rows(column, pivot);
    right.swap_rows(column, pivot);
    const uint8_t factor = inverse_of_odd(left.at(column, column));
    scale(left.row(column), factor);
    scale(right.row(column), factor);
    for (size_t row = 0; row < left.size(); ++row) {
      const uint8_t multiple = left.at(row, column);
      if (row == column || multiple == 0) continue;
      subtract(left.row(row), left.row(column), multiple);
      subtract(right.row(row), right.row(column), multiple);
    }
  }
  return right;
}

// With the rows in the order in which elimination picks them, the matrix is a product L * U of
// triangles without further exchange, and the determinant of each corner is a product of pivots,
// all of them odd.
Matrix with_invertible_corners(Matrix matrix) {
  Matrix reduced = matrix;
  for (size_t column = 0; column < reduced.size(); ++column) {
    const size_t pivot = pivot_row(reduced, column);
    matrix.swap_rows(column, pivot);
    reduced.swap_rows(column, pivot);
    const uint8_t factor = inverse_of_odd(reduced.at(column, column));
    for (size_t row = column + 1; row < reduced.size(); ++row) {
      const uint8_t multiple = low_byte(unsigned{reduced.at(row, column)} * factor);
      if (multiple) subtract(reduced.row(row), reduced.row(column), multiple);
    }
  }
  return matrix;
}

// L * U with odd diagonals is invertible, and is any matrix whose corners are.
Matrix key_from_seed(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);  // its sequence is fixed by the standard, unlike distributions
  Matrix lower(size);
  Matrix upper(size);
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j < size; ++j) {
      const uint8_t element = static_cast<uint8_t>(random() >> 56);
      (j < i ? lower : upper).row(i)[j] = element;
    }
    lower.row(i)[i] = 1;
    upper.row(i)[i] |= 1;
  }
  return lower * upper;
}

Matrix key_from_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw KeyError("cannot open the key file '" + path + "'");
  std::vector<uint8_t> elements;
  for (std::string line; std::getline(file, line);) {
    std::istringstream numbers(line.substr(0, line.find('#')));
    for (std::string word; numbers >> word;) {
      elements.push_back(parse_element(word, path));
    }
  }
  const auto size = static_cast<size_t>(std::lround(std::sqrt(elements.size())));
  if (size == 0 || size * size != elements.size() || size > kMaxKeySize) {
    throw KeyError("key file '" + path + "' holds " + std::to_string(elements.size()) +
                   " numbers, which is no square of 1 to " + std::to_string(kMaxKeySize));
  }
  return {size, std::move(elements)};
}

}  // namespace hill
