#include "values.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace cube {
namespace {

/// Larger matrices are not repeated: the pieces get shorter, the memory does not grow.
constexpr uint64_t kMaxRepeatedBytes = uint64_t{64} << 20;

template <typename T>
T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;  // the sum of which may wrap around
    return static_cast<T>(
        static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  } else {
    return a + b;
  }
}

template <typename T>
T difference_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    T difference = 0;
    if (!__builtin_sub_overflow(a, b, &difference)) return difference;
    return b > 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
  } else {
    return a - b;
  }
}

template <typename T>
void combine(Combine how, std::span<T> into, const T* from) {
  switch (how) {
    case Combine::kMin:
      for (size_t i = 0; i < into.size(); ++i) into[i] = std::min(into[i], from[i]);
      return;
    case Combine::kMax:
      for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
      return;
    default:
      for (size_t i = 0; i < into.size(); ++i) into[i] = sum_of(into[i], from[i]);
  }
}

/// The values of a path and of all below it, combined: own(path, into) gives those of one path.
/// `levels` is memory, a chunk for each level below the first.
template <typename T, typename Own>
void combine_subtree(const CallTree& calls, uint32_t root, Combine how,
                     std::vector<std::vector<T>>& levels, std::span<T> into, Own own) {
  const auto level_of = [&](size_t level) {
    if (level == 0) return into;
    if (levels.size() < level) levels.resize(level);
    std::vector<T>& values = levels[level - 1];
    if (values.size() < into.size()) values.resize(into.size());
    return std::span(values).first(into.size());
  };
  size_t open = 0;
  const auto close_to = [&](size_t level) {
    for (; open > level; --open) combine(how, level_of(open - 1), level_of(open).data());
  };
  own(root, into);
  for (uint32_t path = root + 1; path < calls.end(root); ++path) {
    const size_t level = calls.depth(path) - calls.depth(root);
    close_to(level - 1);
    own(path, level_of(level));
    open = level;
  }
  close_to(0);
}

template <typename T>
class MatrixSource : public Source<T> {
 public:
  MatrixSource(std::shared_ptr<const Matrix<T>> matrix, const CallTree& calls, MetricKind kind,
               const ValueType& type, bool is_unsigned)
      : matrix_(std::move(matrix)),
        calls_(calls),
        kind_(kind),
        type_(type),
        is_unsigned_(is_unsigned) {}

  void values(uint32_t path, Flavour flavour, uint64_t first, size_t count, T* into) override {
    const std::span<T> all(into, count * type_.lanes);
    const bool stored = kind_ == MetricKind::kSimple ||
                        (flavour == Flavour::kInclusive) == (kind_ == MetricKind::kInclusive);
    if (stored) {
      own(path, first, count, all);
    } else if (flavour == Flavour::kInclusive) {
      combine_subtree(calls_, path, type_.combine, levels_, all,
                      [&](uint32_t one, std::span<T> to) { own(one, first, count, to); });
    } else {
      own(path, first, count, all);
      calls_.for_children(path, [&](uint32_t child) { subtract(child, first, count, all); });
    }
  }

 private:
  void own(uint32_t path, uint64_t first, size_t count, std::span<T> into) const {
    if (!matrix_->has_row(path)) {
      std::fill(into.begin(), into.end(), T{});
      return;
    }
    matrix_->for_pieces(path, first, count, [&](size_t at, std::span<const T> values) {
      std::copy(values.begin(), values.end(), into.begin() + static_cast<std::ptrdiff_t>(at));
    });
  }
  void subtract(uint32_t path, uint64_t first, size_t count, std::span<T> from) const {
    if (!matrix_->has_row(path)) return;
    matrix_->for_pieces(path, first, count, [&](size_t at, std::span<const T> values) {
      for (size_t i = 0; i < values.size(); ++i) {
        T& value = from[at + i];
        value = difference_of(value, values[i]);
        // Doubles that stand for unsigned integers end where these would.
        if constexpr (std::is_floating_point_v<T>) {
          if (is_unsigned_ && value < 0) value = 0;
        }
      }
    });
  }

  std::shared_ptr<const Matrix<T>> matrix_;
  const CallTree& calls_;
  MetricKind kind_;
  ValueType type_;
  bool is_unsigned_;
  std::vector<std::vector<T>> levels_;
};

/// Computes a whole row of columns at a time, and keeps the last one.
template <typename T>
class AggregatedSource : public Source<T> {
 public:
  AggregatedSource(std::unique_ptr<Source<T>> source, const Columns& columns, const ValueType& type,
                   Repetition& repetition)
      : source_(std::move(source)), columns_(columns), type_(type), repetition_(repetition) {}

  void values(uint32_t path, Flavour flavour, uint64_t first, size_t count, T* into) override {
    if (kept_ != std::pair(path, flavour)) {
      compute(path, flavour);
      kept_ = {path, flavour};
    }
    std::copy_n(row_.begin() + static_cast<std::ptrdiff_t>(first * type_.lanes),
                count * type_.lanes, into);
  }

 private:
  void compute(uint32_t path, Flavour flavour) {
    const size_t lanes = type_.lanes;
    row_.assign(static_cast<size_t>(columns_.count()) * lanes, T{});
    filled_.assign(static_cast<size_t>(columns_.count()), false);
    const uint64_t step = std::max<uint64_t>(1, kChunkScalars / lanes);
    chunk_.resize(static_cast<size_t>(step) * lanes);
    for (uint64_t first = 0; first < columns_.locations(); first += step) {
      const auto count = static_cast<size_t>(std::min(step, columns_.locations() - first));
      repetition_.run([&] { source_->values(path, flavour, first, count, chunk_.data()); });
      for (size_t i = 0; i < count; ++i) add(columns_.column_of(first + i), &chunk_[i * lanes]);
    }
  }
  /// The first value of a column is taken as it is: a minimum does not begin with 0.
  void add(uint64_t column, const T* value) {
    const std::span<T> into(&row_[static_cast<size_t>(column) * type_.lanes], type_.lanes);
    if (filled_[static_cast<size_t>(column)]) {
      combine(type_.combine, into, value);
    } else {
      std::copy_n(value, type_.lanes, into.begin());
      filled_[static_cast<size_t>(column)] = true;
    }
  }

  std::unique_ptr<Source<T>> source_;
  const Columns& columns_;
  ValueType type_;
  Repetition& repetition_;
  std::optional<std::pair<uint32_t, Flavour>> kept_;
  std::vector<T> row_;
  std::vector<bool> filled_;
  std::vector<T> chunk_;
};

class DerivedSource : public Source<double> {
 public:
  DerivedSource(const Expression& expression, MetricKind kind, const CallTree& calls,
                std::vector<std::unique_ptr<Source<double>>> operands)
      : expression_(expression), kind_(kind), calls_(calls), operands_(std::move(operands)) {}

  void values(uint32_t path, Flavour flavour, uint64_t first, size_t count, double* into) override {
    const std::span<double> all(into, count);
    if (kind_ == MetricKind::kPostderived) {
      evaluate(path, flavour, first, all);
    } else if (kind_ == MetricKind::kPrederivedExclusive) {
      const auto own = [&](uint32_t one, std::span<double> to) {
        evaluate(one, Flavour::kExclusive, first, to);
      };
      if (flavour == Flavour::kExclusive) {
        own(path, all);
      } else {
        combine_subtree(calls_, path, Combine::kSum, levels_, all, own);
      }
    } else {
      evaluate(path, Flavour::kInclusive, first, all);
      if (flavour == Flavour::kInclusive) return;
      child_.resize(std::max(child_.size(), count));
      calls_.for_children(path, [&](uint32_t child) {
        evaluate(child, Flavour::kInclusive, first, std::span(child_).first(count));
        for (size_t i = 0; i < count; ++i) all[i] -= child_[i];
      });
    }
  }

 private:
  void evaluate(uint32_t path, Flavour flavour, uint64_t first, std::span<double> into) {
    expression_.evaluate(
        flavour,
        [&](size_t number, Flavour wanted, std::span<double> values) {
          if (operands_[number] == nullptr) {
            std::fill(values.begin(), values.end(), 0);
          } else {
            operands_[number]->values(path, wanted, first, values.size(), values.data());
          }
        },
        scratch_, into);
  }

  const Expression& expression_;
  MetricKind kind_;
  const CallTree& calls_;
  std::vector<std::unique_ptr<Source<double>>> operands_;
  Expression::Scratch scratch_;
  std::vector<std::vector<double>> levels_;
  std::vector<double> child_;
};

/// Converts a stored row, in this machine's byte order, to scalars of type T.
template <typename T>
void convert_row(std::span<const std::byte> raw, Scalar scalar, std::span<T> into) {
  with_scalar(scalar, [&](auto stored) {
    using Stored = decltype(stored);
    for (size_t i = 0; i < into.size(); ++i) {
      std::memcpy(&stored, raw.data() + i * sizeof(Stored), sizeof stored);
      into[i] = static_cast<T>(stored);  // NOLINT(bugprone-signed-char-misuse): int8 is a number
    }
  });
}

}  // namespace

template <typename T>
uint64_t Matrix<T>::period_of(size_t rows, uint64_t locations, uint32_t lanes, bool repeated) {
  const uint64_t wanted = kChunkScalars / lanes;
  if (!repeated || locations >= wanted) return locations;
  const uint64_t period = (wanted + locations - 1) / locations * locations;
  return rows * period * lanes * sizeof(T) > kMaxRepeatedBytes ? locations : period;
}

template <typename T>
uint64_t Matrix<T>::bytes_of(const MetricRows& rows, const ValueType& type, uint64_t locations,
                             bool repeated) {
  const size_t count = rows.paths().size();
  return count * period_of(count, locations, type.lanes, repeated) * type.lanes * sizeof(T);
}

template <typename T>
Matrix<T> Matrix<T>::load(const MetricRows& rows, const ValueType& type, const CallTree& calls,
                          uint64_t locations, bool repeated) {
  Matrix matrix;
  matrix.lanes_ = type.lanes;
  matrix.period_ = period_of(rows.paths().size(), locations, type.lanes, repeated);
  matrix.row_of_path_.assign(calls.size(), kNoRow);
  const auto in_row = static_cast<size_t>(locations) * type.lanes;
  const auto in_period = static_cast<size_t>(matrix.period_) * type.lanes;
  matrix.scalars_.resize(rows.paths().size() * in_period);
  std::vector<std::byte> raw(rows.row_bytes());
  std::vector<std::byte> buffer;
  for (size_t row = 0; row < rows.paths().size(); ++row) {
    rows.read_row(row, raw, buffer);
    if (rows.is_swapped()) swap_elements(raw, scalar_bytes(type.scalar));
    const std::span<T> all(&matrix.scalars_[row * in_period], in_period);
    convert_row(raw, type.scalar, all.first(in_row));
    for (size_t at = in_row; at < in_period; at += in_row) {
      std::copy_n(all.begin(), in_row, all.begin() + static_cast<std::ptrdiff_t>(at));
    }
    matrix.row_of_path_[rows.paths()[row]] = static_cast<uint32_t>(row);
  }
  return matrix;
}

template <typename T>
std::unique_ptr<Source<T>> make_matrix_source(std::shared_ptr<const Matrix<T>> matrix,
                                              const CallTree& calls, MetricKind kind,
                                              const ValueType& type, bool is_unsigned) {
  return std::make_unique<MatrixSource<T>>(std::move(matrix), calls, kind, type, is_unsigned);
}

template <typename T>
std::unique_ptr<Source<T>> make_aggregated_source(std::unique_ptr<Source<T>> source,
                                                  const Columns& columns, const ValueType& type,
                                                  Repetition& repetition) {
  return std::make_unique<AggregatedSource<T>>(std::move(source), columns, type, repetition);
}

std::unique_ptr<Source<double>> make_derived_source(
    const Expression& expression, MetricKind kind, const CallTree& calls,
    std::vector<std::unique_ptr<Source<double>>> operands) {
  return std::make_unique<DerivedSource>(expression, kind, calls, std::move(operands));
}

// NOLINTBEGIN(bugprone-macro-parentheses): the argument is a type
#define CUBE_INSTANTIATE(T)                                                                   \
  template class Matrix<T>;                                                                   \
  template std::unique_ptr<Source<T>> make_matrix_source(                                     \
      std::shared_ptr<const Matrix<T>>, const CallTree&, MetricKind, const ValueType&, bool); \
  template std::unique_ptr<Source<T>> make_aggregated_source(                                 \
      std::unique_ptr<Source<T>>, const Columns&, const ValueType&, Repetition&);
CUBE_INSTANTIATE(int8_t)
CUBE_INSTANTIATE(uint8_t)
CUBE_INSTANTIATE(int16_t)
CUBE_INSTANTIATE(uint16_t)
CUBE_INSTANTIATE(int32_t)
CUBE_INSTANTIATE(uint32_t)
CUBE_INSTANTIATE(int64_t)
CUBE_INSTANTIATE(uint64_t)
CUBE_INSTANTIATE(double)
#undef CUBE_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace cube
