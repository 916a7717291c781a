#include "stats/run_file.hpp"

#include <algorithm>
#include <cstring>

#include <nlohmann/json.hpp>

#include "config/mpiio_variables.hpp"
#include "config/names.hpp"

namespace ioweave::stats {
namespace {

using Json = nlohmann::ordered_json;

template <typename Enum, size_t N>
std::string_view name_of(const std::array<std::string_view, N>& names, Enum value) {
  return config::name_at(names, static_cast<size_t>(value));
}

std::string text_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json calls_json(const CallTable& table) {
  Json calls = Json::object();
  for (size_t i = 0; i < kCallClasses; ++i) {
    const CallTotals& totals = table[i];
    if (totals.calls == 0) continue;
    calls[std::string(kCallClassNames[i])] = {{"calls", totals.calls},
                                              {"bytes", totals.bytes},
                                              {"errors", totals.errors},
                                              {"seconds", totals.seconds}};
  }
  return calls;
}

Json config_json(const config::RunConfig& config) {
  Json rules = Json::array();
  for (uint32_t i = 0; i < config.rules; ++i) {
    const config::FileRule& rule = config.rule[i];
    rules.push_back({{"glob", std::string(rule.glob, strnlen(rule.glob, sizeof rule.glob))},
                     {"policy", name_of(config::kRunPolicyNames, rule.policy)}});
  }
  return {{"policy", name_of(config::kRunPolicyNames, config.policy)},
          {"engine", config::name_at(config::kEngineNames, config.engine)},
          {"mode", config::name_at(config::kEngineModeNames, config.engine_mode)},
          {"lookahead_bytes", config.lookahead_bytes},
          {"max_lookahead_bytes", config.max_lookahead_bytes},
          {"early_writeback", name_of(config::kEarlyWritebackNames, config.early_writeback)},
          {"hold_direct_writes", config.holds_direct_writes != 0},
          {"rules", std::move(rules)}};
}

Json machine_json(const Machine& machine) {
  return {{"host", machine.host},
          {"kernel", machine.kernel},
          {"architecture", machine.architecture},
          {"processor", machine.processor},
          {"cpus", machine.cpus},
          {"cpus_allowed", machine.cpus_allowed},
          {"memory_bytes", machine.memory_bytes}};
}

Json run_json(const RunReport& report) {
  Json mounts = Json::array();
  for (const device::Mount& mount : report.mounts) {
    mounts.push_back({{"path", mount.path}, {"type", mount.type}, {"source", mount.source}});
  }
  return {{"type", "run"},
          {"schema", kRunSchema},
          {"version", report.version},
          {"started", report.started},
          {"command", report.command},
          {"directory", report.directory},
          {"machine", machine_json(report.machine)},
          {"mounts", std::move(mounts)},
          {"config", config_json(report.config)}};
}

bool has_any(const std::vector<uint64_t>& calls) {
  return std::ranges::any_of(calls, [](uint64_t count) { return count > 0; });
}

Json transfers_json(const std::vector<uint64_t>& calls, const std::vector<uint64_t>& bytes,
                    const std::vector<double>& seconds, const std::vector<uint64_t>& turns) {
  return {{"calls", calls}, {"bytes", bytes}, {"seconds", seconds}, {"turns", turns}};
}

Json series_json(const std::vector<Series>& list) {
  Json all = Json::array();
  for (const Series& series : list) {
    Json entry{{"pid", series.pid},         {"source", name_of(kSeriesSourceNames, series.source)},
               {"start_s", series.start_s}, {"slot_s", series.slot_s},
               {"slots", series.slots()},   {"jumps", series.jumps}};
    if (has_any(series.read_calls)) {
      entry["read"] = transfers_json(series.read_calls, series.read_bytes, series.read_seconds,
                                     series.read_turns);
    }
    if (has_any(series.write_calls)) {
      entry["write"] = transfers_json(series.write_calls, series.write_bytes, series.write_seconds,
                                      series.write_turns);
    }
    const bool syncs =
        std::ranges::any_of(series.sync_seconds, [](double seconds) { return seconds > 0; });
    if (syncs) entry["sync_s"] = series.sync_seconds;
    all.push_back(std::move(entry));
  }
  return all;
}

Json large_pages_json(const LargePagesReport& report) {
  Json kinds = Json::array();
  for (const LargePagesReport::OfKind& kind : report.kinds) {
    kinds.push_back({{"operation", name_of(choice::kOperationNames, kind.operation)},
                     {"size_class", kind.size_class},
                     {"faster", kind.faster},
                     {"verdict", name_of(choice::kVerdictNames, kind.verdict)}});
  }
  return {{"bytes", report.bytes}, {"seconds", report.seconds}, {"kinds", std::move(kinds)}};
}

Json process_json(const ProcessReport& process) {
  Json object = {{"type", "process"},
                 {"pid", process.pid},
                 {"parent_pid", process.parent_pid},
                 {"program", process.program},
                 {"active", process.active},
                 {"end", name_of(kProcessEndNames, process.end)},
                 {"seconds", process.seconds},
                 {"engine", process.engine},
                 {"why", process.why},
                 {"exposed_s", process.exposed_seconds},
                 {"engine_operations", process.engine_operations},
                 {"engine_cost_s", process.engine_cost_seconds},
                 {"start_s", process.start_seconds}};
  if (!process.series.empty()) object["series"] = series_json(process.series);
  if (!process.large_pages.is_empty()) {
    object["large_pages"] = large_pages_json(process.large_pages);
  }
  return object;
}

Json early_json(const EarlyWrites& early) {
  return {{"cycles", early.cycles}, {"bytes", early.bytes}, {"lost_bytes", early.lost_bytes}};
}

void add_paces(Json& object, const Paces& paces) {
  object["alone_mb_per_s"] = paces.alone_mb_per_s;
  object["helped_mb_per_s"] = paces.helped_mb_per_s;
}

Json prefetch_json(const FileReport& file) {
  Json object = {{"bytes", file.prefetched_bytes},
                 {"used_bytes", file.prefetched_used_bytes},
                 {"hidden_s", file.hidden_seconds}};
  const ReadHelpReport& help = file.read_help;
  if (help.why == ReadHelp::unknown) return object;
  object["why"] = name_of(kReadHelpNames, help.why);
  object["read_bytes"] = help.read_bytes;
  object["since_bytes"] = help.since_bytes;
  add_paces(object, help.paces);
  return object;
}

Json early_json(const FileReport& file) {
  Json object = early_json(file.early);
  if (file.early_help.why == EarlyHelp::unknown) return object;
  object["why"] = name_of(kEarlyHelpNames, file.early_help.why);
  add_paces(object, file.early_help.paces);
  return object;
}

Json choices_json(const std::vector<ChoiceReport>& list) {
  Json all = Json::array();
  for (const ChoiceReport& choice : list) {
    Json ways = Json::object();
    for (size_t i = 0; i < choice::kWays; ++i) {
      const ChoiceReport::OfWay& way = choice.of[i];
      if (!way.is_usable && way.calls == 0 && way.refused == 0) continue;
      ways[std::string(choice::kWayNames[i])] = {
          {"usable", way.is_usable},  {"calls", way.calls},      {"bytes", way.bytes},
          {"seconds", way.seconds},   {"refused", way.refused},  {"examined", way.examined},
          {"expected", way.expected}, {"measured", way.measured}};
    }
    all.push_back({{"pid", choice.pid},
                   {"operation", name_of(choice::kOperationNames, choice.operation)},
                   {"size_class", choice.size_class},
                   {"way", name_of(choice::kWayNames, choice.in_use)},
                   {"first", name_of(choice::kWayNames, choice.first)},
                   {"used_since_bytes", choice.used_since_bytes},
                   {"piece_bytes", choice.pieces.bytes},
                   {"pieces_at_once", choice.pieces.at_once},
                   {"ways", std::move(ways)}});
  }
  return all;
}

Json file_json(const FileReport& file) {
  Json object = {{"type", "file"},
                 {"path", file.path},
                 {"file_system", file.file_system},
                 {"device", file.device},
                 {"inode", file.inode},
                 {"policy", name_of(config::kRunPolicyNames, file.policy)},
                 {"degrade", name_of(kDegradeNames, file.degrade)},
                 {"processes", file.processes},
                 {"opens", file.opens},
                 {"exposed_s", file.exposed_seconds()},
                 {"calls", calls_json(file.call)},
                 {"prefetch", prefetch_json(file)},
                 {"early_writeback", early_json(file)}};
  if (!file.series.empty()) object["series"] = series_json(file.series);
  if (!file.choices.empty()) object["choices"] = choices_json(file.choices);
  return object;
}

Json mpiio_json(const MpiioReport& mpiio) {
  Json schedules = Json::object();
  for (size_t i = 0; i < mpiio.schedules.size(); ++i) {
    if (mpiio.schedules[i] > 0) {
      schedules[std::string(config::kScheduleNames[i])] = mpiio.schedules[i];
    }
  }
  Json object = {{"ranks", mpiio.ranks},
                 {"settled_ranks", mpiio.settled_ranks},
                 {"schedules", std::move(schedules)},
                 {"least_depth", mpiio.least_depth},
                 {"most_depth", mpiio.most_depth},
                 {"least_gain_of_two", mpiio.least_gain_of_two},
                 {"most_gain_of_two", mpiio.most_gain_of_two}};
  for (const MpiioCount& count : kMpiioCounts) object[count.name] = mpiio.*count.value;
  object["left_alone"] = mpiio.left_alone;
  object["why"] = mpiio.why;
  return object;
}

/// The plan's file, and the numbers.
template <class Report, size_t N>
Json counts_json(const Report& report, const std::array<ReportCount<Report>, N>& counts) {
  Json object = Json::object();
  if constexpr (requires { report.plan; }) object["plan"] = report.plan;
  for (const ReportCount<Report>& count : counts) object[count.name] = report.*count.value;
  return object;
}

Json summary_json(const RunReport& report) {
  const RunTotals& totals = report.totals;
  Json object = {{"type", "summary"},
                 {"exit_code", report.outcome.exit_code},
                 {"signal", report.outcome.signal},
                 {"wall_s", report.outcome.wall_seconds},
                 {"user_s", report.outcome.user_seconds},
                 {"system_s", report.outcome.system_seconds},
                 {"storage_read_bytes", report.outcome.storage_read_bytes},
                 {"io_s", totals.io_seconds},
                 {"hidden_s", totals.hidden_seconds},
                 {"hidden_share", totals.hidden_share()},
                 {"hidden_known", totals.hidden_is_known},
                 {"exposed_s", totals.exposed_seconds},
                 {"engine", report.engine},
                 {"engine_operations", totals.engine_operations},
                 {"engine_cost_s", totals.engine_cost_seconds},
                 {"calls", calls_json(totals.call)},
                 {"prefetch",
                  {{"operations", totals.prefetch_operations},
                   {"bytes", totals.prefetched_bytes},
                   {"used_bytes", totals.prefetched_used_bytes},
                   {"trial_s", totals.trial_seconds}}},
                 {"early_writeback", early_json(totals.early)},
                 {"files", totals.files},
                 {"processes", totals.processes},
                 {"images", totals.images},
                 {"remarks", report.remarks}};
  if (report.mpiio.ranks > 0) object["mpiio"] = mpiio_json(report.mpiio);
  if (!report.record.plan.empty()) object["record"] = counts_json(report.record, kRecordCounts);
  if (!report.replay.plan.empty()) object["replay"] = counts_json(report.replay, kReplayCounts);
  if (!totals.large_pages.is_empty()) {
    object["large_pages"] = large_pages_json(totals.large_pages);
  }
  if (report.behind.calls > 0) object["behind"] = counts_json(report.behind, kBehindCounts);
  return object;
}

}  // namespace

std::string run_file_text(const RunReport& report) {
  std::string text = text_of(run_json(report));
  for (const ProcessReport& process : report.processes) text += text_of(process_json(process));
  for (const FileReport& file : report.files) text += text_of(file_json(file));
  return text + text_of(summary_json(report));
}

std::string report_json(const RunReport& report) {
  Json files = Json::array();
  for (const FileReport& file : report.files) files.push_back(file_json(file));
  return text_of({{"type", "report"},
                  {"schema", kRunSchema},
                  {"summary", summary_json(report)},
                  {"run", run_json(report)},
                  {"files", std::move(files)}});
}

}  // namespace ioweave::stats
