#include "plan.hpp"

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>

#include "error.hpp"

namespace cube {
namespace {

/// Most metrics that one result may evaluate, each as often as it occurs.
constexpr uint64_t kMaxUses = 1000;
/// Most derived metrics that are derived from each other in a row.
constexpr size_t kMaxDerivations = 64;
constexpr uint64_t kUsesInProgress = UINT64_MAX;

bool is_unsigned(Scalar scalar) {
  return scalar == Scalar::kUint8 || scalar == Scalar::kUint16 || scalar == Scalar::kUint32 ||
         scalar == Scalar::kUint64;
}

/// Copies the part of `values` that lies in `into`, whose first byte is byte `from` of them.
void copy_part(std::span<const std::byte> values, size_t from, std::span<std::byte>& into) {
  const size_t bytes = std::min(values.size() - from, into.size());
  std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(from), bytes, into.begin());
  into = into.subspan(bytes);
}

template <typename T>
class TypedRows : public JobRows {
 public:
  TypedRows(const Job& job, std::unique_ptr<Source<T>> source, uint32_t lanes,
            bool is_repeated_here, Repetition& repetition)
      : job_(job),
        source_(std::move(source)),
        lanes_(lanes),
        is_repeated_here_(is_repeated_here),
        repetition_(repetition),
        chunk_(std::max<size_t>(kChunkScalars / lanes, 1) * lanes) {}

  void fill(size_t row, uint64_t from, std::span<std::byte> into) override {
    const size_t value_bytes = sizeof(T) * lanes_;
    uint64_t first = from / value_bytes;
    auto skip = static_cast<size_t>(from % value_bytes);
    while (!into.empty()) {
      const size_t wanted = (skip + into.size() + value_bytes - 1) / value_bytes;
      const size_t count = std::min(wanted, chunk_.size() / lanes_);
      const auto compute = [&] {
        source_->values(job_.paths[row], job_.flavour, first, count, chunk_.data());
      };
      if (is_repeated_here_) {
        repetition_.run(compute);
      } else {
        compute();
      }
      copy_part(std::as_bytes(std::span<const T>(chunk_.data(), count * lanes_)), skip, into);
      first += count;
      skip = 0;
    }
  }

 private:
  const Job& job_;
  std::unique_ptr<Source<T>> source_;
  uint32_t lanes_;
  bool is_repeated_here_;
  Repetition& repetition_;
  std::vector<T> chunk_;
};

/// Values that are only copied, in the byte order in which they are stored.
class CopiedRows : public JobRows {
 public:
  CopiedRows(const Job& job, const MetricRows& rows)
      : job_(job), rows_(rows), raw_(rows.row_bytes()) {
    for (size_t row = 0; row < rows.paths().size(); ++row) row_of_path_[rows.paths()[row]] = row;
  }

  void fill(size_t row, uint64_t from, std::span<std::byte> into) override {
    if (kept_ != row) {
      rows_.read_row(row_of_path_.at(job_.paths[row]), raw_, buffer_);
      kept_ = row;
    }
    auto at = static_cast<size_t>(from % raw_.size());
    while (!into.empty()) {
      copy_part(raw_, at, into);
      at = 0;
    }
  }

 private:
  const Job& job_;
  const MetricRows& rows_;
  std::map<uint32_t, size_t> row_of_path_;
  std::optional<size_t> kept_;
  std::vector<std::byte> raw_;
  std::vector<std::byte> buffer_;
};

}  // namespace

Plan::Plan(const Archive& archive, const Anchor& anchor, const PlanOptions& options)
    : archive_(archive), anchor_(anchor), input_limit_(options.input_limit) {
  const uint64_t base = anchor.system.locations.size();
  const uint64_t locations = options.locations == 0 ? base : options.locations;
  if (locations < base || locations > kMaxLocations) {
    throw CubeError("'" + archive.name() + "' has " + std::to_string(base) +
                    " threads: it can be scaled to as many or more, up to " +
                    std::to_string(kMaxLocations) + ", but not to " + std::to_string(locations));
  }
  columns_ = std::make_unique<const Columns>(anchor.system, locations, options.aggregate);
  for (size_t i = 0; i < anchor.metrics.size(); ++i) by_name_.emplace(anchor.metrics[i].name, i);
  const std::vector<bool> wanted = wanted_metrics(options.metrics);
  rows_.resize(anchor.metrics.size());
  expressions_.resize(anchor.metrics.size());
  operands_.resize(anchor.metrics.size());
  read_expressions(wanted);
  locate_rows(wanted);
  for (size_t i = 0; i < anchor.metrics.size(); ++i) {
    if (wanted[i]) add_job(i, options.as);
  }
  if (!kept_.empty()) {
    notes_.push_back("values that are no sums of parts are stored as they are: " + kept_);
  }
  loaded_.resize(jobs_.size());
}

void Plan::fail(const Metric& metric, const std::string& what) const {
  throw CubeError("'" + archive_.name() + "', metric '" + metric.name + "': " + what);
}

std::vector<bool> Plan::wanted_metrics(const std::vector<std::string>& names) {
  std::vector<bool> wanted(anchor_.metrics.size(), names.empty());
  for (const std::string& name : names) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) {
      throw CubeError("'" + archive_.name() + "' has no metric '" + name + "'");
    }
    wanted[found->second] = true;
  }
  return wanted;
}

const MetricRows* Plan::rows_of(size_t metric) const {
  const std::optional<MetricRows>& rows = rows_[metric];
  return rows.has_value() ? &*rows : nullptr;
}

const Expression* Plan::expression_of(size_t metric) const {
  const std::optional<Expression>& expression = expressions_[metric];
  return expression.has_value() ? &*expression : nullptr;
}

void Plan::read_expressions(const std::vector<bool>& wanted) {
  // Those that an expression uses come after it in this list.
  std::vector<size_t> waiting;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) waiting.push_back(i);
  }
  for (size_t next = 0; next < waiting.size(); ++next) {
    const size_t i = waiting[next];
    const Metric& metric = anchor_.metrics[i];
    if (!is_derived(metric.kind) || expressions_[i]) continue;
    if (metric.has_own_rules) fail(metric, "<cubeplinit> and <cubeplaggr> are not supported");
    try {
      expressions_[i].emplace(metric.expression);
    } catch (const CubeError& error) {
      fail(metric, error.what());
    }
    for (const std::string& name : expression_of(i)->metrics()) {
      const auto found = by_name_.find(name);
      if (found == by_name_.end()) fail(metric, "there is no metric '" + name + "'");
      const Metric& operand = anchor_.metrics[found->second];
      if (!is_derived(operand.kind) && !operand.type.is_number()) {
        fail(metric, "values of type " + operand.type_words + " ('" + name +
                         "') are no numbers for an expression");
      }
      operands_[i].push_back(found->second);
      waiting.push_back(found->second);
    }
  }
  std::vector<uint64_t> uses(wanted.size(), 0);
  for (const size_t i : waiting) count_uses(i, uses, 0);
}

/// How many metrics are evaluated for this one, itself included.
uint64_t Plan::count_uses(size_t metric, std::vector<uint64_t>& uses, size_t depth) const {
  if (uses[metric] == kUsesInProgress) fail(anchor_.metrics[metric], "is derived from itself");
  if (uses[metric] != 0) return uses[metric];
  if (depth > kMaxDerivations) {
    fail(anchor_.metrics[metric],
         "more than " + std::to_string(kMaxDerivations) + " metrics are derived one from another");
  }
  uses[metric] = kUsesInProgress;
  uint64_t sum = 1;
  for (const size_t operand : operands_[metric]) {
    sum += count_uses(operand, uses, depth + 1);
    if (sum > kMaxUses) {
      fail(anchor_.metrics[metric],
           "is derived from more than " + std::to_string(kMaxUses) + " metrics");
    }
  }
  uses[metric] = sum;
  return sum;
}

void Plan::locate_rows(std::vector<bool> wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) collect_operands(i, wanted);
  }
  uint64_t left = kMaxRows;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Metric& metric = anchor_.metrics[i];
    if (!wanted[i] || is_derived(metric.kind)) continue;
    rows_[i] =
        MetricRows::locate(archive_, metric, anchor_.calls, columns_->base_locations(), left);
    if (const MetricRows* const rows = rows_of(i)) left -= rows->paths().size();
  }
}

void Plan::collect_operands(size_t metric, std::vector<bool>& seen) const {
  for (const size_t operand : operands_[metric]) {
    if (seen[operand] && operands_[operand].empty()) continue;
    seen[operand] = true;
    collect_operands(operand, seen);
  }
}

void Plan::add_job(size_t metric, StoreAs as) {
  const Metric& of = anchor_.metrics[metric];
  if (!is_derived(of.kind) && !rows_[metric]) return;
  Job job;
  job.metric = metric;
  choose_kind(job, as);
  choose_rows(job);
  output_rows_ += job.paths.size();
  if (output_rows_ > kMaxRows) {
    fail(of, "more than " + std::to_string(kMaxRows) + " rows in all metrics together");
  }
  const MetricRows* const rows = rows_of(metric);
  job.value_bytes = rows != nullptr ? rows->value_bytes() : sizeof(double);
  job.row_bytes = job.value_bytes * columns_->count();  // below 2^15 * 2^22
  if (job.bytes() > kMaxMemberBytes - kDataMarker.size()) {
    fail(of, "would have " + std::to_string(job.bytes()) +
                 " bytes of values, a ustar archive allows " + std::to_string(kMaxMemberBytes));
  }
  stored_.push_back({&of, job.kind, is_derived(of.kind) ? "DOUBLE" : of.type_words});
  jobs_.push_back(std::move(job));
}

void Plan::choose_kind(Job& job, StoreAs as) {
  const Metric& metric = anchor_.metrics[job.metric];
  const bool copied = metric.type.combine == Combine::kNone && !is_derived(metric.kind);
  if (copied && columns_->is_aggregated()) {
    fail(metric, "values of type " + metric.type_words +
                     " can be copied, but not added up over threads: leave the metric out with "
                     "--metrics");
  }
  const MetricKind natural =
      metric.kind == MetricKind::kPostderived || metric.kind == MetricKind::kPrederivedInclusive
          ? MetricKind::kInclusive
      : metric.kind == MetricKind::kPrederivedExclusive ? MetricKind::kExclusive
                                                        : metric.kind;
  const MetricKind asked = as == StoreAs::kInclusive   ? MetricKind::kInclusive
                           : as == StoreAs::kExclusive ? MetricKind::kExclusive
                                                       : natural;
  const bool additive = is_derived(metric.kind) || metric.type.is_additive();
  const bool kept = !additive || natural == MetricKind::kSimple;
  job.kind = kept ? natural : asked;
  if (kept && natural != asked) kept_ += (kept_.empty() ? "" : ", ") + metric.name;
  job.flavour = job.kind == MetricKind::kInclusive ? Flavour::kInclusive : Flavour::kExclusive;
}

void Plan::choose_rows(Job& job) const {
  const CallTree& calls = anchor_.calls;
  const Metric& metric = anchor_.metrics[job.metric];
  std::vector<uint32_t> before(size_t{calls.size()} + 1, 0);  // rows of the input before a path
  std::vector<bool> present(calls.size(), is_derived(metric.kind));
  const MetricRows* const rows = rows_of(job.metric);
  if (rows != nullptr) {
    for (const uint32_t path : rows->paths()) present[path] = true;
  }
  for (uint32_t path = 0; path < calls.size(); ++path) {
    before[path + 1] = before[path] + (present[path] ? 1 : 0);
  }
  std::vector<uint32_t> numbers;
  const Enumeration order = order_of(job.kind);
  for (uint32_t number = 0; number < calls.size(); ++number) {
    const uint32_t path = calls.path_of(order, number);
    // What is below a path counts for it once values are converted.
    const bool below = job.kind != metric.kind && before[calls.end(path)] > before[path];
    if (!present[path] && !below) continue;
    numbers.push_back(number);
    job.paths.push_back(path);
  }
  const bool copied = metric.type.combine == Combine::kNone && rows != nullptr;
  job.index = make_index(numbers, copied && rows->is_swapped());
}

std::shared_ptr<const JobData> Plan::load(size_t job) const {
  // Reading is done under the lock: other threads mostly wait for the same values.
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const JobData> data = loaded_[job].lock();
  if (data == nullptr) {
    last_.reset();
    const auto start = std::chrono::steady_clock::now();
    data = read(jobs_[job]);
    read_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    loaded_[job] = data;
  }
  last_ = data;
  return data;
}

double Plan::read_s() const {
  const std::lock_guard lock(mutex_);
  return read_s_;
}

std::shared_ptr<const JobData> Plan::read(const Job& job) const {
  auto data = std::make_shared<JobData>();
  const Metric& metric = anchor_.metrics[job.metric];
  const uint64_t locations = columns_->base_locations();
  const bool repeated = columns_->locations() > locations;
  uint64_t left = input_limit_;
  const auto reserve = [&](uint64_t bytes) {
    if (bytes > left) {
      fail(metric, "needs more than the " + std::to_string(input_limit_) +
                       " bytes of --input-limit for the values it is computed from");
    }
    left -= bytes;
  };
  if (const MetricRows* const stored = rows_of(job.metric)) {
    const MetricRows& rows = *stored;
    with_scalar(metric.type.scalar, [&](auto scalar) {
      using T = decltype(scalar);
      reserve(Matrix<T>::bytes_of(rows, metric.type, locations, repeated));
      data->typed = std::make_shared<const Matrix<T>>(
          Matrix<T>::load(rows, metric.type, anchor_.calls, locations, repeated));
    });
    return data;
  }
  std::vector<bool> used(anchor_.metrics.size(), false);
  collect_operands(job.metric, used);
  for (size_t i = 0; i < used.size(); ++i) {
    const MetricRows* const rows = used[i] ? rows_of(i) : nullptr;
    if (rows == nullptr) continue;
    const ValueType& type = anchor_.metrics[i].type;
    reserve(Matrix<double>::bytes_of(*rows, type, locations, repeated));
    data->doubles[i] = std::make_shared<const Matrix<double>>(
        Matrix<double>::load(*rows, type, anchor_.calls, locations, repeated));
  }
  return data;
}

/// `of_columns`: values of columns, which are those of locations unless they are added up.
std::unique_ptr<Source<double>> Plan::make_source(size_t metric, bool of_columns,
                                                  const JobData& data,
                                                  Repetition& repetition) const {
  const Metric& of = anchor_.metrics[metric];
  const bool aggregated = of_columns && columns_->is_aggregated();
  std::unique_ptr<Source<double>> source;
  if (is_derived(of.kind)) {
    // A postderived metric is evaluated last: of sums, whatever they are over.
    const bool late = of.kind == MetricKind::kPostderived && aggregated;
    std::vector<std::unique_ptr<Source<double>>> operands;
    operands.reserve(operands_[metric].size());
    for (const size_t operand : operands_[metric]) {
      operands.push_back(make_source(operand, late, data, repetition));
    }
    source =
        make_derived_source(*expression_of(metric), of.kind, anchor_.calls, std::move(operands));
    if (late) return source;
  } else {
    const auto found = data.doubles.find(metric);
    if (found == data.doubles.end()) return nullptr;
    source = make_matrix_source<double>(found->second, anchor_.calls, of.kind, of.type,
                                        is_unsigned(of.type.scalar));
  }
  if (!aggregated) return source;
  const ValueType type = is_derived(of.kind) ? ValueType{} : of.type;
  return make_aggregated_source<double>(std::move(source), *columns_, type, repetition);
}

std::unique_ptr<JobRows> Plan::open(size_t job, std::shared_ptr<const JobData> data,
                                    Repetition& repetition) const {
  const Job& what = jobs_[job];
  const Metric& metric = anchor_.metrics[what.metric];
  const bool aggregated = columns_->is_aggregated();
  if (is_derived(metric.kind)) {
    return std::make_unique<TypedRows<double>>(
        what, make_source(what.metric, true, *data, repetition), 1, !aggregated, repetition);
  }
  if (metric.type.combine == Combine::kNone) {
    return std::make_unique<CopiedRows>(what, *rows_of(what.metric));
  }
  std::unique_ptr<JobRows> rows;
  with_scalar(metric.type.scalar, [&](auto scalar) {
    using T = decltype(scalar);
    auto source =
        make_matrix_source<T>(std::static_pointer_cast<const Matrix<T>>(data->typed), anchor_.calls,
                              metric.kind, metric.type, std::is_unsigned_v<T>);
    if (aggregated) {
      source = make_aggregated_source<T>(std::move(source), *columns_, metric.type, repetition);
    }
    rows = std::make_unique<TypedRows<T>>(what, std::move(source), metric.type.lanes, !aggregated,
                                          repetition);
  });
  return rows;
}

}  // namespace cube
