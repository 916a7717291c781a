// How it works: `run` and `stat` first split the words into their own options and the program. The
// CLI11 application says which options take a value. CLI11 then parses only the options, because
// its prefix_command() would take a misspelt option for the start of the program. Options that are
// settings become a Layer, driven by the table in settings.hpp.

#include "cli/command_line.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string_view>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "base/nearest_name.hpp"
#include "cli/bench/studies.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "device/curve.hpp"

namespace ioweave::cli {
namespace {

constexpr size_t kHelpColumn = 30;
constexpr size_t kHelpWidth = 66;

/// CLI11's help with a usage line of our own.
class HelpFormat : public CLI::Formatter {
 public:
  explicit HelpFormat(std::string usage) : usage_(std::move(usage)) {
    column_width(kHelpColumn);
    label("REQUIRED", "");
    label("TEXT", "");
  }
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: " + usage_ + "\n";
  }
  /// A value that must stand behind an equals sign is shown without a blank before it.
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = Formatter::make_option_opts(option);
    return text.starts_with(" [=") ? text.substr(1) : text;
  }

 private:
  std::string usage_;
};

std::string help_lines(std::string_view text) {
  return wrapped(text, kHelpWidth, 0);
}

std::unique_ptr<CLI::App> make_app(std::string_view about, std::string usage, std::string footer) {
  auto app = std::make_unique<CLI::App>(wrapped(about, 96, 0));
  app->formatter(std::make_shared<HelpFormat>(std::move(usage)));
  app->set_help_flag("-h,--help", "Print this help");
  app->footer(std::move(footer));
  return app;
}

int refuse(const std::string& command, const std::string& what) {
  complain(command + ": " + what + " (see 'ioweave " + command + " --help')");
  return kFailed;
}

std::string unknown_option(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const auto former =
      std::ranges::find(config::former_settings(), name, &config::FormerSetting::option);
  if (former != config::former_settings().end()) {
    return "unknown option '" + name + "': " + config::farewell(*former);
  }
  std::vector<std::string> known;
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& each : option->get_lnames()) known.push_back("--" + each);
  }
  const std::vector<std::string_view> views(known.begin(), known.end());
  const std::string_view nearest = nearest_name(name, views);
  std::string text = "unknown option '" + name + "'";
  if (!nearest.empty()) text += "; did you mean '" + std::string(nearest) + "'?";
  return text;
}

// ---- Options before a program -------------------------------------------------------------------

bool needs_value(const CLI::Option& option) {
  return option.get_items_expected_min() > 0;
}

/// Returns true if the last letter of "-qo" is an option whose value is the next word.
bool short_needs_next(const CLI::App& app, std::string_view word, bool& known) {
  for (size_t i = 1; i < word.size(); ++i) {
    const CLI::Option* const option = app.get_option_no_throw(std::string("-") + word[i]);
    known = option != nullptr;
    if (!known) return false;
    if (needs_value(*option)) return i + 1 == word.size();
  }
  return false;
}

bool needs_next(const CLI::App& app, const std::string& word, bool& known) {
  if (!word.starts_with("--")) return short_needs_next(app, word, known);
  const size_t equals = word.find('=');
  const CLI::Option* const option = app.get_option_no_throw(word.substr(0, equals));
  known = option != nullptr;
  return known && equals == std::string::npos && needs_value(*option);
}

/// Returns true if `next` is no value, but an option or "--": "-o -- true" means no file "--".
bool lacks_value(const CLI::App& app, const std::string& next) {
  bool is_option = false;
  if (next.size() > 1 && next[0] == '-' && next != "--") (void)needs_next(app, next, is_option);
  return is_option || next == "--";
}

/// Splits words into options and program. Returns the mistake in them, or an empty text.
std::string split_words(const CLI::App& app, Arguments words, std::vector<std::string>& options,
                        std::vector<std::string>& command) {
  size_t i = 0;
  for (; i < words.size(); ++i) {
    const std::string word = words[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (word.size() < 2 || word[0] != '-') break;
    bool known = false;
    const bool takes_next = needs_next(app, word, known);
    if (!known) return unknown_option(app, word);
    options.push_back(word);
    if (!takes_next || i + 1 == words.size()) continue;
    options.emplace_back(words[++i]);
    if (lacks_value(app, options.back())) {
      return "'" + word + "' needs a value, but '" + options.back() + "' is not one";
    }
  }
  for (; i < words.size(); ++i) command.emplace_back(words[i]);
  return {};
}

// ---- Parsing ------------------------------------------------------------------------------------

/// Lets CLI11 parse the words. Returns the exit code after help or an error, otherwise nothing.
std::optional<int> parse_with(CLI::App& app, const std::string& command,
                              std::vector<std::string> words) {
  std::ranges::reverse(words);  // CLI11 takes them from the back
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return 0;
  } catch (const CLI::ExtrasError&) {
    const std::string word = app.remaining(true).front();
    return refuse(command, word.starts_with("-") ? unknown_option(app, word)
                                                 : "'" + word + "' is one argument too many");
  } catch (const CLI::ParseError& error) {
    return refuse(command, error.what());
  }
  return std::nullopt;
}

std::vector<std::string> texts(Arguments words) {
  return {words.begin(), words.end()};
}

/// The options of `run` and `stat`, and their values.
struct RunParser {
  std::unique_ptr<CLI::App> app;
  std::array<std::string, config::kKeys> values;
  std::array<CLI::Option*, config::kKeys> options{};
  std::vector<std::string> rules;
  CLI::Option* json = nullptr;
  std::string json_file;
  CLI::Option* record = nullptr;
  CLI::Option* replay = nullptr;
  std::string record_file;
  std::string replay_file;
  bool keep = false;
  int verbose = 0;
};

std::string option_help(const config::Setting& setting) {
  std::string text(setting.meaning);
  if (!setting.otherwise.empty() && setting.type != config::Setting::Type::flag) {
    text += " Default: " + std::string(setting.otherwise) + ".";
  }
  return help_lines(text);
}

std::string value_label(const config::Setting& setting) {
  if (setting.type == config::Setting::Type::size) return "SIZE";
  if (setting.type == config::Setting::Type::text) return "FILE";
  std::string names;
  for (const std::string_view choice : setting.choices) {
    names += (names.empty() ? "" : "|") + std::string(choice);
  }
  return names;
}

void add_setting(RunParser& parser, const config::Setting& setting) {
  const auto index = static_cast<size_t>(setting.key);
  std::string names(setting.option);
  if (setting.key == config::Key::output) names = "-o," + names;
  if (setting.key == config::Key::quiet) names = "-q," + names;
  if (setting.type == config::Setting::Type::flag) {
    parser.options[index] = parser.app->add_flag(names)->description(option_help(setting));
    return;
  }
  parser.options[index] = parser.app->add_option(names, parser.values[index], option_help(setting))
                              ->type_name(value_label(setting))
                              ->take_last();
}

void add_plan_options(RunParser& parser) {
  parser.record = parser.app
                      ->add_option("--record", parser.record_file,
                                   help_lines("Write a plan of the reads that the program makes, "
                                              "for --replay."))
                      ->type_name("PLAN")
                      ->take_last();
  parser.replay = parser.app
                      ->add_option("--replay", parser.replay_file,
                                   help_lines("Bring the reads of a plan into the page cache ahead "
                                              "of the program. With --record as well, the reads "
                                              "are recorded anew."))
                      ->type_name("PLAN")
                      ->take_last();
}

/// Adds the options of `run`; with `observing`, only those that `stat` has, too.
void add_run_options(RunParser& parser, bool observing) {
  for (const config::Setting& setting : config::settings()) {
    const bool for_reports =
        setting.key == config::Key::output || setting.key == config::Key::quiet;
    if (for_reports || !observing) add_setting(parser, setting);
  }
  CLI::App& app = *parser.app;
  if (!observing) {
    app.add_option("--rule", parser.rules,
                   help_lines("The policy of files that match: * stays within a folder, ** "
                              "crosses folders. The first rule that matches wins. May be "
                              "repeated."))
        ->type_name("GLOB=POLICY")
        ->allow_extra_args(false)
        ->take_all();
    add_plan_options(parser);
  }
  parser.json = app.add_option("--json", parser.json_file,
                               help_lines("Print the report as JSON, on standard error instead of "
                                          "the text. --json=FILE writes it to a file and keeps the "
                                          "text."))
                    ->type_name("[=FILE]")
                    ->expected(0, 1);
  app.add_flag("-v,--verbose", parser.verbose, "List more files; -vv lists all");
  app.add_flag("--keep-run-dir", parser.keep, "Keep the run's directory, for debugging");
}

/// Returns the conflict between --engine and --mode, or an empty text. A variable or a file may
/// conflict as well: resolve() reports that.
std::string find_mode_conflict(const RunParser& parser) {
  const auto value = [&](config::Key key) {
    const auto index = static_cast<size_t>(key);
    const bool is_given = parser.options[index] != nullptr && parser.options[index]->count() > 0;
    return is_given ? parser.values[index] : std::string(config::setting(key).otherwise);
  };
  return value(config::Key::engine) == "uring" || value(config::Key::mode) == "plain"
             ? std::string{}
             : "mode '" + value(config::Key::mode) + "' belongs to engine 'uring': engine '" +
                   value(config::Key::engine) + "' has no modes";
}

/// Takes the settings of the command line. Returns the mistake in a value, or an empty text. In a
/// file a mistake is a warning, but here the user can correct it at once.
std::string take_settings(const RunParser& parser, config::Layer& layer) {
  layer.kind = config::LayerKind::command_line;
  for (const config::Setting& setting : config::settings()) {
    const auto index = static_cast<size_t>(setting.key);
    if (parser.options[index] == nullptr || parser.options[index]->count() == 0) continue;
    const bool is_flag = setting.type == config::Setting::Type::flag;
    const std::string value = is_flag ? "true" : parser.values[index];
    std::string why;
    if (!config::canonical(setting, value, why)) return why;
    layer.entries.push_back({std::string(setting.name),
                             value,
                             {config::LayerKind::command_line, std::string(setting.option)}});
  }
  if (std::string why = find_mode_conflict(parser); !why.empty()) return why;
  for (const std::string& text : parser.rules) {
    std::optional<config::RuleEntry> rule = config::split_rule(text);
    if (!rule) return "rule '" + text + "' is not of the form GLOB=policy";
    std::string why;
    if (!config::canonical(config::setting(config::Key::policy), rule->policy, why)) {
      return std::string("rule '").append(text).append("': ").append(why);
    }
    rule->origin = {config::LayerKind::command_line, "--rule"};
    layer.rules.push_back(std::move(*rule));
  }
  return {};
}

std::optional<int> parse_program(RunParser& parser, const std::string& name, Arguments words,
                                 RunOptions& options) {
  std::vector<std::string> own;
  std::string mistake = split_words(*parser.app, words, own, options.command);
  if (!mistake.empty()) return refuse(name, mistake);
  options.program_behind_json =
      !own.empty() && own.back() == "--json" && own.size() + options.command.size() == words.size();
  if (const auto code = parse_with(*parser.app, name, std::move(own))) return code;
  mistake = take_settings(parser, options.settings);
  if (!mistake.empty()) return refuse(name, mistake);
  if (options.command.empty()) return refuse(name, "no program was given");
  options.json = parser.json->count() > 0;
  options.json_file = parser.json_file == "-" ? "" : parser.json_file;
  const bool lacks_name =
      (parser.record != nullptr && parser.record->count() > 0 && parser.record_file.empty()) ||
      (parser.replay != nullptr && parser.replay->count() > 0 && parser.replay_file.empty());
  if (lacks_name) return refuse(name, "the name of the plan is empty");
  options.record_file = parser.record_file;
  options.replay_file = parser.replay_file;
  options.keep_run_directory = parser.keep;
  options.verbose = static_cast<unsigned>(parser.verbose);
  return std::nullopt;
}

constexpr const char* kRunExamples = R"(Examples:
  ioweave run -- ./simulate input.dat          hide its reads behind its computation
  ioweave run -o run.jsonl -- make -j8         keep the figures for later tools
  ioweave run --policy off -- ./simulate       only measure (see also: ioweave stat)
  ioweave run --rule '*.log=off' -- ./app      leave some files alone
  ioweave run --lookahead 256m -- ./scan /data/*.bin
  ioweave run --record app.plan -- ./app       write down its reads, in whatever order they come
  ioweave run --replay app.plan -- ./app       the next time, bring them in ahead of it

The exit code is that of the program; 128+N if signal N killed it; 125 if Ioweave failed; 126 if
the program cannot be executed; 127 if it does not exist. IOWEAVE_* variables and ioweave.toml may
hold settings, too: see 'ioweave config show'.)";

constexpr const char* kStatExamples = R"(Examples:
  ioweave stat -- ./simulate input.dat         calls, bytes and time per file
  ioweave stat -v -- make -j8                  more files
  ioweave stat --json=stat.json -- ./simulate  the text, and the same as JSON in a file)";

constexpr const char* kAdviseExamples = R"(Examples:
  ioweave advise -- ./simulate input.dat       observe one run and predict
  ioweave advise -o run.jsonl -- ./simulate    the same, and keep what was observed
  ioweave advise run.jsonl                     predict from a run file of `ioweave stat -o`
  ioweave advise --verify run.jsonl            run the advice; predicted beside measured
  ioweave advise --verify run.jsonl -- ./new   the same with the program as it was changed

Exit code: 0; 125 if nothing can be predicted; that of the program if it could not be started.)";

constexpr const char* kDoctorExamples = R"(Examples:
  ioweave doctor                               this machine and installation
  ioweave doctor /scratch                      also tries real I/O in that folder
  ioweave doctor ./simulate                    says whether this program can be observed

Exit code: 0 if all is well, 1 if something is degraded, 2 if something cannot be used at all.)";

constexpr const char* kConfigExamples = R"(Examples:
  ioweave config show                          every setting, its value and its origin
  ioweave config explain /scratch/run7.h5      the policy of this file, and the rule that gives it
  ioweave config list                          all settings, their variables and meanings)";

constexpr const char* kPathExamples = R"(Examples:
  LD_PRELOAD=$(ioweave path --preload)
  cmake -DCMAKE_PREFIX_PATH=$(ioweave path --cmake) ...
  PKG_CONFIG_PATH=$(ioweave path --pkgconfig) pkg-config --cflags --libs ioweave)";

constexpr const char* kMeasureExamples = R"(Examples:
  ioweave measure /scratch                     MB/s that 1, 2, 4, ... 64 streams write together
  ioweave measure --toml scratch /scratch >>ioweave.toml
  ioweave measure --streams 1-16,32 --seconds 5 --json=scratch.json /scratch
  ioweave measure --read --direct --size 256m /scratch

Nothing else should use the device meanwhile. The files have no names, and are gone when the
command ends in whatever way. Exit code: 0, or 125 if the device could not be measured.)";

constexpr const char* kBenchExamples = R"(Examples:
  ioweave bench /scratch                       all studies; some minutes
  ioweave bench --study depth --cache direct /scratch
  ioweave bench --json=scratch.json --pictures figures /scratch
  ioweave bench --from scratch.json            its tables again
  ioweave bench /data/input.h5                 only reads this file

Studies: share (of reads), block (its size), pattern (sequential, random), depth (transfers at
once). Each varies one thing. Lists: "4k,1m", or "4k-64m", each four times the one before it.
Nothing else should use the device meanwhile. In a folder, the file has no name, and is gone when
the command ends in whatever way. Exit code: 0, or 125 if nothing could be measured.)";

constexpr unsigned kMostStreams = 512;
constexpr unsigned kDefaultStreams = 64;
constexpr uint64_t kLeastFile = 64u << 10;
constexpr uint64_t kMostFile = uint64_t{1} << 40;

/// Takes the values of `measure`. Returns the mistake in them, or an empty text.
std::string take_measure(const std::string& streams, const std::string& size,
                         MeasureOptions& options) {
  std::string why;
  options.streams = streams.empty() ? device::doubling_to(kDefaultStreams)
                                    : device::parse_streams(streams, kMostStreams, why);
  if (options.streams.empty()) return why;
  const auto bytes = size.empty() ? options.bytes : config::parse_size(size);
  if (!bytes || *bytes < kLeastFile || *bytes > kMostFile || *bytes % 4096 != 0) {
    return "size '" + size + "' must be a multiple of 4k from 64k to 1t, such as 32m";
  }
  options.bytes = *bytes;
  if (std::isnan(options.seconds) || std::isnan(options.warm_up_s)) {
    return "--seconds and --warm-up must be numbers, not nan";  // CLI::Range accepts nan
  }
  if (options.toml && options.name.empty()) return "--toml needs the name of the device";
  if (options.toml && options.json && options.json_file.empty()) {
    return "--toml and --json would both replace the table; give --json=FILE";
  }
  return {};
}

/// The words, with "-" for a file that --json lacks: "--json /scratch" names the folder, since a
/// file must stand behind an equals sign.
std::vector<std::string> with_json_alone(Arguments arguments) {
  std::vector<std::string> words = texts(arguments);
  std::ranges::replace(words, std::string("--json"), std::string("--json=-"));
  return words;
}

constexpr const char* kReportExamples = R"(Examples:
  ioweave report run.jsonl                     the summary of `ioweave run -o run.jsonl`
  ioweave report run.jsonl --why out.bin       what was done about one of its files, and why
  ioweave report tasks.jsonl                   that of Runtime(run_file="tasks.jsonl") in Python
  python -m ioweave.pictures tasks.jsonl       pictures of the latter)";

}  // namespace

std::optional<int> parse_run(Arguments arguments, RunOptions& options) {
  RunParser parser;
  parser.app = make_app("Runs an unmodified program and weaves its I/O through its computation.",
                        "ioweave run [OPTIONS] [--] PROGRAM [ARGUMENT...]", kRunExamples);
  add_run_options(parser, false);
  return parse_program(parser, "run", arguments, options);
}

std::optional<int> parse_stat(Arguments arguments, RunOptions& options) {
  RunParser parser;
  parser.app = make_app("Runs a program unchanged and reports its I/O.",
                        "ioweave stat [OPTIONS] [--] PROGRAM [ARGUMENT...]", kStatExamples);
  add_run_options(parser, true);
  return parse_program(parser, "stat", arguments, options);
}

std::optional<int> parse_advise(Arguments arguments, AdviseOptions& options) {
  RunParser parser;
  parser.app = make_app(
      "Observes one run of an unchanged program and predicts how long it would take if its I/O "
      "overlapped its computation: by prefetching, by writing behind, by both.",
      "ioweave advise [OPTIONS] RUN-FILE | -- PROGRAM [ARGUMENT...]", kAdviseExamples);
  add_run_options(parser, true);
  bool no_probe = false;
  parser.app->add_flag("--verify", options.verify,
                       help_lines("Run the advice, with cold input, and print predicted beside "
                                  "measured"));
  parser.app
      ->add_option("--svg", options.picture,
                   help_lines("Write a picture of the time over the number of buffers"))
      ->type_name("FILE");
  parser.app->add_flag("--no-probe", no_probe,
                       help_lines("Do not read from the program's input to learn how fast its "
                                  "device is"));
  // One word alone, or before "--", is a run file.
  const auto* const dashes = std::ranges::find_if(arguments, [](const char* word) {
                               return word == std::string("--");
                             }).base();
  const auto before = static_cast<size_t>(dashes - arguments.data());
  std::vector<std::string> own;
  std::vector<std::string> words;
  std::string mistake = split_words(*parser.app, arguments.first(before), own, words);
  if (!mistake.empty()) return refuse("advise", mistake);
  if (const auto code = parse_with(*parser.app, "advise", std::move(own))) return code;
  mistake = take_settings(parser, options.run.settings);
  if (!mistake.empty()) return refuse("advise", mistake);
  std::vector<std::string> program;
  if (before < arguments.size()) {
    const Arguments rest = arguments.subspan(before + 1);
    program.assign(rest.begin(), rest.end());
  }
  if (words.size() > 1) return refuse("advise", "put '--' before the program");
  if (words.empty() && program.empty()) return refuse("advise", "no run file or program was given");
  if (words.empty()) {
    options.run.command = std::move(program);
  } else {
    options.run_file = words.front();
    options.changed = std::move(program);
    if (!options.changed.empty()) options.verify = true;
  }
  options.probe = !no_probe;
  options.run.json = parser.json->count() > 0;
  options.run.json_file = parser.json_file == "-" ? "" : parser.json_file;
  options.run.keep_run_directory = parser.keep;
  return std::nullopt;
}

std::optional<int> parse_doctor(Arguments arguments, DoctorOptions& options) {
  const auto app = make_app("Checks what Ioweave can use here, what is missing and who can fix it.",
                            "ioweave doctor [OPTIONS] [PATH]", kDoctorExamples);
  app->add_option("PATH", options.path,
                  help_lines("A folder or data file to try real I/O in, or a program to examine"));
  app->add_flag("--json", options.json, "Print the findings as JSON");
  return parse_with(*app, "doctor", texts(arguments));
}

std::optional<int> parse_report(Arguments arguments, ReportOptions& options) {
  const auto app = make_app("Prints the summary of a run file.", "ioweave report [OPTIONS] FILE",
                            kReportExamples);
  app->add_option("FILE", options.run_file, "A run file")->required();
  app->add_flag("-v,--verbose", options.verbose, "List all files");
  app->add_option("--why", options.why,
                  help_lines("Say which way the calls on this file of the run went, and why"))
      ->type_name("FILE");
  return parse_with(*app, "report", texts(arguments));
}

std::optional<int> parse_config(Arguments arguments, ConfigOptions& options) {
  const auto app = make_app("Shows which settings are in force and where they come from.",
                            "ioweave config show|explain|list [OPTIONS] [PATH]", kConfigExamples);
  constexpr std::array<std::string_view, 3> kActions{"show", "explain", "list"};
  std::string action;
  app->add_option("ACTION", action, "show, explain or list")->required();
  app->add_option("PATH", options.path, "The file to explain, with explain");
  app->add_flag("--json", options.json, "Print JSON, with show and explain");
  if (const auto code = parse_with(*app, "config", texts(arguments))) return code;
  const auto found = std::ranges::find(kActions, action);
  if (found == kActions.end()) {
    const std::string_view nearest = nearest_name(action, kActions);
    return refuse("config",
                  "unknown action '" + action + "'" +
                      (nearest.empty() ? "; there are show, explain and list"
                                       : "; did you mean '" + std::string(nearest) + "'?"));
  }
  options.action = static_cast<ConfigOptions::Action>(found - kActions.begin());
  const bool explains = options.action == ConfigOptions::Action::explain;
  if (explains && options.path.empty()) return refuse("config", "explain needs a path");
  if (!explains && !options.path.empty()) return refuse("config", action + " takes no path");
  if (options.json && options.action == ConfigOptions::Action::list) {
    return refuse("config", "list has no JSON form; 'ioweave config show --json' has the values");
  }
  return std::nullopt;
}

std::optional<int> parse_path(Arguments arguments, PathOptions& options) {
  const auto app = make_app("Prints the paths of parts of this installation.",
                            "ioweave path --preload|--cmake|--pkgconfig", kPathExamples);
  app->add_flag("--preload", options.preload, "The interposer, libioweave_preload.so");
  app->add_flag("--cmake", options.cmake, "The folder of ioweave-config.cmake");
  app->add_flag("--pkgconfig", options.pkgconfig, "The folder of ioweave.pc");
  if (const auto code = parse_with(*app, "path", texts(arguments))) return code;
  if (!options.preload && !options.cmake && !options.pkgconfig) {
    return refuse("path", "needs --preload, --cmake or --pkgconfig");
  }
  return std::nullopt;
}

std::optional<int> parse_measure(Arguments arguments, MeasureOptions& options) {
  const auto app = make_app(
      "Measures how many MB/s a device moves with 1, 2, 4, ... streams at once, and which number "
      "of streams is best. A stream writes a file and calls fsync, like a task that writes a "
      "checkpoint.",
      "ioweave measure [OPTIONS] FOLDER", kMeasureExamples);
  std::string streams;
  std::string size;
  app->add_option("FOLDER", options.folder, "A folder on the device")->required();
  app->add_option("--streams", streams,
                  help_lines("The numbers of streams at once, such as 1,2,8 or 1-16. Default: "
                             "1,2,4 and so on to 64."))
      ->type_name("LIST");
  app->add_option("--seconds", options.seconds,
                  help_lines("The duration of each sample. Default: 1."))
      ->type_name("S")
      ->check(CLI::Range(0.05, 3600.0).description(""));
  app->add_option("--repetitions", options.repetitions,
                  help_lines("Samples of each number of streams, in random order. Default: 5."))
      ->type_name("N")
      ->check(CLI::Range(1, 1000).description(""));
  app->add_option("--size", size, help_lines("The size of each stream's file. Default: 32m."))
      ->type_name("SIZE");
  app->add_option("--warm-up", options.warm_up_s,
                  help_lines("Write for at least so many seconds before the samples; longer if the "
                             "device starts fast, with a cache or saved-up credit. Default: 3."))
      ->type_name("S")
      ->check(CLI::Range(0.0, 86400.0).description(""));
  app->add_flag("--direct", options.direct, "Use O_DIRECT, 1 MiB at a time, not the page cache");
  app->add_flag("--read", options.read, "Measure reading, too");
  const auto* const toml =
      app->add_option("--toml", options.name,
                      help_lines("Print a [[device]] of that name for ioweave.toml. The table goes "
                                 "to standard error."))
          ->type_name("NAME");
  const auto* const json =
      app->add_option("--json", options.json_file,
                      help_lines("Print the report with all samples as JSON instead of the table. "
                                 "--json=FILE writes it to a file and keeps the table."))
          ->type_name("[=FILE]")
          ->expected(0, 1);
  if (const auto code = parse_with(*app, "measure", with_json_alone(arguments))) return code;
  options.toml = toml->count() > 0;
  options.json = json->count() > 0;
  if (options.json_file == "-") options.json_file.clear();
  if (const std::string mistake = take_measure(streams, size, options); !mistake.empty()) {
    return refuse("measure", mistake);
  }
  return std::nullopt;
}

namespace {

/// The options of `bench` that say what is measured.
void add_bench_lists(CLI::App& app, BenchWords& words, BenchOptions& options) {
  const auto add = [&app](const char* name, std::string& text, const char* help,
                          const char* type = "LIST") {
    app.add_option(name, text, help_lines(help))->type_name(type);
  };
  add("--study", words.studies, "Of share, block, pattern, depth. Default: all.");
  app.add_flag("--all", options.all,
               help_lines("Every combination of the lists below instead of studies; hours"));
  add("--way", words.ways,
      "Of psync, io_uring, io_uring+sqpoll, io_uring+iopoll. Default: all that work here.");
  add("--cache", words.cache, "Of direct (O_DIRECT), buffered. Default: both.");
  add("--pattern", words.patterns, "Of sequential, random. Default: both.");
  add("--read-share", words.read_percents, "Per cent of reads. Default: 0,25,50,75,100.");
  add("--blocks", words.blocks, "Default: 4k-64m.");
  add("--depth", words.depths, "Transfers at once. Default: 1-64.");
  add("--block", words.block, "The block of the studies that do not vary it. Default: 256k.",
      "SIZE");
  add("--size", words.size, "The size of the file. Default: 1g.", "SIZE");
}

/// The options of `bench` that say how, and where to.
void add_bench_outputs(CLI::App& app, BenchOptions& options) {
  app.add_option("--seconds", options.seconds,
                 help_lines("Most time of a sample; it also ends when the whole file has been "
                            "transferred. Default: 0.5."))
      ->type_name("S")
      ->check(CLI::Range(0.01, 3600.0).description(""));
  app.add_option("--repetitions", options.repetitions,
                 help_lines("Samples of each load, in random order. Default: 3."))
      ->type_name("N")
      ->check(CLI::Range(1, 1000).description(""));
  app.add_option("--with", options.with,
                 help_lines("What makes the transfers: fio or ioweave. Default: fio where it is "
                            "installed."))
      ->type_name("PROGRAM")
      ->check(CLI::IsMember({"fio", "ioweave"}).description(""));
  app.add_option("--from", options.from,
                 help_lines("Show what an earlier --json=FILE holds, and measure nothing"))
      ->type_name("FILE");
  app.add_option("--pictures", options.pictures,
                 help_lines("Write a picture (SVG) of each study into this folder"))
      ->type_name("FOLDER");
}

std::string check_bench(const BenchOptions& options) {
  if (std::isnan(options.seconds)) return "--seconds must be a number, not nan";
  if (options.path.empty() && options.from.empty()) {
    return "needs a folder on the device, or --from a file of --json";
  }
  if (!options.path.empty() && !options.from.empty()) {
    return "--from measures nothing; leave out '" + shown_name(options.path, 80) + "'";
  }
  return {};
}

}  // namespace

std::optional<int> parse_bench(Arguments arguments, BenchOptions& options) {
  const auto app = make_app(
      "Measures what the ways of doing I/O move on a device: pread and pwrite (psync), io_uring, "
      "and io_uring with a thread that polls for submissions (sqpoll) or with polled completions "
      "(iopoll).",
      "ioweave bench [OPTIONS] FOLDER | FILE", kBenchExamples);
  BenchWords words;
  app->add_option("FOLDER", options.path, "A folder on the device, or a file that is only read");
  add_bench_lists(*app, words, options);
  add_bench_outputs(*app, options);
  const auto* const json =
      app->add_option("--json", options.json_file,
                      help_lines("Print the profile of the device, with all samples, as JSON "
                                 "instead of the tables. --json=FILE writes it to a file and keeps "
                                 "the tables."))
          ->type_name("[=FILE]")
          ->expected(0, 1);
  if (const auto code = parse_with(*app, "bench", with_json_alone(arguments))) return code;
  options.json = json->count() > 0;
  if (options.json_file == "-") options.json_file.clear();
  std::string mistake = check_bench(options);
  if (mistake.empty()) mistake = take_studies(words, options);
  if (!mistake.empty()) return refuse("bench", mistake);
  return std::nullopt;
}

}  // namespace ioweave::cli
