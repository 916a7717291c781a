#include "cli/observed_process.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <sys/sysmacros.h>

#include "cli/format.hpp"

namespace ioweave::cli {
namespace {

using stats::Series;

constexpr size_t kGrid = 128;
constexpr double kLeastSeconds = 0.02;
constexpr double kLeastSynced_s = 0.001;
constexpr double kLeastInput = 0.01;  // of all that is read

double busy_s(const Series& series) {
  double sum = 0;
  for (size_t i = 0; i < series.slots(); ++i) {
    sum += series.read_seconds[i] + series.write_seconds[i] + series.sync_seconds[i];
  }
  return sum;
}

double sum_of(const std::vector<uint64_t>& values) {
  double sum = 0;
  for (const uint64_t value : values) sum += static_cast<double>(value);
  return sum;
}

/// The values of a series with calls that took longer than their slot spread over those before.
std::vector<model::Slot> spread(const Series& series) {
  std::vector<model::Slot> slots(series.slots());
  for (size_t i = 0; i < slots.size(); ++i) {
    model::Slot& slot = slots[i];
    slot.read_bytes = static_cast<double>(series.read_bytes[i]);
    slot.read_s = series.read_seconds[i];
    slot.read_turns = static_cast<double>(series.read_turns[i]);
    slot.write_bytes = static_cast<double>(series.write_bytes[i]);
    slot.write_s = series.write_seconds[i] + series.sync_seconds[i];
    slot.write_turns = static_cast<double>(series.write_turns[i]);
  }
  for (size_t i = slots.size(); i-- > 1;) {
    model::Slot& slot = slots[i];
    const double busy = slot.read_s + slot.write_s;
    if (busy <= series.slot_s) continue;
    const double early = 1 - series.slot_s / busy;
    const auto move = [early](double& from, double& to) {
      to += early * from;
      from -= early * from;
    };
    move(slot.read_bytes, slots[i - 1].read_bytes);
    move(slot.read_s, slots[i - 1].read_s);
    move(slot.read_turns, slots[i - 1].read_turns);
    move(slot.write_bytes, slots[i - 1].write_bytes);
    move(slot.write_s, slots[i - 1].write_s);
    move(slot.write_turns, slots[i - 1].write_turns);
  }
  return slots;
}

/// Adds a series to slots of another length, in proportion to the time that they share.
void add_series(const Series& series, double begin_s, ObservedProcess& process) {
  const std::vector<model::Slot> values = spread(series);
  const double last = static_cast<double>(process.slots.size()) - 1;
  for (size_t i = 0; i < values.size(); ++i) {
    const double from_s = series.start_s - begin_s + static_cast<double>(i) * series.slot_s;
    const double first_slot = std::clamp(from_s / process.slot_s, 0.0, last);
    const double end_slot = (from_s + series.slot_s) / process.slot_s;
    const auto first = static_cast<size_t>(first_slot);
    const auto end = static_cast<size_t>(std::clamp(std::ceil(end_slot), first_slot + 1, last + 1));
    double whole = 0;
    const auto part_in = [&](size_t k) {
      const double begin = std::max(from_s / process.slot_s, static_cast<double>(k));
      return std::max(1e-9, std::min(end_slot, static_cast<double>(k) + 1) - begin);
    };
    for (size_t k = first; k < end; ++k) whole += part_in(k);
    for (size_t k = first; k < end; ++k) {
      const double part = part_in(k) / whole;
      model::Slot& slot = process.slots[k];
      slot.read_bytes += part * values[i].read_bytes;
      slot.read_s += part * values[i].read_s;
      slot.read_turns += part * values[i].read_turns;
      slot.write_bytes += part * values[i].write_bytes;
      slot.write_s += part * values[i].write_s;
      slot.write_turns += part * values[i].write_turns;
    }
  }
}

/// Marks the slot in which a series begins to read, if it reads a fair part of all. (A small file
/// that is read on the way is no input of its own.)
void mark_input(const Series& series, double begin_s, ObservedProcess& process) {
  const double bytes = sum_of(series.read_bytes);
  if (bytes <= 0 || bytes < kLeastInput * static_cast<double>(process.read_bytes)) return;
  const double last = static_cast<double>(process.slots.size()) - 1;
  const double at = std::clamp((series.start_s - begin_s) / process.slot_s, 0.0, last);
  process.slots[static_cast<size_t>(at)].opens_input = true;
}

/// What a slot does not spend in I/O is computation.
void add_computation(ObservedProcess& process) {
  for (model::Slot& slot : process.slots) {
    const double io_s = slot.read_s + slot.write_s;
    if (io_s > process.slot_s) {  // several threads
      slot.read_s *= process.slot_s / io_s;
      slot.write_s *= process.slot_s / io_s;
    }
    slot.compute_s = std::max(0.0, process.slot_s - slot.read_s - slot.write_s);
  }
}

struct Span {
  double begin_s = 0;
  double seconds = 0;
};

/// From the first image of a process to the end of its last: exec makes a new one.
Span life_of(const stats::RunReport& report, int32_t pid) {
  double begin_s = report.outcome.wall_seconds;
  double end_s = 0;
  for (const stats::ProcessReport& image : report.processes) {
    if (image.pid != pid || !image.active) continue;
    begin_s = std::min(begin_s, image.start_seconds);
    end_s = std::max(end_s, image.start_seconds + image.seconds);
  }
  if (end_s <= begin_s) return {0, report.outcome.wall_seconds};  // it was looked at from outside
  return {begin_s, end_s - begin_s};
}

bool counts(const stats::FileReport& file) {
  return file.degrade != stats::Degrade::not_regular;
}

/// Calls take(series, file) for each series; without a file for those that several share.
template <class Take>
void for_each_series(const stats::RunReport& report, Take take) {
  for (const stats::FileReport& file : report.files) {
    if (!counts(file)) continue;
    for (const Series& series : file.series) take(series, &file);
  }
  for (const stats::ProcessReport& process : report.processes) {
    for (const Series& series : process.series) take(series, nullptr);
  }
}

/// Why a run without series has none.
std::string why_no_series(const stats::RunReport& report) {
  const bool did_io = std::ranges::any_of(report.files, [](const stats::FileReport& file) {
    return counts(file) &&
           file.of(stats::CallClass::read).bytes + file.of(stats::CallClass::write).bytes > 0;
  });
  if (did_io) {
    return "the run file has no series of what files did over time: it is of an older Ioweave; "
           "observe the program again: ioweave stat -o FILE -- PROGRAM";
  }
  std::string why =
      "the program read and wrote no regular file that could be observed, so there "
      "is nothing to overlap";
  for (const std::string& remark : report.remarks) why += "\n  " + remark;
  return why;
}

double sum(const std::vector<model::Slot>& slots, double model::Slot::*member) {
  double all = 0;
  for (const model::Slot& slot : slots) all += slot.*member;
  return all;
}

}  // namespace

double ObservedProcess::read_s() const noexcept {
  return sum(slots, &model::Slot::read_s);
}
double ObservedProcess::read_turns() const noexcept {
  return sum(slots, &model::Slot::read_turns);
}
double ObservedProcess::write_turns() const noexcept {
  return sum(slots, &model::Slot::write_turns);
}

std::optional<ObservedProcess> observed_process(const stats::RunReport& report, std::string& why) {
  std::map<int32_t, double> busy;
  for_each_series(report, [&](const Series& series, const stats::FileReport*) {
    busy[series.pid] += busy_s(series);
  });
  if (busy.empty()) {
    why = why_no_series(report);
    return std::nullopt;
  }
  ObservedProcess process;
  process.pid =
      std::ranges::max_element(busy, {}, [](const auto& entry) { return entry.second; })->first;
  process.others = busy.size() - 1;
  const Span life = life_of(report, process.pid);
  if (!std::isfinite(life.seconds)) {
    why = "the run file has times that no run can have";
    return std::nullopt;
  }
  if (life.seconds < kLeastSeconds) {
    why = "the run took less than 0.02 s: too short to predict from; give the program more to do";
    return std::nullopt;
  }
  process.seconds = life.seconds;
  process.slots.resize(kGrid);
  process.slot_s = life.seconds / kGrid;
  double most_read = 0;
  double most_written = 0;
  double calls = 0;
  double jumps = 0;
  uint64_t read_device = 0;
  uint64_t written_device = 0;
  double sync_s = 0;
  bool writes_direct = false;
  for_each_series(report, [&](const Series& series, const stats::FileReport* file) {
    if (series.pid != process.pid) return;
    add_series(series, life.begin_s, process);
    const double read = sum_of(series.read_bytes);
    const double written = sum_of(series.write_bytes);
    for (const double seconds : series.sync_seconds) sync_s += seconds;
    process.read_bytes += whole(read);
    process.written_bytes += whole(written);
    if (file == nullptr) return;
    calls += sum_of(series.read_calls);
    jumps += static_cast<double>(series.jumps);
    if (read > most_read) {
      most_read = read;
      process.read_file = file->path;
      read_device = file->device;
      process.has_calls = series.source == Series::Source::calls;
      process.is_direct = file->degrade == stats::Degrade::direct;
    }
    if (written > most_written) {
      most_written = written;
      process.written_file = file->path;
      written_device = file->device;
      writes_direct = file->degrade == stats::Degrade::direct;
    }
  });
  for_each_series(report, [&](const Series& series, const stats::FileReport*) {
    if (series.pid == process.pid) mark_input(series, life.begin_s, process);
  });
  process.read_file_bytes = whole(most_read);
  process.one_device = most_read > 0 && most_written > 0 && read_device == written_device;
  // A file system without a disk may send each write to a server: it is waited for.
  process.writes_are_cached =
      most_written > 0 && major(written_device) != 0 && !writes_direct && sync_s < kLeastSynced_s;
  process.jumps = calls > 0 ? jumps / calls : 0;
  add_computation(process);
  return process;
}

}  // namespace ioweave::cli
