// The reader of run_file.hpp. Fields reads every field, and its complaints name the line, the
// object and the key, because people edit run files by hand.

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "config/names.hpp"
#include "stats/run_file.hpp"

namespace ioweave::stats {
namespace {

using Json = nlohmann::json;

struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The fields of one object; throws Malformed, which never leaves this file.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) throw Malformed(where_ + " is not an object");
  }

  [[nodiscard]] const Json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) throw Malformed(where_ + ": '" + key + "' is missing");
    return *found;
  }
  [[nodiscard]] Fields object(const char* key) const { return {at(key), where_ + "." + key}; }
  [[nodiscard]] bool has(const char* key) const { return object_.contains(key); }

  [[nodiscard]] const Json& array(const char* key) const {
    const Json& value = at(key);
    if (!value.is_array()) wrong(key, "a list");
    return value;
  }
  [[nodiscard]] std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) wrong(key, "text");
    return value.get<std::string>();
  }
  [[nodiscard]] bool boolean(const char* key) const {
    const Json& value = at(key);
    if (!value.is_boolean()) wrong(key, "true or false");
    return value.get<bool>();
  }
  /// Seconds: finite and not negative.
  [[nodiscard]] double seconds(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number()) wrong(key, "a number");
    const auto number = value.get<double>();
    if (!std::isfinite(number) || number < 0) wrong(key, "a number of seconds, at least 0");
    return number;
  }
  [[nodiscard]] double number(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number() || !std::isfinite(value.get<double>())) wrong(key, "a number");
    return value.get<double>();
  }
  template <typename Integer = uint64_t>
  [[nodiscard]] Integer count(const char* key) const {
    const Json& value = at(key);
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<Integer>::max());
    if (!value.is_number_unsigned() || value.get<uint64_t>() > kMost) {
      wrong(key, "a whole number, at least 0");
    }
    return value.get<Integer>();
  }
  template <typename Enum, size_t N>
  [[nodiscard]] Enum choice(const char* key, const std::array<std::string_view, N>& names) const {
    const size_t index = config::index_of(names, text(key));
    if (index == N) wrong(key, "one of the names in docs/run-file.md");
    return static_cast<Enum>(index);
  }
  /// As above, for names to which a newer version may add.
  template <typename Enum, size_t N>
  [[nodiscard]] Enum choice(const char* key, const std::array<std::string_view, N>& names,
                            Enum otherwise) const {
    const size_t index = config::index_of(names, text(key));
    return index == N ? otherwise : static_cast<Enum>(index);
  }

 private:
  [[noreturn]] void wrong(const char* key, const char* expected) const {
    throw Malformed(where_ + ": '" + key + "' is not " + expected);
  }

  const Json& object_;
  std::string where_;
};

std::vector<std::string> texts(const Fields& fields, const char* key) {
  std::vector<std::string> values;
  for (const Json& value : fields.array(key)) {
    if (!value.is_string()) throw Malformed(std::string("'") + key + "' holds more than text");
    values.push_back(value.get<std::string>());
  }
  return values;
}

CallTable read_calls(const Fields& calls) {
  CallTable table;
  for (size_t i = 0; i < kCallClasses; ++i) {
    const std::string name(kCallClassNames[i]);
    if (!calls.has(name.c_str())) continue;
    const Fields entry = calls.object(name.c_str());
    table[i] = {entry.count("calls"), entry.count("bytes"), entry.count("errors"),
                entry.seconds("seconds")};
  }
  return table;
}

void read_rules(const Json& rules, config::RunConfig& config) {
  if (rules.size() > config::RunConfig::kMaxRules) throw Malformed("config: more than 64 rules");
  for (const Json& value : rules) {
    const Fields fields(value, "config.rules");
    config::FileRule& rule = config.rule[config.rules++];
    const std::string glob = fields.text("glob");
    if (glob.size() >= sizeof rule.glob) throw Malformed("config.rules: a glob is too long");
    std::memcpy(rule.glob, glob.c_str(), glob.size() + 1);
    rule.policy = fields.choice<config::RunPolicy>("policy", config::kRunPolicyNames);
  }
}

config::RunConfig read_config(const Fields& fields) {
  config::RunConfig config;
  config.policy = fields.choice<config::RunPolicy>("policy", config::kRunPolicyNames);
  config.engine = fields.choice<uint32_t>("engine", config::kEngineNames);
  config.engine_mode = fields.choice<uint32_t>("mode", config::kEngineModeNames);
  config.lookahead_bytes = fields.count("lookahead_bytes");
  config.max_lookahead_bytes = fields.count("max_lookahead_bytes");
  config.early_writeback =
      fields.has("early_writeback")
          ? fields.choice<config::EarlyWriteback>("early_writeback", config::kEarlyWritebackNames)
          : config::EarlyWriteback::never;
  const bool holds = fields.has("hold_direct_writes") && fields.boolean("hold_direct_writes");
  config.holds_direct_writes = holds ? 1 : 0;
  read_rules(fields.array("rules"), config);
  return config;
}

Machine read_machine(const Fields& fields) {
  Machine machine;
  machine.host = fields.text("host");
  machine.kernel = fields.text("kernel");
  machine.architecture = fields.text("architecture");
  machine.processor = fields.text("processor");
  machine.cpus = fields.count<uint32_t>("cpus");
  machine.cpus_allowed = fields.count<uint32_t>("cpus_allowed");
  machine.memory_bytes = fields.count("memory_bytes");
  return machine;
}

void read_run(const Fields& fields, RunReport& report) {
  const std::string schema = fields.text("schema");
  if (schema != kRunSchema && schema != kFirstRunSchema) {
    throw Malformed("schema '" + schema + "' is not '" + std::string(kRunSchema) + "'");
  }
  report.version = fields.text("version");
  report.started = fields.text("started");
  report.command = texts(fields, "command");
  report.directory = fields.text("directory");
  report.machine = read_machine(fields.object("machine"));
  for (const Json& value : fields.array("mounts")) {
    const Fields mount(value, "mounts");
    report.mounts.push_back({mount.text("path"), mount.text("type"), mount.text("source")});
  }
  report.config = read_config(fields.object("config"));
  if (fields.has("runtime")) report.runtime = fields.object("runtime").text("kind");
}

/// Reads a list of exactly `slots` numbers.
template <class Number>
std::vector<Number> read_slots(const Fields& fields, const char* key, size_t slots) {
  const Json& list = fields.array(key);
  if (list.size() != slots) {
    throw Malformed(std::string("series: '") + key + "' has not one value for each slot");
  }
  std::vector<Number> values;
  values.reserve(slots);
  for (const Json& value : list) {
    const bool is_good = std::is_integral_v<Number> ? value.is_number_unsigned()
                                                    : value.is_number() &&
                                                          std::isfinite(value.get<double>()) &&
                                                          value.get<double>() >= 0;
    if (!is_good) {
      throw Malformed(std::string("series: '") + key + "' has a value that is no " +
                      (std::is_integral_v<Number> ? "whole number" : "number of seconds") +
                      ", at least 0");
    }
    values.push_back(value.get<Number>());
  }
  return values;
}

std::vector<Series> read_series(const Fields& fields) {
  constexpr size_t kMostSlots = 4096;  // a series is bounded
  std::vector<Series> all;
  if (!fields.has("series")) return all;
  for (const Json& value : fields.array("series")) {
    const Fields entry(value, "series");
    Series series;
    series.pid = entry.count<int32_t>("pid");
    series.source = entry.choice("source", kSeriesSourceNames, Series::Source::calls);
    series.start_s = entry.seconds("start_s");
    series.slot_s = entry.seconds("slot_s");
    series.jumps = entry.count("jumps");
    const size_t slots = entry.count<size_t>("slots");
    if (slots > kMostSlots) throw Malformed("series: more than 4096 slots");
    series.resize(slots);
    if (entry.has("read")) {
      const Fields read = entry.object("read");
      series.read_calls = read_slots<uint64_t>(read, "calls", slots);
      series.read_bytes = read_slots<uint64_t>(read, "bytes", slots);
      series.read_seconds = read_slots<double>(read, "seconds", slots);
      series.read_turns = read_slots<uint64_t>(read, "turns", slots);
    }
    if (entry.has("write")) {
      const Fields write = entry.object("write");
      series.write_calls = read_slots<uint64_t>(write, "calls", slots);
      series.write_bytes = read_slots<uint64_t>(write, "bytes", slots);
      series.write_seconds = read_slots<double>(write, "seconds", slots);
      series.write_turns = read_slots<uint64_t>(write, "turns", slots);
    }
    if (entry.has("sync_s")) series.sync_seconds = read_slots<double>(entry, "sync_s", slots);
    all.push_back(std::move(series));
  }
  return all;
}

uint32_t read_size_class(const Fields& entry) {
  const auto size_class = entry.count<uint32_t>("size_class");
  if (size_class >= choice::kSizeClasses) throw Malformed("there is no such size_class");
  return size_class;
}

/// Reads what became of buffers in large pages, of a process or of the run.
LargePagesReport read_large_pages(const Fields& fields) {
  LargePagesReport report;
  if (!fields.has("large_pages")) return report;
  const Fields large = fields.object("large_pages");
  report.bytes = large.count("bytes");
  report.seconds = large.seconds("seconds");
  for (const Json& value : large.array("kinds")) {
    const Fields entry(value, "large_pages");
    LargePagesReport::OfKind kind;
    kind.operation = entry.choice<choice::Operation>("operation", choice::kOperationNames);
    kind.size_class = read_size_class(entry);
    kind.faster = entry.seconds("faster");
    kind.verdict = entry.choice<choice::LargePages::Verdict>("verdict", choice::kVerdictNames);
    report.kinds.push_back(kind);
  }
  return report;
}

ProcessReport read_process(const Fields& fields) {
  ProcessReport process;
  process.pid = fields.count<int32_t>("pid");
  process.parent_pid = fields.count<int32_t>("parent_pid");
  process.program = fields.text("program");
  process.active = fields.boolean("active");
  process.end = fields.choice<ProcessReport::End>("end", kProcessEndNames);
  process.seconds = fields.seconds("seconds");
  process.engine = fields.text("engine");
  process.why = fields.text("why");
  process.exposed_seconds = fields.seconds("exposed_s");
  process.engine_operations = fields.count("engine_operations");
  if (fields.has("engine_cost_s")) process.engine_cost_seconds = fields.number("engine_cost_s");
  if (fields.has("start_s")) process.start_seconds = fields.seconds("start_s");
  process.series = read_series(fields);
  process.large_pages = read_large_pages(fields);
  return process;
}

/// Reads what was written early, of a file or of the run. Older run files say nothing of it.
EarlyWrites read_early(const Fields& fields) {
  if (!fields.has("early_writeback")) return {};
  const Fields early = fields.object("early_writeback");
  return {early.count("cycles"), early.count("bytes"), early.count("lost_bytes")};
}

Paces read_paces(const Fields& fields) {
  return {fields.seconds("alone_mb_per_s"), fields.seconds("helped_mb_per_s")};
}

/// Reads why a file was read ahead or not. Older run files do not tell.
ReadHelpReport read_help(const Fields& prefetch) {
  if (!prefetch.has("why")) return {ReadHelp::unknown, 0, 0, {}};
  return {prefetch.choice("why", kReadHelpNames, ReadHelp::unknown), prefetch.count("read_bytes"),
          prefetch.count("since_bytes"), read_paces(prefetch)};
}

/// The same of writing it early.
EarlyHelpReport read_early_help(const Fields& fields) {
  if (!fields.has("early_writeback")) return {EarlyHelp::unknown, {}};
  const Fields early = fields.object("early_writeback");
  if (!early.has("why")) return {EarlyHelp::unknown, {}};
  return {early.choice("why", kEarlyHelpNames, EarlyHelp::unknown), read_paces(early)};
}

std::vector<ChoiceReport> read_choices(const Fields& fields) {
  std::vector<ChoiceReport> all;
  if (!fields.has("choices")) return all;
  for (const Json& value : fields.array("choices")) {
    const Fields entry(value, "choices");
    ChoiceReport choice;
    choice.pid = entry.count<int32_t>("pid");
    choice.operation = entry.choice<choice::Operation>("operation", choice::kOperationNames);
    choice.size_class = read_size_class(entry);
    choice.in_use = entry.choice<choice::Way>("way", choice::kWayNames);
    choice.first = entry.choice<choice::Way>("first", choice::kWayNames);
    choice.used_since_bytes = entry.count("used_since_bytes");
    if (entry.has("piece_bytes")) {  // older run files do not have it
      choice.pieces = {entry.count("piece_bytes"), entry.count<uint32_t>("pieces_at_once")};
    }
    const Fields ways = entry.object("ways");
    for (size_t i = 0; i < choice::kWays; ++i) {
      const std::string name(choice::kWayNames[i]);
      if (!ways.has(name.c_str())) continue;
      const Fields way = ways.object(name.c_str());
      choice.of[i] = {way.boolean("usable"),   way.count("calls"),     way.count("bytes"),
                      way.seconds("seconds"),  way.count("refused"),   way.count("examined"),
                      way.seconds("expected"), way.seconds("measured")};
    }
    all.push_back(choice);
  }
  return all;
}

FileReport read_file(const Fields& fields) {
  FileReport file;
  file.path = fields.text("path");
  file.file_system = fields.text("file_system");
  file.device = fields.count("device");
  file.inode = fields.count("inode");
  file.policy = fields.choice<config::RunPolicy>("policy", config::kRunPolicyNames);
  file.degrade = fields.choice("degrade", kDegradeNames, Degrade::other);
  file.processes = fields.count<uint32_t>("processes");
  file.opens = fields.count("opens");
  file.call = read_calls(fields.object("calls"));
  const Fields prefetch = fields.object("prefetch");
  file.prefetched_bytes = prefetch.count("bytes");
  file.prefetched_used_bytes = prefetch.count("used_bytes");
  if (prefetch.has("hidden_s")) file.hidden_seconds = prefetch.number("hidden_s");
  file.read_help = read_help(prefetch);
  file.early = read_early(fields);
  file.early_help = read_early_help(fields);
  file.series = read_series(fields);
  file.choices = read_choices(fields);
  return file;
}

TaskReport read_task(const Fields& fields) {
  TaskReport task;
  task.name = fields.text("name");
  if (fields.has("device")) task.device = fields.text("device");
  task.calls = fields.count("calls");
  task.failed = fields.count("failed");
  task.bytes = fields.count("bytes");
  task.seconds = fields.seconds("seconds");
  if (fields.has("explanation")) {
    const Fields explanation = fields.object("explanation");
    task.policy = explanation.text("policy");
    task.limit = explanation.count<uint32_t>("limit");
  }
  return task;
}

MpiioReport read_mpiio(const Fields& fields) {
  MpiioReport mpiio;
  mpiio.ranks = fields.count("ranks");
  mpiio.settled_ranks = fields.count("settled_ranks");
  const Fields schedules = fields.object("schedules");
  for (size_t i = 0; i < mpiio.schedules.size(); ++i) {
    const std::string name(config::kScheduleNames[i]);
    if (schedules.has(name.c_str())) mpiio.schedules[i] = schedules.count(name.c_str());
  }
  mpiio.least_depth = fields.count("least_depth");
  mpiio.most_depth = fields.count("most_depth");
  mpiio.least_gain_of_two = fields.number("least_gain_of_two");
  mpiio.most_gain_of_two = fields.number("most_gain_of_two");
  for (const MpiioCount& count : kMpiioCounts) mpiio.*count.value = fields.count(count.name);
  const Fields left_alone = fields.object("left_alone");
  for (const auto& [reason, count] : fields.at("left_alone").items()) {
    mpiio.left_alone[reason] = left_alone.count(reason.c_str());
  }
  mpiio.why = texts(fields, "why");
  return mpiio;
}

template <class Report, size_t N>
Report read_counts(const Fields& fields, const std::array<ReportCount<Report>, N>& counts) {
  Report report;
  if constexpr (requires { report.plan; }) report.plan = fields.text("plan");
  for (const ReportCount<Report>& count : counts) report.*count.value = fields.count(count.name);
  return report;
}

void read_summary(const Fields& fields, RunReport& report) {
  report.outcome.exit_code = fields.count<int>("exit_code");
  report.outcome.signal = fields.count<int>("signal");
  report.outcome.wall_seconds = fields.seconds("wall_s");
  report.outcome.user_seconds = fields.seconds("user_s");
  report.outcome.system_seconds = fields.seconds("system_s");
  report.outcome.storage_read_bytes = fields.count("storage_read_bytes");
  RunTotals& totals = report.totals;
  totals.io_seconds = fields.seconds("io_s");
  totals.hidden_seconds = fields.number("hidden_s");
  if (fields.has("hidden_known")) totals.hidden_is_known = fields.boolean("hidden_known");
  totals.exposed_seconds = fields.seconds("exposed_s");
  report.engine = fields.text("engine");
  totals.engine_operations = fields.count("engine_operations");
  if (fields.has("engine_cost_s")) totals.engine_cost_seconds = fields.number("engine_cost_s");
  totals.call = read_calls(fields.object("calls"));
  const Fields prefetch = fields.object("prefetch");
  totals.prefetch_operations = prefetch.count("operations");
  totals.prefetched_bytes = prefetch.count("bytes");
  totals.prefetched_used_bytes = prefetch.count("used_bytes");
  if (prefetch.has("trial_s")) totals.trial_seconds = prefetch.seconds("trial_s");
  totals.early = read_early(fields);
  totals.files = fields.count("files");
  totals.processes = fields.count("processes");
  totals.images = fields.count("images");
  report.remarks = texts(fields, "remarks");
  if (fields.has("mpiio")) report.mpiio = read_mpiio(fields.object("mpiio"));
  if (fields.has("record")) report.record = read_counts(fields.object("record"), kRecordCounts);
  if (fields.has("replay")) report.replay = read_counts(fields.object("replay"), kReplayCounts);
  totals.large_pages = read_large_pages(fields);
  if (fields.has("behind")) report.behind = read_counts(fields.object("behind"), kBehindCounts);
}

/// Takes the lines and checks their order: run first, summary last.
class Reader {
 public:
  explicit Reader(RunReport& report) : report_(report) {}

  void take(std::string_view line) {
    const Json object = Json::parse(line, nullptr, false);
    if (object.is_discarded()) throw Malformed("is not JSON");
    const std::string type = Fields(object, "line").text("type");
    const Fields fields(object, type);
    if (has_summary_) throw Malformed("'" + type + "' after the summary");
    if (!has_run_ && type != "run") throw Malformed("the first line is not of type 'run'");
    if (has_run_ && type == "run") throw Malformed("a second 'run'");
    if (type == "run") {
      read_run(fields, report_);
      has_run_ = true;
    } else if (type == "process") {
      report_.processes.push_back(read_process(fields));
    } else if (type == "file") {
      report_.files.push_back(read_file(fields));
    } else if (type == "task") {
      report_.tasks.push_back(read_task(fields));
    } else if (type == "summary") {
      read_summary(fields, report_);
      has_summary_ = true;
    }
  }

  void end() const {
    if (!has_run_) throw Malformed("the file is empty");
    if (!has_summary_) throw Malformed("the summary is missing: the file is cut off");
  }

 private:
  RunReport& report_;
  bool has_run_ = false;
  bool has_summary_ = false;
};

}  // namespace

bool parse_run_file(std::string_view text, RunReport& report, std::string& why) {
  report = RunReport{};
  Reader reader(report);
  size_t number = 0;
  try {
    while (!text.empty()) {
      ++number;
      const size_t end = std::min(text.find('\n'), text.size());
      if (end > 0) reader.take(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    reader.end();
  } catch (const Malformed& malformed) {
    why = "line " + std::to_string(number) + ": " + malformed.what();
    return false;
  }
  return true;
}

bool read_run_file(const std::string& path, RunReport& report, std::string& why) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             &std::fclose);
  if (!file) {
    why = path + ": " + std::strerror(errno);
    return false;
  }
  std::string text;
  std::string block(1u << 16, '\0');
  size_t got = 0;
  while ((got = std::fread(block.data(), 1, block.size(), file.get())) > 0) {
    text.append(block, 0, got);
  }
  if (std::ferror(file.get()) != 0) {
    why = path + ": " + std::strerror(errno);
    return false;
  }
  if (parse_run_file(text, report, why)) return true;
  why = path + ": " + why;
  return false;
}

}  // namespace ioweave::stats
