#include "cli/advice.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "cli/format.hpp"
#include "model/task_io.hpp"

namespace ioweave::cli {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr uint32_t kMostBuffers = 9;
constexpr double kMostJumps = 0.3;

// What `ioweave run` does (stream/watch/read_follower.hpp, help_trial.hpp).
constexpr uint64_t kLeastAheadBytes = 8 * kMiB;
constexpr double kLongFileUnits = 75;     // of 8 MiB, or of one read
constexpr double kUnhelpedOfLong = 0.03;  // read without help, to compare
constexpr double kUnhelpedOfShort_s = 0.03;
constexpr double kLeastWait = 1.0 / 16;      // of the time, else it does not help
constexpr double kMostBusyDevice = 5.0 / 6;  // of the time, else it does not help a short file
/// Half of the time between two looks at a reader.
constexpr double kLookDelay_s = 0.0025;

// ---- Predictions --------------------------------------------------------------------------------

bool knows_write_speed(const Advice& advice) {
  return !advice.write_curve.points().empty();
}

bool may_prefetch(const ObservedProcess& process) {
  return process.read_bytes >= kMiB && !process.is_direct && process.jumps <= kMostJumps;
}

/// Bytes that the process reads between two stretches of something else.
double read_item_bytes(const ObservedProcess& process) {
  return static_cast<double>(process.read_bytes) / std::max(1.0, process.read_turns());
}

bool is_short_file(const ObservedProcess& process) {
  const double unit = std::max(static_cast<double>(kLeastAheadBytes), read_item_bytes(process));
  return static_cast<double>(process.read_file_bytes) < kLongFileUnits * unit;
}

bool reads(Way way) {
  return way == Way::prefetch || way == Way::both;
}
bool writes(Way way) {
  return way == Way::write_behind || way == Way::both;
}

class Predictor {
 public:
  explicit Predictor(const Advice& advice)
      : advice_(advice), as_it_was_s_(model::predicted_s(advice.process.slots, {}, {})) {}

  /// Returns the prediction with the time of the whole run.
  [[nodiscard]] Prediction timed(Prediction asked) const {
    const double woven_s = asked.way == Way::tasks ? tasks_s() : woven(asked);
    double saved_s = as_it_was_s_ - woven_s;
    if (reads(asked.way)) saved_s -= unhelped_s(asked);
    asked.seconds = std::max(advice_.plain_s - saved_s, advice_.processor_s);
    return asked;
  }

 private:
  [[nodiscard]] double woven(const Prediction& asked) const {
    const ObservedProcess& process = advice_.process;
    model::Rates rates = advice_.rates;
    model::Weaving weaving;
    if (reads(asked.way) && is_helped()) {
      weaving.most_ahead_bytes = static_cast<double>(asked.lookahead_bytes);
      weaving.ahead_bytes =
          std::min(weaving.most_ahead_bytes,
                   std::max(static_cast<double>(kLeastAheadBytes), read_item_bytes(process)));
      weaving.ahead_delay_s = kLookDelay_s;
    }
    if (writes(asked.way)) {
      weaving.buffers = asked.buffers;
      weaving.write_devices = asked.devices;
      if (knows_write_speed(advice_)) {
        rates.write_bytes_per_s = advice_.write_curve.bytes_per_s(asked.buffers - 1);
      }
    }
    weaving.one_device = rates.one_device && asked.devices == 1;
    return model::predicted_s(process.slots, rates, weaving);
  }

  /// Whether `ioweave run` would help this reader.
  [[nodiscard]] bool is_helped() const {
    const ObservedProcess& process = advice_.process;
    if (process.read_s() < kLeastWait * process.seconds) return false;
    if (!is_short_file(process) || advice_.rates.read_bytes_per_s <= 0) return true;
    const double device_s =
        static_cast<double>(process.read_bytes) / advice_.rates.read_bytes_per_s;
    return device_s < kMostBusyDevice * process.seconds;
  }

  /// What is lost of the time saved, since `ioweave run` reads a part without help.
  [[nodiscard]] double unhelped_s(const Prediction& asked) const {
    Prediction without = asked;
    without.way = asked.way == Way::both ? Way::write_behind : Way::prefetch;
    const double unhelped_s = asked.way == Way::both ? woven(without) : as_it_was_s_;
    const double saved_s = std::max(0.0, unhelped_s - woven(asked));
    const double seconds = std::max(advice_.process.seconds, 1e-9);
    const double share = is_short_file(advice_.process)
                             ? std::min(1.0, kUnhelpedOfShort_s / seconds)
                             : kUnhelpedOfLong;
    return share * saved_s;
  }

  /// The bound of tasks on all cores: their computation, and the time of the devices.
  [[nodiscard]] double tasks_s() const {
    const std::vector<model::Slot>& slots = advice_.process.slots;
    const model::Bound devices = model::device_bound_of(slots, advice_.rates);
    double compute_s = 0;
    for (const model::Slot& slot : slots) compute_s += slot.compute_s;
    const double turns =
        std::max({1.0, advice_.process.read_turns(), advice_.process.write_turns()});
    const model::TaskBound bound =
        model::task_bound(whole(turns), compute_s / turns, advice_.cores, 0, 0);
    return std::max(bound.seconds(), devices.seconds);
  }

  const Advice& advice_;
  double as_it_was_s_;
};

std::vector<Prediction> predict(const Advice& advice) {
  const Predictor predictor(advice);
  const bool may_read_ahead = may_prefetch(advice.process);
  const bool may_write_behind = advice.process.written_bytes > 0;
  const uint64_t lookahead = advice.lookahead_bytes;
  std::vector<Prediction> all;
  if (may_read_ahead) {
    for (const uint64_t bytes : {8 * kMiB, 32 * kMiB, lookahead}) {
      if (bytes > lookahead) continue;
      all.push_back(predictor.timed({.way = Way::prefetch, .lookahead_bytes = bytes}));
    }
  }
  for (const Way way : {Way::write_behind, Way::both}) {
    if (!may_write_behind || (way == Way::both && !may_read_ahead)) continue;
    for (const uint32_t devices : {1u, 2u, 4u}) {
      for (uint32_t buffers = 2; buffers <= kMostBuffers; ++buffers) {
        all.push_back(predictor.timed({.way = way,
                                       .lookahead_bytes = way == Way::both ? lookahead : 0,
                                       .buffers = buffers,
                                       .devices = devices}));
      }
    }
  }
  if (advice.cores > 1) all.push_back(predictor.timed({.way = Way::tasks}));
  return all;
}

// ---- What a user must know ----------------------------------------------------------------------

void remark_on_observation(const stats::RunReport& report, Advice& advice) {
  const ObservedProcess& process = advice.process;
  auto& remarks = advice.remarks;
  if (report.config.policy != config::RunPolicy::off) {
    remarks.emplace_back(
        "The run was not left alone (`ioweave run`): what it gained already is not predicted "
        "again. `ioweave stat -o FILE` records a run as it is.");
  }
  if (process.others > 0) {
    remarks.push_back("The process " + std::to_string(process.pid) + " alone is weighed; " +
                      std::to_string(process.others) + " more did I/O on files.");
  }
  if (process.read_bytes > 0 && !process.has_calls) {
    remarks.emplace_back(
        "Reads were not seen as calls (the C library's streams, or a program that cannot be "
        "observed): the time in which the process did not run counts as reading.");
  }
  if (process.seconds < 0.5) {
    remarks.emplace_back("The run was short: what starting and comparing cost weighs much.");
  }
  if (report.outcome.exit_code != 0) {
    remarks.push_back("The program ended with exit code " +
                      std::to_string(report.outcome.exit_code) + ".");
  }
}

void remark_on_reads(Advice& advice) {
  const ObservedProcess& process = advice.process;
  auto& remarks = advice.remarks;
  if (process.jumps > kMostJumps) {
    remarks.emplace_back("Reads follow no pattern: they cannot be prefetched by `ioweave run`.");
  }
  if (process.is_direct) remarks.emplace_back("O_DIRECT reads are not prefetched.");
  if (!may_prefetch(process)) return;
  if (advice.rates.read_bytes_per_s == 0) {
    remarks.emplace_back(
        "The device's own speed of reading is not known: the observed times count, in which the "
        "kernel's read-ahead may hide a part already. So the predicted gain may be too high or too "
        "low.");
  }
  if (is_short_file(process)) {
    remarks.emplace_back(
        "`ioweave run` helps so short a file only where it sees the reader wait in time, so the "
        "gain may be less. --verify tells.");
  }
}

void remark_on_writes(Advice& advice) {
  if (advice.process.writes_are_cached) {
    advice.remarks.emplace_back(
        "The page cache took what was written, and the program did not wait for the disk. "
        "Write-behind ends when the disk has it.");
  }
  if (advice.process.written_bytes == 0 || knows_write_speed(advice)) return;
  advice.remarks.emplace_back(
      "How fast the output's device writes is not known: the time inside write and fsync counts. "
      "If the page cache took the bytes, this is not the device's time. `ioweave measure --direct "
      "--toml NAME FOLDER >>ioweave.toml` tells it.");
}

/// R and W of a turn.
void fit_lines(Advice& advice) {
  std::vector<model::Transfers> reads;
  std::vector<model::Transfers> writes;
  for (const model::Slot& slot : advice.process.slots) {
    if (slot.read_bytes > 0) reads.push_back({slot.read_turns, slot.read_bytes, slot.read_s});
    if (slot.write_bytes > 0) writes.push_back({slot.write_turns, slot.write_bytes, slot.write_s});
  }
  advice.read = model::fit_line(reads);
  advice.write = model::fit_line(writes);
}

model::Bound bound_of(const Advice& advice) {
  model::Rates rates = advice.rates;
  if (knows_write_speed(advice)) rates.write_bytes_per_s = advice.write_curve.most_bytes_per_s();
  // What the run took outside the life of the process stays.
  const double outside_s = std::max(0.0, advice.plain_s - advice.process.seconds);
  model::Bound bound = model::bound_of(advice.process.slots, rates, advice.processor_s - outside_s);
  bound.seconds += outside_s;
  return bound;
}

std::string stream_lines(const Advice& advice, uint32_t buffers) {
  const auto item = whole(static_cast<double>(advice.process.written_bytes) /
                          std::max(1.0, advice.process.write_turns()));
  const uint64_t buffer = std::clamp<uint64_t>((item + 4095) / 4096 * 4096, kMiB, 1024 * kMiB);
  return "with ioweave.WriteStream(buffer_bytes=" + std::to_string(buffer) +
         ", budget_bytes=" + std::to_string(buffer * buffers) +
         ") as stream:\n"
         "    file = stream.create(PATH)\n"
         "    ...\n"
         "    file.append(result)  # in the place of write and fsync; C, C++, Fortran: "
         "docs/streams.md\n";
}

}  // namespace

double Advice::gain(const Prediction& prediction) const noexcept {
  return plain_s > 0 ? 1 - prediction.seconds / plain_s : 0;
}

Advice advise(const stats::RunReport& report, ObservedProcess process, const AdviceInput& input) {
  Advice advice;
  advice.process = std::move(process);
  advice.rates = input.rates;
  advice.rates.one_device = advice.process.one_device;
  advice.rates.writes_are_cached = advice.process.writes_are_cached;
  // Where the process did not run, nothing was copied.
  if (!advice.process.has_calls) advice.rates.copy_s_per_byte = 0;
  advice.write_curve = input.write_curve;
  advice.lookahead_bytes = input.lookahead_bytes;
  advice.plain_s = report.outcome.wall_seconds;
  advice.cores = std::max(1u, report.machine.cpus_allowed);
  advice.processor_s = (report.outcome.user_seconds + report.outcome.system_seconds) / advice.cores;
  advice.phases = model::phases_of(advice.process.slots, advice.process.slot_s);
  fit_lines(advice);
  advice.bound = bound_of(advice);
  advice.predictions = predict(advice);
  remark_on_observation(report, advice);
  remark_on_reads(advice);
  remark_on_writes(advice);
  return advice;
}

const Prediction* best_of_way(const Advice& advice, Way way) {
  const Prediction* best = nullptr;
  for (const Prediction& each : advice.predictions) {
    if (each.way != way || each.devices != 1) continue;
    if (way == Way::prefetch && each.lookahead_bytes != advice.lookahead_bytes) continue;
    if (best == nullptr || each.seconds < best->seconds * 0.99) best = &each;
  }
  return best;
}

std::vector<const Prediction*> ranking(const Advice& advice) {
  std::vector<const Prediction*> ranked;
  for (const Way way : {Way::prefetch, Way::write_behind, Way::both}) {
    const Prediction* const each = best_of_way(advice, way);
    if (each == nullptr || advice.gain(*each) < model::kWorthIt) continue;
    const bool is_first = ranked.empty() || each->seconds < ranked.front()->seconds -
                                                                model::kWorthIt * advice.plain_s;
    ranked.insert(is_first ? ranked.begin() : ranked.end(), each);
  }
  return ranked;
}

std::string how_to(const stats::RunReport& report, const Advice& advice,
                   const Prediction& prediction) {
  std::string run = "ioweave run -- " + shown_command(report.command, 200) + "\n";
  switch (prediction.way) {
    case Way::prefetch:
      return run;
    case Way::write_behind:
      return stream_lines(advice, prediction.buffers);
    case Way::both:
      return run + stream_lines(advice, prediction.buffers);
    case Way::tasks:
      return "@ioweave.task computes an item, @ioweave.io reads or writes it, "
             "ioweave.Runtime() runs both: docs/python.md\n";
  }
  return {};
}

}  // namespace ioweave::cli
