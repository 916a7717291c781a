#include "cli/bench/bench_report.hpp"

#include <algorithm>

#include "cli/bench/studies.hpp"
#include "cli/format.hpp"
#include "cli/measure_report.hpp"
#include "config/settings.hpp"
#include "device/curve.hpp"
#include "engine/backends.hpp"

namespace ioweave::cli {
namespace {

using device::IoWay;
using device::Load;
using device::LoadResult;
using device::Profile;

constexpr size_t kWidth = 100;
constexpr double kNearPeak = 0.97;
constexpr double kWideSpread = 0.5;

std::vector<IoWay> measured_ways(const Profile& profile) {
  std::vector<IoWay> ways;
  for (const IoWay way : device::kIoWays) {
    if (std::ranges::any_of(profile.results,
                            [&](const LoadResult& result) { return result.load.way == way; })) {
      ways.push_back(way);
    }
  }
  return ways;
}

std::string table_of(const Profile& profile, const View& view) {
  const std::vector<IoWay> ways = measured_ways(profile);
  Table table;
  std::vector<std::string> head{view.axis};
  for (const IoWay way : ways) head.emplace_back(device::way_name(way));
  head.emplace_back("|");
  for (const IoWay way : ways) head.emplace_back(device::way_name(way));
  head.emplace_back();  // the last column would be aligned left
  table.row(head);
  for (size_t i = 0; i < view.rows.size(); ++i) {
    std::vector<std::string> rates;
    std::vector<std::string> times;
    for (const IoWay way : ways) {
      const LoadResult* const result = device::measured_of(profile, view.rows[i], way);
      rates.push_back(result == nullptr ? "-" : mb_text((result->*view.value)()));
      times.push_back(result == nullptr ? "-" : printed("%.3g", result->cpu_us_per_transfer()));
    }
    std::vector<std::string> row{view.names[i]};
    row.insert(row.end(), rates.begin(), rates.end());
    row.emplace_back("|");
    row.insert(row.end(), times.begin(), times.end());
    row.emplace_back();
    table.row(row);
  }
  return view.title + " | us of processor time per transfer\n" + table.text();
}

// ---- Findings -----------------------------------------------------------------------------------

/// What a way moves against psync where each transfer is waited for.
void find_gain_of_waiting(const Profile& profile, bool direct, IoWay way,
                          std::vector<std::string>& findings) {
  std::vector<double> ratios;
  for (const LoadResult& plain : profile.results) {
    if (plain.load.way != IoWay::psync || plain.load.direct != direct) continue;
    const LoadResult* const other = device::measured_of(profile, plain.load, way);
    if (other != nullptr && plain.mb_per_s() > 0) {
      ratios.push_back(other->mb_per_s() / plain.mb_per_s());
    }
  }
  if (ratios.empty()) return;
  std::ranges::sort(ratios);
  findings.push_back(std::string(direct ? "O_DIRECT" : "Through the page cache") +
                     ", one transfer at a time: " + std::string(device::way_name(way)) + " moves " +
                     printed("%.2f", device::median_of(ratios)) +
                     " times what psync does (median of " + std::to_string(ratios.size()) +
                     " loads, " + printed("%.2f", ratios.front()) + " to " +
                     printed("%.2f", ratios.back()) + ").");
}

bool is_row_of_depths(const Load& load, const Load& row) {
  return load.direct == row.direct && load.random == row.random &&
         load.read_percent == row.read_percent && load.block_bytes == row.block_bytes;
}

/// What several transfers at a time gain, for the random loads of one block.
void find_gain_of_depth(const Profile& profile, const Load& row,
                        std::vector<std::string>& findings) {
  const LoadResult* const plain = device::measured_of(profile, row, IoWay::psync);
  const LoadResult* best = nullptr;
  for (const LoadResult& result : profile.results) {
    if (!is_row_of_depths(result.load, row) || result.load.depth < 2) continue;
    if (best == nullptr || result.mb_per_s() > best->mb_per_s()) best = &result;
  }
  if (plain == nullptr || plain->mb_per_s() <= 0 || best == nullptr) return;
  unsigned enough = best->load.depth;
  for (const LoadResult& result : profile.results) {
    if (is_row_of_depths(result.load, row) && result.load.way == best->load.way &&
        result.mb_per_s() >= kNearPeak * best->mb_per_s()) {
      enough = std::min(enough, result.load.depth);
    }
  }
  Load shown = best->load;
  shown.depth = enough;
  findings.push_back(
      "By " + std::string(device::way_name(best->load.way)) + ", " + load_text(shown) + ": " +
      printed("%.2f", best->mb_per_s() / plain->mb_per_s()) + " times what psync moves.");
}

/// The block from which on a greater one gains little.
void find_best_block(const Profile& profile, bool direct, unsigned read_percent,
                     std::vector<std::string>& findings) {
  const LoadResult* best = nullptr;
  const LoadResult* enough = nullptr;
  const auto is_of_row = [&](const Load& load) {
    return load.way == IoWay::psync && load.direct == direct && !load.random && load.depth == 1 &&
           load.read_percent == read_percent;
  };
  for (const LoadResult& result : profile.results) {
    if (!is_of_row(result.load)) continue;
    if (best == nullptr || result.mb_per_s() > best->mb_per_s()) best = &result;
  }
  if (best == nullptr) return;
  unsigned blocks = 0;
  for (const LoadResult& result : profile.results) {
    if (!is_of_row(result.load)) continue;
    ++blocks;
    if (result.mb_per_s() < kNearPeak * best->mb_per_s()) continue;
    if (enough == nullptr || result.load.block_bytes < enough->load.block_bytes) enough = &result;
  }
  if (blocks < 3) return;
  findings.push_back("By psync, " + load_text(enough->load) + ": " + mb_text(enough->mb_per_s()) +
                     " MB/s; greater blocks gain less than 3 %.");
}

// ---- Remarks ------------------------------------------------------------------------------------

void remark_on_spread(const Profile& profile, std::vector<std::string>& remarks) {
  const LoadResult* widest = nullptr;
  size_t wide = 0;
  for (const LoadResult& result : profile.results) {
    if (result.spread() > kWideSpread) ++wide;
    if (widest == nullptr || result.spread() > widest->spread()) widest = &result;
  }
  if (wide == 0) return;
  remarks.push_back(
      "Samples of " + std::to_string(wide) + " of " + std::to_string(profile.results.size()) +
      " loads differ by more than half of their median, most with " +
      std::string(device::way_name(widest->load.way)) + ", " + load_text(widest->load) +
      ": quieten the machine, or raise --seconds or --repetitions.");
}

void remark_on_failures(const Profile& profile, std::vector<std::string>& remarks) {
  std::vector<std::string> told;
  for (const LoadResult& result : profile.results) {
    if (result.failure.empty()) continue;
    const std::string key = std::string(device::way_name(result.load.way)) + result.failure;
    if (std::ranges::find(told, key) != told.end()) continue;
    told.push_back(key);
    remarks.push_back("Failed: " + std::string(device::way_name(result.load.way)) + ", " +
                      load_text(result.load) + ": " + result.failure + ".");
  }
}

bool was_measured(const Profile& profile, IoWay way) {
  const std::vector<IoWay> ways = measured_ways(profile);
  return std::ranges::find(ways, way) != ways.end();
}

}  // namespace

std::vector<std::string> bench_findings(const Profile& profile) {
  std::vector<std::string> findings;
  for (const bool direct : {true, false}) {
    for (const IoWay way : {IoWay::uring, IoWay::sqpoll, IoWay::iopoll}) {
      find_gain_of_waiting(profile, direct, way, findings);
    }
    for (const unsigned share : {100u, 0u}) find_best_block(profile, direct, share, findings);
    for (const View& view : views_of(profile)) {
      if (view.study == Study::depth && view.direct == direct) {
        find_gain_of_depth(profile, view.rows.front(), findings);
      }
    }
  }
  return findings;
}

std::vector<std::string> bench_remarks(const Profile& profile) {
  std::vector<std::string> remarks;
  remarks.reserve(profile.unusable.size());
  for (const device::UnusableWay& each : profile.unusable) {
    remarks.push_back("Not measured: " + std::string(device::way_name(each.way)) +
                      (each.direct ? " with O_DIRECT: " : " through the page cache: ") + each.why +
                      ".");
  }
  remark_on_failures(profile, remarks);
  remark_on_place(profile.file_system, remarks);
  remark_on_spread(profile, remarks);
  if (was_measured(profile, IoWay::sqpoll) && profile.cpus < engine::kCoresForSqpoll) {
    remarks.push_back("io_uring+sqpoll: the kernel's thread that polls took one of " +
                      std::to_string(profile.cpus) + " processors from the program.");
  }
  if (was_measured(profile, IoWay::iopoll) && profile.by.starts_with("fio")) {
    remarks.emplace_back(
        "io_uring+iopoll was measured by our own engine, which cuts transfers to what the device "
        "takes at once where the kernel does not; those of fio may never end.");
  }
  const bool has_buffered = std::ranges::any_of(
      profile.results, [](const LoadResult& result) { return !result.load.direct; });
  if (has_buffered) {
    remarks.emplace_back(
        "Through the page cache, writes end in memory (nothing is synced within the time), and "
        "reads find it empty.");
  }
  remarks.emplace_back(
      "Caches below the kernel (a controller's, a server's, the host's of a virtual machine) "
      "cannot be emptied from here, and make reading look faster.");
  return remarks;
}

std::string bench_text(const Profile& profile) {
  std::string text = shown_name(profile.path, kWidth) + " (" + profile.file_system + " on " +
                     shown_name(profile.mount_path, kWidth) + "): a file of " +
                     config::size_text(profile.file_bytes) + ", samples of at most " +
                     printed("%g", profile.seconds) + " s, by " + profile.by + ", " + profile.date +
                     "\n";
  for (const View& view : views_of(profile)) text += table_of(profile, view);
  for (const std::string& finding : bench_findings(profile)) {
    text += "* " + wrapped(finding, kWidth, 2) + "\n";
  }
  for (const std::string& remark : bench_remarks(profile)) {
    text += "- " + wrapped(remark, kWidth, 2) + "\n";
  }
  return text;
}

}  // namespace ioweave::cli
