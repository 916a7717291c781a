// The values of a metric at call paths, inclusive or exclusive, for a range of locations or
// columns.
//
// A Matrix holds what is stored of a metric. A Source gives values of one metric: MatrixSource from
// a matrix, DerivedSource by an expression over other sources, AggregatedSource columns of
// processes or nodes from those of locations. Sums are made in the order of the tree: a path's own
// value, then the inclusive one of each child. So results are the same to the last bit however the
// work is divided.
//
// Integers: sums wrap around, as in pyCubexR. Differences stop at the end of the type's range: a
// counter whose children have more than itself has an exclusive value of 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "anchor.hpp"
#include "expression.hpp"
#include "metric_rows.hpp"

namespace cube {

/// Scalars that are computed at a time: they stay in the first cache.
inline constexpr size_t kChunkScalars = 1024;

/// The stored values of a metric as scalars of type T. Rows of few locations are repeated, so that
/// a range of repeated locations lies in one piece most of the time. Immutable after load().
template <typename T>
class Matrix {
 public:
  /// `repeated`: whether locations beyond those of the input will be asked for.
  static Matrix load(const MetricRows& rows, const ValueType& type, const CallTree& calls,
                     uint64_t locations, bool repeated);
  /// The bytes that load() takes.
  static uint64_t bytes_of(const MetricRows& rows, const ValueType& type, uint64_t locations,
                           bool repeated);

  [[nodiscard]] bool has_row(uint32_t path) const { return row_of_path_[path] != kNoRow; }
  /// Calls act(offset, values) for pieces that make up `count` locations from `first` on.
  template <typename Act>
  void for_pieces(uint32_t path, uint64_t first, size_t count, Act act) const;

 private:
  static constexpr uint32_t kNoRow = UINT32_MAX;
  static uint64_t period_of(size_t rows, uint64_t locations, uint32_t lanes, bool repeated);

  std::vector<T> scalars_;
  std::vector<uint32_t> row_of_path_;
  uint64_t period_ = 0;  // locations in a row, a multiple of the input's
  uint32_t lanes_ = 1;
};

/// Values of one metric, of one thread.
template <typename T>
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;
  /// Fills `into` with the scalars of `count` locations, or columns, from `first` on.
  virtual void values(uint32_t path, Flavour flavour, uint64_t first, size_t count, T* into) = 0;
};

/// Repeats the computation of each chunk: to set how long computing takes (--work).
class Repetition {
 public:
  /// `factor` >= 1; a fraction means that some chunks are repeated once more.
  explicit Repetition(double factor) : factor_(factor) {}

  template <typename Act>
  void run(Act act) {
    due_ += factor_;
    do {
      act();
      asm volatile("" ::: "memory");  // nothing that was computed may be left out
      due_ -= 1;
    } while (due_ >= 1);
  }

 private:
  double factor_;
  double due_ = 0;
};

template <typename T>
std::unique_ptr<Source<T>> make_matrix_source(std::shared_ptr<const Matrix<T>> matrix,
                                              const CallTree& calls, MetricKind kind,
                                              const ValueType& type, bool is_unsigned);

/// Columns of processes or nodes. `source` gives those of locations.
template <typename T>
std::unique_ptr<Source<T>> make_aggregated_source(std::unique_ptr<Source<T>> source,
                                                  const Columns& columns, const ValueType& type,
                                                  Repetition& repetition);

/// `operands` are those of expression.metrics(); an empty one gives zeros.
std::unique_ptr<Source<double>> make_derived_source(
    const Expression& expression, MetricKind kind, const CallTree& calls,
    std::vector<std::unique_ptr<Source<double>>> operands);

template <typename T>
template <typename Act>
void Matrix<T>::for_pieces(uint32_t path, uint64_t first, size_t count, Act act) const {
  const T* row = scalars_.data() + row_of_path_[path] * period_ * lanes_;
  uint64_t at = first % period_;
  for (size_t done = 0; done < count;) {
    const size_t piece = static_cast<size_t>(std::min<uint64_t>(count - done, period_ - at));
    act(done * lanes_, std::span<const T>(row + at * lanes_, piece * lanes_));
    done += piece;
    at = 0;
  }
}

}  // namespace cube
