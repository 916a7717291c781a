#include "calls/mpiio/report.hpp"

#include <charconv>

#include "base/json_string.hpp"
#include "config/mpiio_variables.hpp"
#include "config/names.hpp"

namespace ioweave::calls {
namespace {

/// With three digits behind the point, whatever the program's locale is.
void append_ratio(std::string& line, double ratio) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, ratio, std::chars_format::fixed, 3);
  line.append(text, end.ec == std::errc{} ? end.ptr : text);
}

}  // namespace

std::string format_mpiio_report(int rank, const MpiioCounts& counts, const iow_plan_stats& stats,
                                std::string_view why) {
  std::string line = "{\"rank\":" + std::to_string(rank);
  const auto add = [&](std::string_view name, uint64_t value) {
    line.append(",\"").append(name).append("\":").append(std::to_string(value));
  };
  add("files", counts.files.load(std::memory_order_relaxed));
  add("reads", counts.reads.load(std::memory_order_relaxed));
  line.append(",\"schedule\":");
  append_json_string(line, config::name_at(config::kScheduleNames, stats.schedule));
  add("depth", stats.depth);
  add("is_settled", stats.is_settled);
  line.append(",\"gain_of_two\":");
  append_ratio(line, stats.gain_of_two);
  add("behind_writes", counts.behind_writes.load(std::memory_order_relaxed));
  add("behind_bytes", counts.behind_bytes.load(std::memory_order_relaxed));
  add("planned_reads", stats.planned_reads);
  add("planned_bytes", stats.planned_bytes);
  add("ahead_bytes", stats.ahead_bytes);
  add("hit_reads", stats.hit_reads);
  add("late_reads", stats.late_reads);
  add("unplanned_reads", stats.unplanned_reads);
  add("hit_bytes", stats.hit_bytes);
  add("own_bytes", stats.own_bytes);
  add("unread_bytes", stats.unread_bytes);
  add("stale_bytes", stats.stale_bytes);
  add("failed_slices", stats.failed_slices);
  add("cached_bytes", stats.cached_bytes);
  add("wait_ns", stats.wait_ns);
  line.append(",\"left_alone\":{");
  for (size_t i = 0; i < kLeftAloneNames.size(); ++i) {
    line.append(i != 0 ? ",\"" : "\"").append(kLeftAloneNames[i]).append("\":");
    line.append(std::to_string(counts.left_alone[i].load(std::memory_order_relaxed)));
  }
  line.append("},\"why\":");
  append_json_string(line, why);
  return line.append("}\n");
}

}  // namespace ioweave::calls
