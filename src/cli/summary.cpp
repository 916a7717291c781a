#include "cli/summary.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "cli/format.hpp"
#include "cli/why_text.hpp"
#include "config/mpiio_variables.hpp"
#include "config/names.hpp"

namespace ioweave::cli {
namespace {

using stats::CallClass;
using stats::Degrade;

constexpr size_t kWidth = 100;
constexpr size_t kPathColumns = 48;
constexpr double kLeastSeconds = 0.0005;  // less would show as 0.000 s
// In the order of config::kScheduleNames.
constexpr size_t kAuto = 0;
constexpr size_t kNormal = 1;
static_assert(config::kScheduleNames[kAuto] == "auto");
static_assert(config::kScheduleNames[kNormal] == "normal");

std::string headline(const stats::RunReport& report) {
  const stats::Outcome& outcome = report.outcome;
  std::string end = "exit " + std::to_string(outcome.exit_code);
  if (outcome.signal != 0) {
    const char* const name = sigabbrev_np(outcome.signal);
    end = std::string("killed by ") + (name != nullptr ? "SIG" : "signal ") +
          (name != nullptr ? std::string(name) : std::to_string(outcome.signal));
  }
  return "ioweave: " + shown_command(report.command, kWidth - 30) + "  (" + end + ")\n";
}

void line(std::string& text, std::string_view label, std::string_view figure,
          std::string_view remark) {
  std::string padded(label);
  padded.resize(std::max<size_t>(padded.size() + 1, 11), ' ');
  std::string value(figure);
  if (value.size() < 12) value.insert(0, 12 - value.size(), ' ');
  text += "  " + padded + value;
  if (!remark.empty()) text += "   " + std::string(remark);
  text += "\n";
}

/// Returns the share of the exposed time. If several threads wait at once, it exceeds the wall
/// time.
std::string share_of_wall(const stats::RunReport& report) {
  const double wall = report.outcome.wall_seconds;
  const double exposed = report.totals.exposed_seconds;
  if (wall <= 0 || exposed <= 0) return {};
  if (exposed > wall) return "summed over threads and processes";
  return percent_text(exposed / wall) + " of the wall time";
}

std::string bytes_moved(const stats::RunTotals& totals) {
  const uint64_t read = totals.call[static_cast<size_t>(CallClass::read)].bytes;
  const uint64_t written = totals.call[static_cast<size_t>(CallClass::write)].bytes;
  return "read " + bytes_text(read) + ", written " + bytes_text(written);
}

void add_wall(std::string& text, const stats::RunReport& report) {
  line(text, "wall", seconds_text(report.outcome.wall_seconds),
       "CPU " + seconds_text(report.outcome.user_seconds + report.outcome.system_seconds));
}

/// Names what was done.
std::string help_name(const stats::RunTotals& totals) {
  if (totals.early.cycles == 0) return "prefetching";
  return totals.prefetch_operations == 0 ? "early writeback" : "prefetching and early writeback";
}

/// Says in one line what prefetching and early writing saved or cost.
void add_hidden(std::string& text, const stats::RunReport& report) {
  const stats::RunTotals& totals = report.totals;
  if (!totals.was_helped() && report.mpiio.ahead_bytes > 0) {
    line(text, "hidden", "not known", "MPI-IO is not compared with and without reads ahead");
    return;
  }
  if (!totals.was_helped() && report.behind.calls > 0) {
    line(text, "hidden", "not known", "writes that were held back are not in this comparison");
    return;
  }
  if (!totals.was_helped()) {
    line(text, "hidden", seconds_text(0), "nothing was prefetched");
    return;
  }
  const std::string help = help_name(totals);
  if (!totals.hidden_is_known && report.replay.asked_bytes > 0) {
    line(text, "hidden", "not known", "what a plan brings in is not compared with doing without");
    return;
  }
  if (!totals.hidden_is_known) {
    const std::string moved = totals.early.cycles == 0          ? "read"
                              : totals.prefetch_operations == 0 ? "written"
                                                                : "read and written";
    line(text, "hidden", "not known",
         "too little was " + moved + " to compare with and without " + help);
    return;
  }
  const double without = report.outcome.wall_seconds + totals.hidden_seconds;
  const double share = without > 0 ? std::abs(totals.hidden_seconds) / without : 0;
  if (totals.hidden_seconds >= 0) {
    line(text, "hidden", seconds_text(totals.hidden_seconds),
         percent_text(totals.hidden_share()) + " of the I/O time, " + percent_text(share) +
             " of the time without " + help);
  } else {
    line(text, "cost", seconds_text(-totals.hidden_seconds),
         percent_text(share) + " of the time without " + help + ": it did not help here");
  }
}

/// Says what this comparison cost.
void add_trial(std::string& text, const stats::RunReport& report) {
  const double seconds = report.totals.trial_seconds;
  if (seconds < kLeastSeconds || report.outcome.wall_seconds <= 0) return;
  line(text, "comparing", seconds_text(seconds),
       percent_text(seconds / report.outcome.wall_seconds) +
           " of the wall time, lost to reads without prefetching");
}

void add_prefetch(std::string& text, const stats::RunTotals& totals) {
  if (totals.prefetched_bytes == 0) return;
  const double used = static_cast<double>(totals.prefetched_used_bytes) /
                      static_cast<double>(totals.prefetched_bytes);
  line(text, "prefetched", bytes_text(totals.prefetched_bytes),
       percent_text(used) + " of it read, in " + std::to_string(totals.prefetch_operations) +
           " operations");
}

void add_early_writeback(std::string& text, const stats::RunTotals& totals) {
  if (totals.early.bytes == 0) return;
  const double lost =
      static_cast<double>(totals.early.lost_bytes) / static_cast<double>(totals.early.bytes);
  line(text, "early", bytes_text(totals.early.bytes),
       "written before the program asked for it" +
           (lost > 0 ? "; " + percent_text(lost) + " for nothing: not synced, or written again"
                     : ""));
}

std::string count_text(uint64_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

/// Says how much of the run's reads is in the plan, and what is not.
void add_record(std::string& text, const stats::RecordReport& record) {
  if (record.plan.empty()) return;
  line(text, "recorded", bytes_text(record.bytes),
       count_text(record.reads, "read") + " of " + count_text(record.files, "file") + ", in " +
           shown_name(record.plan, kPathColumns));
  std::string unseen;
  if (record.unseen_bytes > 0) {
    unseen = "read by other ways (streams, static programs) of " +
             count_text(record.unseen_files, "file");
  }
  if (record.mapped_files > 0) {
    unseen += (unseen.empty() ? "" : "; ") + count_text(record.mapped_files, "file") + " mapped";
  }
  if (record.lost_reads > 0) {
    unseen += (unseen.empty() ? "" : "; ") + count_text(record.lost_reads, "read") + " lost";
  }
  if (!unseen.empty()) line(text, "not seen", bytes_text(record.unseen_bytes), unseen);
}

/// Says how much of the plan was of use.
void add_replay(std::string& text, const stats::ReplayReport& replay) {
  if (replay.plan.empty()) return;
  const double named = replay.seen_reads == 0 ? 0
                                              : static_cast<double>(replay.named_reads) /
                                                    static_cast<double>(replay.seen_reads);
  std::string remark = "asked for ahead; of " + count_text(replay.seen_reads, "read") + " " +
                       percent_text(named) + " in the plan of " + count_text(replay.reads, "read");
  if (replay.lost_reads > 0) remark += ", " + std::to_string(replay.lost_reads) + " lost";
  line(text, "replayed", bytes_text(replay.asked_bytes), remark);
}

/// Says what became of writes that were held back.
void add_behind(std::string& text, const stats::BehindReport& behind) {
  if (behind.calls == 0) return;
  std::string remark = count_text(behind.calls, "write") + " held back, " +
                       count_text(behind.writes, "write") + " made of them, waited " +
                       seconds_text(static_cast<double>(behind.waited_ns) * 1e-9);
  if (behind.rest_bytes > 0)
    remark += "; " + bytes_text(behind.rest_bytes) + " of killed processes";
  line(text, "behind", bytes_text(behind.bytes), remark);
}

/// Says what buffers in large pages brought.
void add_large_pages(std::string& text, const stats::LargePagesReport& report) {
  if (report.bytes == 0) return;
  line(text, "large pages", bytes_text(report.bytes),
       "of buffers, laid there in " + seconds_text(report.seconds) + ": " +
           large_pages_text(report));
}

/// "2", or "2 to 4".
std::string range_text(const std::string& least, const std::string& most) {
  return least == most ? least : least + " to " + most;
}

std::string gain_text(double gain) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", gain);
  return text;
}

/// Names the schedules of the ranks that read ahead.
std::string schedules_text(const stats::MpiioReport& mpiio) {
  std::string text;
  for (size_t i = 0; i < mpiio.schedules.size(); ++i) {
    const bool reads_ahead = i != kAuto && i != kNormal;
    if (mpiio.schedules[i] == 0 || !reads_ahead) continue;
    text.append(text.empty() ? "" : " and ").append(config::kScheduleNames[i]);
  }
  return text;
}

/// Says by which schedule the ranks read ahead, what decided that, and how often it was in time.
std::string ahead_text(const stats::MpiioReport& mpiio) {
  std::string text =
      "ahead by " + schedules_text(mpiio) + ", depth " +
      range_text(std::to_string(mpiio.least_depth), std::to_string(mpiio.most_depth));
  if (mpiio.most_gain_of_two > 0) {
    text += ", two at once " +
            range_text(gain_text(mpiio.least_gain_of_two), gain_text(mpiio.most_gain_of_two)) +
            " times as fast";
  } else if (mpiio.settled_ranks == 0) {
    text += ", two at once not measured";
  }
  const uint64_t awaited = mpiio.hit_reads + mpiio.late_reads;
  if (awaited == 0) return text;
  const double in_time = static_cast<double>(mpiio.hit_reads) / static_cast<double>(awaited);
  return text + "; " + percent_text(in_time) + " in time";
}

std::string explain_nothing_ahead(const stats::MpiioReport& mpiio) {
  if (!mpiio.why.empty()) return without_controls(mpiio.why.front());
  if (mpiio.schedules[kNormal] > 0) return "nothing is read ahead by schedule normal";
  if (mpiio.files > 0 || mpiio.left_alone.empty()) {
    return "nothing was read ahead: reads were quick, or in no order";
  }
  std::string text = "files were left alone:";
  for (const auto& [reason, count] : mpiio.left_alone) text += " " + without_controls(reason);
  return text;
}

/// Says what the ranks' library did.
void add_mpiio(std::string& text, const stats::MpiioReport& mpiio) {
  if (mpiio.reads > 0) {
    line(text, "MPI-IO", bytes_text(mpiio.ahead_bytes),
         mpiio.ahead_bytes > 0 ? ahead_text(mpiio) : explain_nothing_ahead(mpiio));
  }
  if (mpiio.behind_writes > 0) {
    line(text, "behind", bytes_text(mpiio.behind_bytes),
         "of MPI-IO written behind the program, in " + std::to_string(mpiio.behind_writes) +
             " writes");
  }
}

std::string engine_in_use(const stats::RunReport& report) {
  std::string text = "policy ";
  text += config::kRunPolicyNames[static_cast<size_t>(report.config.policy)];
  if (const uint32_t rules = report.config.rules; rules > 0) {
    text += ", " + std::to_string(rules) + (rules == 1 ? " rule" : " rules");
  }
  if (report.totals.engine_operations > 0) {
    text += ", " + std::to_string(report.totals.engine_operations) + " calls through it";
  }
  return text;
}

void add_figures(std::string& text, const stats::RunReport& report) {
  const stats::RunTotals& totals = report.totals;
  add_wall(text, report);
  line(text, "I/O time", seconds_text(totals.io_seconds), bytes_moved(totals));
  add_hidden(text, report);
  add_trial(text, report);
  line(text, "exposed", seconds_text(totals.exposed_seconds), share_of_wall(report));
  add_prefetch(text, totals);
  add_early_writeback(text, totals);
  add_record(text, report.record);
  add_replay(text, report.replay);
  add_behind(text, report.behind);
  add_large_pages(text, totals.large_pages);
  add_mpiio(text, report.mpiio);
  line(text, "engine",
       report.engine.empty() ? "none needed" : shown_name(report.engine, kPathColumns),
       engine_in_use(report));
  const uint64_t count = totals.processes;
  line(text, "processes", std::to_string(count),
       totals.images > count ? std::to_string(totals.images) + " images, by fork and exec" : "");
}

std::string name_of_file(const stats::FileReport& file) {
  return file.path.empty() ? "(all other files)" : shown_name(file.path, kPathColumns);
}

std::string degrade_text(const stats::FileReport& file) {
  return file.degrade == Degrade::none
             ? std::string{}
             : std::string(stats::kDegradeNames[static_cast<size_t>(file.degrade)]);
}

/// Says what is special about a file: a rule's policy, and why it is not accelerated.
std::string remark_on(const stats::FileReport& file, const stats::RunReport& report) {
  std::string text = degrade_text(file);
  if (file.policy == report.config.policy || file.degrade == Degrade::not_regular) return text;
  if (!text.empty()) text.insert(0, ", ");
  return "policy " + std::string(config::kRunPolicyNames[static_cast<size_t>(file.policy)]) + text;
}

/// Hides most small files: a program that reads one large file also reads dozens of small ones,
/// such as its own modules and locales.
bool is_worth_a_line(const stats::FileReport& file, bool small_too) {
  const uint64_t bytes = file.of(CallClass::read).bytes + file.of(CallClass::write).bytes;
  const uint64_t least_bytes = small_too ? 1 : 1u << 20;
  return file.degrade != Degrade::not_regular &&
         (bytes >= least_bytes || file.exposed_seconds() >= kLeastSeconds);
}

void add_files(std::string& text, const stats::RunReport& report, const Detail& detail) {
  Table table;
  table.row({"file", "read", "written", "exposed", ""});
  size_t rows = 0;
  for (const stats::FileReport& file : report.files) {
    if (!is_worth_a_line(file, detail.small_files)) continue;
    if (rows++ == detail.files) break;
    table.row({name_of_file(file), bytes_text(file.of(CallClass::read).bytes),
               bytes_text(file.of(CallClass::write).bytes), seconds_text(file.exposed_seconds()),
               remark_on(file, report)});
  }
  if (rows > 0) text += table.text();
}

void add_remarks(std::string& text, const stats::RunReport& report, size_t most) {
  for (size_t i = 0; i < std::min(most, report.remarks.size()); ++i) {
    text += "  " + wrapped(without_controls(report.remarks[i]), kWidth, 2) + "\n";
  }
}

}  // namespace

std::string summary_text(const stats::RunReport& report, const Detail& detail) {
  std::string text = headline(report);
  const bool saw_nothing = std::ranges::none_of(report.processes, &stats::ProcessReport::active);
  if (saw_nothing) {
    add_wall(text, report);
    if (report.totals.was_helped()) add_hidden(text, report);
    add_trial(text, report);
    add_prefetch(text, report.totals);
    add_early_writeback(text, report.totals);
    add_record(text, report.record);
    add_replay(text, report.replay);
    add_behind(text, report.behind);
    add_mpiio(text, report.mpiio);
  } else {
    add_figures(text, report);
    add_files(text, report, detail);
  }
  add_remarks(text, report, detail.remarks);
  return text;
}

std::string tasks_text(const stats::RunReport& report) {
  std::string text = headline(report);
  const stats::RunTotals& totals = report.totals;
  line(text, "wall", seconds_text(report.outcome.wall_seconds),
       "runtime " + shown_name(report.runtime, kPathColumns));
  line(text, "I/O time", seconds_text(totals.io_seconds), "while any I/O task ran");
  line(text, "hidden", seconds_text(totals.hidden_seconds),
       percent_text(totals.hidden_share()) + " of the I/O time");
  line(text, "exposed", seconds_text(totals.exposed_seconds), share_of_wall(report));
  Table table;
  table.row({"task", "calls", "failed", "bytes", "mean", "limit", ""});
  for (const stats::TaskReport& task : report.tasks) {
    const bool computes = task.device.empty();
    const double mean = task.calls > 0 ? task.seconds / static_cast<double>(task.calls) : 0;
    table.row({shown_name(task.name, kPathColumns), std::to_string(task.calls),
               task.failed > 0 ? std::to_string(task.failed) : "-", bytes_text(task.bytes),
               seconds_text(mean), task.limit > 0 ? std::to_string(task.limit) : "-",
               computes ? ""
                        : shown_name(task.policy, kPathColumns) + " on " +
                              shown_name(task.device, kPathColumns)});
  }
  return report.tasks.empty() ? text : text + table.text();
}

std::string stat_text(const stats::RunReport& report, const Detail& detail) {
  Table table;
  table.row({"file", "call", "calls", "bytes", "mean", "time", "MB/s", "errors", ""});
  size_t files = 0;
  for (const stats::FileReport& file : report.files) {
    if (files++ == detail.files) break;
    std::string name = name_of_file(file);
    std::string reason = degrade_text(file);
    for (size_t i = 0; i < stats::kCallClasses; ++i) {
      const stats::CallTotals& totals = file.call[i];
      if (totals.calls == 0) continue;
      table.row({std::exchange(name, ""), std::string(stats::kCallClassNames[i]),
                 std::to_string(totals.calls), bytes_text(totals.bytes),
                 bytes_text(totals.bytes / totals.calls), seconds_text(totals.seconds),
                 rate_text(totals.bytes, totals.seconds),
                 totals.errors > 0 ? std::to_string(totals.errors) : "-",
                 std::exchange(reason, "")});
    }
  }
  std::string text = headline(report);
  add_wall(text, report);
  line(text, "exposed", seconds_text(report.totals.exposed_seconds), share_of_wall(report));
  line(text, "processes", std::to_string(report.totals.processes), "");
  if (!report.files.empty()) text += table.text();
  if (report.files.size() > detail.files) {
    text += "  and " + std::to_string(report.files.size() - detail.files) + " more files (-v)\n";
  }
  add_remarks(text, report, detail.remarks);
  return text;
}

}  // namespace ioweave::cli
