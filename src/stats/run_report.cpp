#include "stats/run_report.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace ioweave::stats {

CallTotals& CallTotals::operator+=(const CallTotals& other) noexcept {
  calls += other.calls;
  bytes += other.bytes;
  errors += other.errors;
  seconds += other.seconds;
  return *this;
}

void Series::resize(size_t slots) {
  for (auto* list :
       {&read_calls, &read_bytes, &read_turns, &write_calls, &write_bytes, &write_turns}) {
    list->resize(slots);
  }
  for (auto* list : {&read_seconds, &write_seconds, &sync_seconds}) list->resize(slots);
}

double FileReport::exposed_seconds() const noexcept {
  if (degrade == Degrade::not_regular) return 0;
  double sum = 0;
  for (const CallTotals& totals : call) sum += totals.seconds;
  return sum;
}

EarlyWrites& EarlyWrites::operator+=(const EarlyWrites& other) noexcept {
  cycles += other.cycles;
  bytes += other.bytes;
  lost_bytes += other.lost_bytes;
  return *this;
}

void RunGatherer::add(ProcessReport process, std::vector<FileReport> files) {
  process.exposed_seconds = 0;
  for (FileReport& file : files) {
    process.exposed_seconds += file.exposed_seconds();
    merge(std::move(file));
  }
  processes_.push_back(std::move(process));
}

void RunGatherer::add(PrefetchReport prefetch) {
  prefetch_operations_ += prefetch.operations;
  is_compared_ = is_compared_ || prefetch.is_compared;
  trial_seconds_ += prefetch.trial_seconds;
  FileReport file;
  file.path = std::move(prefetch.path);
  file.device = prefetch.device;
  file.inode = prefetch.inode;
  file.processes = 0;
  file.prefetched_bytes = prefetch.bytes;
  file.prefetched_used_bytes = prefetch.used_bytes;
  file.hidden_seconds = prefetch.saved_seconds;
  merge(std::move(file));
}

void RunGatherer::add(EarlyWriteReport early) {
  is_compared_ = is_compared_ || early.is_compared;
  FileReport file;
  file.path = std::move(early.path);
  file.device = early.device;
  file.inode = early.inode;
  file.processes = 0;
  file.early = early.writes;
  file.hidden_seconds = early.saved_seconds;
  merge(std::move(file));
}

void RunGatherer::add_seen(FileReport file) {
  seen_.push_back(std::move(file));
}

void RunGatherer::add_unseen_series() {
  std::unordered_set<std::string> counted;
  for (const FileReport& file : files_) {
    if (file.of(CallClass::read).calls > 0) counted.insert(file.path);
  }
  for (FileReport& file : seen_) {
    if (counted.contains(file.path)) continue;
    ++unseen_files_;
    for (const Series& series : file.series) {
      for (const uint64_t bytes : series.read_bytes) unseen_bytes_ += bytes;
    }
    merge(std::move(file));
  }
}

void RunGatherer::add_notes() {
  for (FileReport& file : files_) {
    const HelpNotes::Note note = notes_.find({file.device, file.inode}, file.path);
    file.read_help = note.read;
    file.early_help = note.early;
  }
}

double ChoiceReport::engine_cost_seconds() const noexcept {
  const OfWay& plain = of_way(choice::Way::plain);
  if (plain.bytes == 0) return 0;
  double cost = 0;
  for (const choice::Way way : {choice::Way::engine, choice::Way::pieces}) {
    const OfWay& engine = of_way(way);
    cost += engine.seconds -
            static_cast<double>(engine.bytes) * plain.seconds / static_cast<double>(plain.bytes);
  }
  return cost;
}

void RunGatherer::merge(FileReport file) {
  const auto [found, added] = index_.try_emplace(file.path, files_.size());
  if (added) {
    files_.push_back(std::move(file));
    return;
  }
  FileReport& sum = files_[found->second];
  if (sum.degrade == Degrade::none) sum.degrade = file.degrade;
  sum.device = file.device;
  sum.inode = file.inode;
  sum.opens += file.opens;
  sum.processes += file.processes;
  for (size_t i = 0; i < kCallClasses; ++i) sum.call[i] += file.call[i];
  sum.prefetched_bytes += file.prefetched_bytes;
  sum.prefetched_used_bytes += file.prefetched_used_bytes;
  sum.early += file.early;
  sum.hidden_seconds += file.hidden_seconds;
  for (Series& series : file.series) {
    if (sum.series.size() == FileReport::kMostSeries) break;
    sum.series.push_back(std::move(series));
  }
  for (const ChoiceReport& choice : file.choices) {
    if (sum.choices.size() == FileReport::kMostChoices) break;
    sum.choices.push_back(choice);
  }
  // Files that the interposer leaves alone may have been prefetched or written early, too.
  if (sum.prefetched_used_bytes != 0 || sum.early.bytes != 0) sum.degrade = Degrade::none;
}

LargePagesReport& LargePagesReport::operator+=(const LargePagesReport& other) {
  bytes += other.bytes;
  seconds += other.seconds;
  for (const OfKind& kind : other.kinds) {
    const auto same = std::ranges::find_if(kinds, [&](const OfKind& each) {
      return each.operation == kind.operation && each.size_class == kind.size_class;
    });
    if (same == kinds.end()) {
      kinds.push_back(kind);
    } else if (kind.faster > 0 && (same->faster <= 0 || kind.faster < same->faster)) {
      *same = kind;
    }
  }
  return *this;
}

namespace {

RunTotals sum_up(const std::vector<ProcessReport>& processes,
                 const std::vector<FileReport>& files) {
  RunTotals totals;
  std::unordered_set<int32_t> pids;
  for (const ProcessReport& process : processes) {
    pids.insert(process.pid);
    totals.exposed_seconds += process.exposed_seconds;
    totals.engine_operations += process.engine_operations;
    totals.engine_cost_seconds += process.engine_cost_seconds;
    totals.large_pages += process.large_pages;
  }
  for (const FileReport& file : files) {
    if (file.degrade == Degrade::not_regular) continue;
    ++totals.files;
    for (size_t i = 0; i < kCallClasses; ++i) totals.call[i] += file.call[i];
    totals.hidden_seconds += file.hidden_seconds;
    totals.prefetched_bytes += file.prefetched_bytes;
    totals.prefetched_used_bytes += file.prefetched_used_bytes;
    totals.early += file.early;
  }
  totals.io_seconds = std::max(0.0, totals.exposed_seconds + totals.hidden_seconds);
  totals.images = processes.size();
  totals.processes = pids.size();
  return totals;
}

/// Sorts by exposed seconds, then by bytes moved, then by name, so that two runs list alike.
bool more_exposed(const FileReport& a, const FileReport& b) {
  const auto bytes = [](const FileReport& file) {
    return file.of(CallClass::read).bytes + file.of(CallClass::write).bytes;
  };
  if (a.exposed_seconds() != b.exposed_seconds()) return a.exposed_seconds() > b.exposed_seconds();
  if (bytes(a) != bytes(b)) return bytes(a) > bytes(b);
  return a.path < b.path;
}

}  // namespace

void RunGatherer::finish(RunReport& report) && {
  add_unseen_series();
  add_notes();
  // Segments have times of the monotonic clock.
  const double start_s = static_cast<double>(report.start_ns) * 1e-9;
  const auto count_from_start = [&](std::vector<Series>& list) {
    for (Series& series : list) series.start_s = std::max(0.0, series.start_s - start_s);
  };
  for (FileReport& file : files_) count_from_start(file.series);
  for (ProcessReport& process : processes_) {
    count_from_start(process.series);
    process.start_seconds = std::max(0.0, process.start_seconds - start_s);
  }
  std::sort(files_.begin(), files_.end(), more_exposed);
  report.totals = sum_up(processes_, files_);
  report.record.unseen_files = unseen_files_;
  report.record.unseen_bytes = unseen_bytes_;
  report.record.mapped_files = static_cast<uint64_t>(std::ranges::count(
      files_, Degrade::mapped, [](const FileReport& file) { return file.degrade; }));
  report.totals.prefetch_operations = prefetch_operations_;
  report.totals.trial_seconds = trial_seconds_;
  report.totals.hidden_is_known = !report.totals.was_helped() || is_compared_;
  for (const ProcessReport& process : processes_) {
    if (report.engine.empty()) report.engine = process.engine;
  }
  if (report.engine.empty() && report.totals.was_helped()) {
    report.engine = prefetch_operations_ == 0         ? "early writeback"
                    : report.totals.early.cycles == 0 ? "page-cache prefetch"
                                                      : "page-cache prefetch, early writeback";
  }
  report.processes = std::move(processes_);
  report.files = std::move(files_);
}

}  // namespace ioweave::stats
