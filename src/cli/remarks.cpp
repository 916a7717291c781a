#include "cli/remarks.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "cli/format.hpp"

namespace ioweave::cli {
namespace {

using config::RunPolicy;
using stats::CallClass;
using stats::Degrade;

constexpr double kLittleIo = 0.01;    ///< I/O below this share of the wall time hardly matters
constexpr double kWorthCost = 0.02;   ///< a policy's cost from this share of the wall time is named
constexpr double kGoodGuesses = 0.5;  ///< the share of prefetched bytes that should be used
constexpr size_t kMostComplaints = 3;  ///< different ones, of all processes

bool saw_any(const stats::RunReport& report) {
  return std::ranges::any_of(report.processes, &stats::ProcessReport::active);
}

/// Says why there are no figures at all, or none of the program itself.
std::string explain_unseen(const stats::RunReport& report, const Program& program) {
  const bool seen = saw_any(report);
  if (program.followable == Followable::unknown && seen) return {};
  if (program.followable != Followable::yes) {
    return explanation(program) +
           (seen ? ". Only programs that it started were observed." : ". Nothing was observed.") +
           (report.totals.prefetch_operations > 0 ? " Its reads in order were prefetched." : "");
  }
  if (seen) return {};
  for (const stats::ProcessReport& process : report.processes) {
    if (!process.why.empty()) return "Nothing was observed: " + process.why;
  }
  return "Nothing was observed: no process loaded the interposer. `ioweave doctor " +
         shown_command({program.path}, 60) + "` says why.";
}

/// Returns the policy of the files on which the program spent most of its reading time.
RunPolicy main_policy(const stats::RunReport& report) {
  std::array<double, config::kRunPolicyNames.size()> seconds{};
  for (const stats::FileReport& file : report.files) {
    if (file.degrade == Degrade::not_regular) continue;
    seconds[static_cast<size_t>(file.policy)] += file.of(CallClass::read).seconds;
  }
  const auto most = std::ranges::max_element(seconds);
  return *most > 0 ? static_cast<RunPolicy>(most - seconds.begin()) : report.config.policy;
}

/// Returns the degrade reason of most of the reading time, on files that could be prefetched.
Degrade main_reason(const stats::RunReport& report) {
  std::array<double, stats::kDegradeNames.size()> seconds{};
  for (const stats::FileReport& file : report.files) {
    if (file.degrade == Degrade::not_regular || !config::overlaps(file.policy)) continue;
    seconds[static_cast<size_t>(file.degrade)] += file.of(CallClass::read).seconds;
  }
  return static_cast<Degrade>(std::ranges::max_element(seconds) - seconds.begin());
}

/// Says that the settings kept files from being prefetched.
std::string explain_setting(RunPolicy policy, const stats::RunReport& report) {
  const std::string name(config::kRunPolicyNames[static_cast<size_t>(policy)]);
  const std::string who = policy == report.config.policy
                              ? "which have policy '" + name + "' as no rule says otherwise"
                              : "to which a rule gives policy '" + name + "'";
  return "Nothing was prefetched: most reading was from files " + who +
         ". `ioweave config explain FILE` names the rule.";
}

std::string explain_no_prefetching(const stats::RunReport& report) {
  const RunPolicy policy = main_policy(report);
  if (!config::overlaps(policy)) return explain_setting(policy, report);
  switch (const Degrade reason = main_reason(report)) {
    case Degrade::none:
      return "Nothing was prefetched: the next reads were in the page cache already, followed no "
             "pattern, or were too small for looking ahead to help.";
    case Degrade::no_gain:
      return "Reads came from the page cache already, so there was no waiting to hide.";
    case Degrade::memory_file:
      return "The files are in memory (tmpfs or the like), so there was no waiting to hide.";
    case Degrade::random_access:
      return "Reads followed no predictable pattern, so nothing was prefetched.";
    case Degrade::read_ahead:
      return "Reads were small and waited little, so they were left to the kernel's read-ahead.";
    default:
      return "Nothing was prefetched: most reading was from files that are left alone (" +
             std::string(stats::kDegradeNames[static_cast<size_t>(reason)]) + ").";
  }
}

/// Of a program that reads nothing.
std::string judge_writing(const stats::RunReport& report) {
  const stats::RunTotals& totals = report.totals;
  if (totals.early.bytes != 0 || report.behind.calls != 0) return {};
  if (totals.call[static_cast<size_t>(CallClass::sync)].calls == 0) {
    return "The program only wrote, and synced nothing: it did not wait for the device.";
  }
  if (report.config.early_writeback == config::EarlyWriteback::never) {
    return "The program only wrote, and the setting early_writeback is 'never'.";
  }
  return "The program only wrote. Files are written early once it has synced one of 8 MiB or more "
         "in the same folder; with --early-writeback always, each from its beginning.";
}

std::string judge_prefetching(const stats::RunReport& report) {
  const stats::RunTotals& totals = report.totals;
  const auto& reads = totals.call[static_cast<size_t>(CallClass::read)];
  if (reads.calls == 0) return judge_writing(report);
  if (totals.prefetched_bytes == 0) {
    // What became of reads by MPI-IO has a line of its own.
    return report.mpiio.reads > 0 ? std::string{} : explain_no_prefetching(report);
  }
  const double used = static_cast<double>(totals.prefetched_used_bytes) /
                      static_cast<double>(totals.prefetched_bytes);
  if (used >= kGoodGuesses) return {};
  return "Only " + percent_text(used) +
         " of the prefetched bytes were read: --lookahead may be too large for this program.";
}

bool saw_reads_or_writes(const stats::RunTotals& totals) {
  return totals.call[static_cast<size_t>(CallClass::read)].calls > 0 ||
         totals.call[static_cast<size_t>(CallClass::write)].calls > 0;
}

/// Explains a run in which no read or write was seen, which does not mean that there was no I/O.
std::string explain_no_calls(const stats::RunReport& report) {
  constexpr uint64_t kWorthMentioning = 1u << 20;
  if (report.totals.call[static_cast<size_t>(CallClass::other)].bytes > 0) {
    return "Only copy_file_range, sendfile or the like moved data, and Ioweave leaves these calls "
           "alone.";
  }
  constexpr const char* kUncounted =
      "reads inside the C library (fopen, fread), redirected standard input and memory maps are "
      "not counted";
  if (report.totals.prefetch_operations > 0) {
    return std::string("No read or write call was counted: ") + kUncounted +
           ". Files that were read in order were prefetched nevertheless.";
  }
  const uint64_t from_disk = report.outcome.storage_read_bytes;
  if (from_disk >= kWorthMentioning) {
    return "No read or write call was counted, yet " + bytes_text(from_disk) +
           " came from local disks: " + kUncounted + ".";
  }
  return std::string("No read or write call was counted: ") + kUncounted + ".";
}

/// Says what the policy could do about the I/O that was seen.
std::string judge_gain(const stats::RunReport& report) {
  if (!saw_reads_or_writes(report.totals)) return explain_no_calls(report);
  const bool may_overlap = config::overlaps(report.config.policy) ||
                           std::ranges::any_of(report.files, [](const stats::FileReport& file) {
                             return config::overlaps(file.policy);
                           });
  return may_overlap ? judge_prefetching(report) : std::string{};
}

/// Says what a policy that the user chose has cost.
std::string judge_engine_cost(const stats::RunReport& report) {
  const double cost = report.totals.engine_cost_seconds;
  const double wall = report.outcome.wall_seconds;
  if (wall <= 0 || cost < kWorthCost * wall) return {};
  return "The engine cost about " + seconds_text(cost) +
         ": calls through it took longer than plain calls made between them. Policy 'auto' "
         "leaves all calls unchanged.";
}

std::string judge_little_io(const stats::RunReport& report) {
  const double share =
      report.outcome.wall_seconds > 0 ? report.totals.io_seconds / report.outcome.wall_seconds : 0;
  if (!saw_reads_or_writes(report.totals) || share >= kLittleIo) return {};
  return "I/O is " + percent_text(share) + " of the wall time, and hiding it saves at most that.";
}

/// Adds the downgrades and errors that processes report, each text once.
void add_complaints(const stats::RunReport& report, std::vector<std::string>& remarks) {
  size_t added = 0;
  for (const stats::ProcessReport& process : report.processes) {
    const std::string& why = process.why;
    const auto says_it = [&](const std::string& remark) {
      return remark.find(why) != std::string::npos;
    };
    if (why.empty() || std::ranges::any_of(remarks, says_it)) continue;
    if (added++ == kMostComplaints) return;
    std::string remark = process.program.substr(process.program.rfind('/') + 1);
    remarks.push_back(std::move(remark.append(": ").append(why)));
  }
}

std::string count_still_running(const stats::RunReport& report) {
  const auto running = std::ranges::count(report.processes, stats::ProcessReport::End::running,
                                          &stats::ProcessReport::end);
  if (running == 0) return {};
  return std::to_string(running) + (running == 1 ? " process is" : " processes are") +
         " still running: the figures count only what happened until now.";
}

}  // namespace

std::vector<std::string> remarks_on(const stats::RunReport& report, const Program& program) {
  std::vector<std::string> remarks;
  const auto add = [&](std::string remark) {
    if (!remark.empty()) remarks.push_back(std::move(remark));
  };
  add(explain_unseen(report, program));
  if (saw_any(report)) {
    add(judge_gain(report));
    add(judge_engine_cost(report));
    add(judge_little_io(report));
  }
  add_complaints(report, remarks);
  add(count_still_running(report));
  return remarks;
}

}  // namespace ioweave::cli
