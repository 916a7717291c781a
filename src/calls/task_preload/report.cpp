#include "calls/task_preload/report.hpp"

#include "base/json_string.hpp"

namespace ioweave::calls {

std::string format_report(const TaskReport& report) {
  std::string line = "{\"tasks\":";
  append_json_string(line, report.tasks);
  const auto add = [&](const char* name, uint64_t value) {
    line.append(",\"").append(name).append("\":").append(std::to_string(value));
  };
  add("pauses", report.stats.pauses);
  add("at_once", report.stats.at_once);
  add("made_plain", report.stats.made_plain);
  add("alone", report.stats.alone);
  add("most_paused", report.stats.most_paused);
  add("bound", report.stats.bound);
  line.append(",\"lacked_room\":").append(report.lacked_room() ? "true" : "false");
  line.append(",\"why\":");
  append_json_string(line, report.why);
  return line.append("}\n");
}

std::string describe_lack_of_room(const TaskReport& report) {
  if (!report.lacked_room()) {
    return {};
  }
  const uint64_t calls = report.stats.no_room;
  return "ioweave: " + std::to_string(calls) +
         (calls == 1 ? " call in a task was" : " calls in tasks were") +
         " made plain for want of room: more than " + std::to_string(report.stats.most_paused) +
         " tasks were to be paused at once; IOWEAVE_MAX_PAUSED=N raises that\n";
}

}  // namespace ioweave::calls
