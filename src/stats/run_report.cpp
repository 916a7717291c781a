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

double FileReport::exposed_seconds() const noexcept {
  if (degrade == Degrade::not_regular) return 0;
  double sum = 0;
  for (const CallTotals& totals : call) sum += totals.seconds;
  return sum;
}

double ProcessReport::hidden_seconds() const noexcept {
  if (prefetched_bytes == 0) return 0;
  const double overlapped = std::max(0.0, prefetch_busy_seconds - prefetch_exposed_seconds);
  const double used =
      static_cast<double>(prefetched_used_bytes) / static_cast<double>(prefetched_bytes);
  return overlapped * std::min(1.0, used);
}

void RunGatherer::add(ProcessReport process, std::vector<FileReport> files) {
  process.exposed_seconds = 0;
  process.prefetched_bytes = 0;
  process.prefetched_used_bytes = 0;
  for (FileReport& file : files) {
    process.exposed_seconds += file.exposed_seconds();
    process.prefetched_bytes += file.prefetched_bytes;
    process.prefetched_used_bytes += file.prefetched_used_bytes;
    merge(std::move(file));
  }
  processes_.push_back(std::move(process));
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
  sum.prefetch_seconds += file.prefetch_seconds;
  // One process may have made the file and another one read it with gain.
  if (sum.degrade == Degrade::no_gain && sum.prefetched_used_bytes != 0) {
    sum.degrade = Degrade::none;
  }
}

namespace {

RunTotals sum_up(const std::vector<ProcessReport>& processes,
                 const std::vector<FileReport>& files) {
  RunTotals totals;
  std::unordered_set<int32_t> pids;
  for (const ProcessReport& process : processes) {
    pids.insert(process.pid);
    totals.exposed_seconds += process.exposed_seconds;
    totals.hidden_seconds += process.hidden_seconds();
    totals.prefetch_operations += process.prefetch_operations;
    totals.engine_operations += process.engine_operations;
    totals.prefetched_bytes += process.prefetched_bytes;
    totals.prefetched_used_bytes += process.prefetched_used_bytes;
  }
  for (const FileReport& file : files) {
    if (file.degrade == Degrade::not_regular) continue;
    ++totals.files;
    for (size_t i = 0; i < kCallClasses; ++i) totals.call[i] += file.call[i];
  }
  totals.io_seconds = totals.exposed_seconds + totals.hidden_seconds;
  totals.images = processes.size();
  totals.processes = pids.size();
  return totals;
}

/// By exposed seconds, then by bytes moved, then by name, so that two runs list alike.
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
  std::sort(files_.begin(), files_.end(), more_exposed);
  report.totals = sum_up(processes_, files_);
  for (const ProcessReport& process : processes_) {
    if (report.engine.empty()) report.engine = process.engine;
  }
  report.processes = std::move(processes_);
  report.files = std::move(files_);
}

}  // namespace ioweave::stats
