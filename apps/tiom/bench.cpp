#include "bench.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "ioweave/tasks.h"

namespace tiom {
namespace {

constexpr double kProbeSeconds = 0.4;

unsigned widest_io(const Options& options) {
  unsigned widest = 1;
  for (const Mode mode : options.modes) widest = std::max(widest, io_width(mode));
  return widest;
}

TargetSettings target_settings(const Options& options) {
  TargetSettings settings;
  settings.path = options.file;
  settings.bytes = options.bytes;
  settings.write = options.write;
  settings.direct = options.direct;
  settings.overwrite = options.overwrite;
  return settings;
}

RuntimeSettings runtime_settings(const Options& options) {
  RuntimeSettings settings;
  settings.kind = options.runtime;
  settings.workers = options.threads > 0 ? options.threads : usable_cores();
  settings.workers_given = options.threads > 0;
  settings.most_in_flight = options.series * widest_io(options);
  settings.reap_in_task = options.reap_in_task;
  return settings;
}

/// The runtime comes first: where it is missing, no file shall have been filled for nothing.
void check_runtime(const Options& options) {
  if (const std::string missing = missing_runtime(options.runtime); !missing.empty()) {
    throw std::runtime_error(missing);
  }
}

const Options& checked(const Options& options) {
  check_runtime(options);
  return options;
}

}  // namespace

std::vector<size_t> order_of_round(size_t variants, unsigned round) {
  std::vector<size_t> order(variants);
  std::iota(order.begin(), order.end(), size_t{0});
  if (round % 2 == 1) std::ranges::reverse(order);
  return order;
}

Bench::Bench(const Options& options)
    : options_(checked(options)),
      variants_(chosen_variants(options)),
      file_((check_memory(), target_settings(options))),
      runtime_(make_runtime(runtime_settings(options))),
      machine_(this_machine(file_.fd())) {
  for (const uint64_t block : options.blocks) file_.check_block(block);
  calibration_ = calibrate(cores());
}

unsigned Bench::cores() const {
  return std::min(runtime_->workers(), usable_cores());
}

void Bench::check_memory() const {
  const uint64_t block = *std::ranges::max_element(options_.blocks);
  const uint64_t buffers = uint64_t{options_.series} * widest_io(options_);
  const uint64_t available = available_memory();
  if (available == 0 || buffers <= available / 2 / block) return;
  throw std::runtime_error(std::to_string(buffers) + " buffers of " + size_text(block) +
                           ", one for each transfer of " + std::to_string(options_.series) +
                           " series, need more than half of the " +
                           std::to_string(available >> 20) +
                           "m of memory that are available; lower --series or --block");
}

Report Bench::report() const {
  Report report;
  report.options = options_;
  report.machine = machine_;
  report.runtime = runtime_->name();
  report.engine = iow_service_engine(runtime_->service(), nullptr);
  report.tasks = iow_service_tasks(runtime_->service(), nullptr);
  report.workers = runtime_->workers();
  report.cores = cores();
  report.calibration = calibration_;
  report.variants = variants_;
  return report;
}

BlockOrder Bench::order_of(uint64_t block_bytes) const {
  return {options_.bytes / block_bytes, options_.pattern == Pattern::random};
}

Shape Bench::shape_of(const Cell& cell) const {
  const uint64_t ios = options_.bytes / cell.block_bytes;
  const unsigned width = ios_per_cycle(cell.mode);
  return {cell.mode, options_.series, (ios + width - 1) / width};
}

double Bench::device_mb_per_s(uint64_t block_bytes) {
  const auto [place, is_new] = device_mb_per_s_.try_emplace(block_bytes, 0);
  if (is_new) {
    const Service service(IOW_TASKS_NONE, 32);
    file_.settle();
    place->second = probe_device(service.get(),
                                 {file_.fd(), options_.write, block_bytes,
                                  bound_probe_depth(block_bytes), kProbeSeconds},
                                 order_of(block_bytes))
                        .mb_per_s;
  }
  return place->second;
}

Bench::Estimate Bench::estimate(const Cell& cell) {
  const Shape shape = shape_of(cell);
  RunFigures whole;
  whole.bytes = shape.cycles * ios_per_cycle(cell.mode) * cell.block_bytes;
  whole.computes = shape.cycles * computes_per_cycle(cell.mode);
  const Bound bound = bound_of(whole, cell.compute_ns, cores(), device_mb_per_s(cell.block_bytes));
  const double limit = static_cast<double>(options_.time_limit_ns) / 1e9;
  const auto runs = static_cast<double>(variants_.size() * options_.repetitions);
  // Standalone runs take the sum rather than the longer of the two.
  return {runs * std::min(limit, bound.compute_s + bound.device_s), runs * limit};
}

double Bench::turn_s(const Cell& cell) const {
  const Shape shape = shape_of(cell);
  // A run of fewer turns ends by itself.
  const auto turns = static_cast<double>(std::min<uint64_t>(shape.series, shape.cycles));
  return turns * computes_per_cycle(cell.mode) * static_cast<double>(cell.compute_ns) / 1e9 /
         cores();
}

CellResult Bench::measure(const Cell& cell,
                          const std::function<void(const RunFigures&)>& after_run) {
  CellResult result;
  result.cell = cell;
  result.probed_mb_per_s = device_mb_per_s(cell.block_bytes);
  const BlockOrder order = order_of(cell.block_bytes);
  const Shape shape = shape_of(cell);
  const Buffers buffers(uint64_t{shape.series} * io_width(cell.mode), cell.block_bytes);
  const Workload workload{cell,       shape,          calibration_.turns(cell.compute_ns),
                          file_.fd(), options_.write, options_.time_limit_ns,
                          &order,     &buffers};
  for (const Variant variant : variants_) result.variants.push_back({variant, {}});
  for (unsigned repetition = 0; repetition < options_.repetitions; ++repetition) {
    for (const size_t place : order_of_round(result.variants.size(), repetition)) {
      VariantResult& variant = result.variants[place];
      file_.settle();
      Run run(workload);
      runtime_->execute(variant.variant, run);
      variant.runs.push_back(run.figures());
      after_run(variant.runs.back());
    }
  }
  return result;
}

}  // namespace tiom
