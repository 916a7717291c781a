// What is to be computed: one stored metric of the output after the other, row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "anchor.hpp"
#include "archive.hpp"
#include "metric_rows.hpp"
#include "values.hpp"

namespace cube {

/// Which values the output stores of metrics whose values add up.
enum class StoreAs {
  kInclusive,
  kExclusive,
  kStored  // as the input does; derived metrics as what their expression gives
};

struct PlanOptions {
  StoreAs as = StoreAs::kInclusive;
  Aggregate aggregate = Aggregate::kNone;
  uint64_t locations = 0;                    // to scale to; 0: those of the input
  std::vector<std::string> metrics{};        // unique names; empty: all
  uint64_t input_limit = uint64_t{1} << 30;  // most bytes of stored values held for one result
};

/// One result.
struct Job {
  size_t metric = 0;  // in anchor.metrics
  MetricKind kind = MetricKind::kInclusive;
  Flavour flavour = Flavour::kInclusive;
  std::vector<uint32_t> paths;   // of the rows
  std::vector<std::byte> index;  // the content of N.index
  size_t value_bytes = 0;
  uint64_t row_bytes = 0;
  [[nodiscard]] uint64_t bytes() const { return row_bytes * paths.size(); }
};

/// The stored values that a job needs. Immutable.
struct JobData {
  std::shared_ptr<const void> typed;  // Matrix<T> of the job's own type
  std::map<size_t, std::shared_ptr<const Matrix<double>>> doubles;  // by metric: of expressions
};

/// Computes the rows of a job, for one thread.
class JobRows {
 public:
  JobRows() = default;
  JobRows(const JobRows&) = delete;
  JobRows& operator=(const JobRows&) = delete;
  virtual ~JobRows() = default;
  /// Fills `into` with the bytes of a row from byte `from` of it on.
  virtual void fill(size_t row, uint64_t from, std::span<std::byte> into) = 0;
};

/// Thread-safe after construction.
class Plan {
 public:
  /// Keeps references to both. Throws CubeError: for what is not supported, it names the metric.
  Plan(const Archive& archive, const Anchor& anchor, const PlanOptions& options);

  [[nodiscard]] const std::vector<Job>& jobs() const { return jobs_; }
  [[nodiscard]] const Columns& columns() const { return *columns_; }
  [[nodiscard]] const std::vector<StoredMetric>& stored() const { return stored_; }
  [[nodiscard]] const Metric& metric_of(const Job& job) const {
    return anchor_.metrics[job.metric];
  }
  /// What an option did not do to some metric, and why.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  /// Reads the stored values of a job, or shares those that another thread has read.
  [[nodiscard]] std::shared_ptr<const JobData> load(size_t job) const;
  /// `data` is of the same job. All three must outlive what is returned.
  [[nodiscard]] std::unique_ptr<JobRows> open(size_t job, std::shared_ptr<const JobData> data,
                                              Repetition& repetition) const;
  /// Seconds spent in reading stored values.
  [[nodiscard]] double read_s() const;

 private:
  /// Of a metric that has any; else null.
  [[nodiscard]] const MetricRows* rows_of(size_t metric) const;
  [[nodiscard]] const Expression* expression_of(size_t metric) const;
  void read_expressions(const std::vector<bool>& wanted);
  [[nodiscard]] std::vector<bool> wanted_metrics(const std::vector<std::string>& names);
  uint64_t count_uses(size_t metric, std::vector<uint64_t>& uses, size_t depth) const;
  void locate_rows(std::vector<bool> wanted);
  void add_job(size_t metric, StoreAs as);
  void choose_kind(Job& job, StoreAs as);
  void choose_rows(Job& job) const;
  void collect_operands(size_t metric, std::vector<bool>& seen) const;
  [[nodiscard]] std::shared_ptr<const JobData> read(const Job& job) const;
  [[nodiscard]] std::unique_ptr<Source<double>> make_source(size_t metric, bool of_columns,
                                                            const JobData& data,
                                                            Repetition& repetition) const;
  [[noreturn]] void fail(const Metric& metric, const std::string& what) const;

  const Archive& archive_;
  const Anchor& anchor_;
  uint64_t input_limit_;
  std::unique_ptr<const Columns> columns_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::vector<std::optional<MetricRows>> rows_;         // by metric
  std::vector<std::optional<Expression>> expressions_;  // by metric
  std::vector<std::vector<size_t>> operands_;           // metrics of each expression
  std::vector<Job> jobs_;
  std::vector<StoredMetric> stored_;
  std::string kept_;  // names of metrics that --as does not change
  std::vector<std::string> notes_;
  uint64_t output_rows_ = 0;

  mutable std::mutex mutex_;
  // Of every job while a thread uses it, and of the last one in any case.
  mutable std::vector<std::weak_ptr<const JobData>> loaded_;
  mutable std::shared_ptr<const JobData> last_;
  mutable double read_s_ = 0;
};

}  // namespace cube
