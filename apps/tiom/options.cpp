#include "options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <span>

#include "base/nearest_name.hpp"

namespace tiom {
namespace {

constexpr uint64_t kMaxBlock = uint64_t{1} << 30;
constexpr uint64_t kSector = 512;  // no O_DIRECT transfer is finer anywhere

/// A word with its meaning, of an option that takes one of a few.
template <typename Value>
struct Choice {
  std::string_view word;
  Value value;
};

constexpr std::array<Choice<Mode>, 4> kModes{
    {{"mix", Mode::mix}, {"1to1", Mode::one_to_one}, {"fjio", Mode::fjio}, {"fjc", Mode::fjc}}};
constexpr std::array<Choice<Variant>, 3> kVariants{{{"standalone", Variant::standalone},
                                                    {"blocking", Variant::blocking},
                                                    {"nonblocking", Variant::nonblocking}}};
constexpr std::array<Choice<Pattern>, 2> kPatterns{
    {{"sequential", Pattern::sequential}, {"random", Pattern::random}}};
constexpr std::array<Choice<RuntimeKind>, 5> kRuntimes{{{"threads", RuntimeKind::threads},
                                                        {"openmp", RuntimeKind::openmp},
                                                        {"tbb", RuntimeKind::tbb},
                                                        {"alpi", RuntimeKind::alpi},
                                                        {"coroutine", RuntimeKind::coroutine}}};
constexpr std::array<Choice<bool>, 2> kOps{{{"read", false}, {"write", true}}};
constexpr std::array<Choice<bool>, 2> kReapers{{{"thread", false}, {"task", true}}};
constexpr std::array<Choice<bool>, 2> kOnOff{{{"on", true}, {"off", false}}};

template <typename Value, size_t N>
Value choose(std::string_view option, std::string_view text,
             const std::array<Choice<Value>, N>& choices) {
  std::string known;
  for (const Choice<Value>& choice : choices) {
    if (choice.word == text) return choice.value;
    known += (known.empty() ? "" : ", ") + std::string(choice.word);
  }
  throw UsageError(std::string(option) + " takes one of " + known + ", not '" + std::string(text) +
                   "'");
}

/// A list of choices, each once, in the order of the table.
template <typename Value, size_t N>
std::vector<Value> choose_list(std::string_view option, std::string_view text,
                               const std::array<Choice<Value>, N>& choices) {
  std::vector<Value> values;
  for (const std::string_view word : split_list(text)) {
    values.push_back(choose(option, word, choices));
  }
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
  return values;
}

unsigned parse_count(std::string_view option, std::string_view text, unsigned most) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > most) {
    throw UsageError(std::string(option) + " takes a whole number from 1 to " +
                     std::to_string(most) + ", not '" + std::string(text) + "'");
  }
  return value;
}

uint64_t parse_bytes(std::string_view option, std::string_view text) {
  const std::optional<uint64_t> bytes = parse_size(text);
  if (!bytes || *bytes == 0) {
    throw UsageError(std::string(option) + " takes a size such as 256m or 20g, not '" +
                     std::string(text) + "'");
  }
  return *bytes;
}

uint64_t parse_limit(std::string_view option, std::string_view text) {
  const std::optional<uint64_t> limit = parse_duration(text);
  if (!limit || *limit == 0) {
    throw UsageError(std::string(option) + " takes a time such as 500ms or 60s, not '" +
                     std::string(text) + "'");
  }
  return *limit;
}

std::string take_path(std::string_view option, std::string_view text) {
  if (text.empty()) throw UsageError(std::string(option) + " needs the name of a file");
  return std::string(text);
}

using Text = std::string_view;

struct OptionEntry {
  std::string_view name;
  std::string_view letter;  ///< "-b", or empty
  bool takes_value;
  void (*apply)(Options&, Text name, Text value);
};

constexpr auto kOptions = std::to_array<OptionEntry>({
    {"--help", "-h", false, [](Options& o, Text, Text) { o.help = true; }},
    {"--list", "", false, [](Options& o, Text, Text) { o.list = true; }},
    {"--advise", "", false, [](Options& o, Text, Text) { o.advise = true; }},
    {"--mode", "-m", true, [](Options& o, Text n, Text v) { o.modes = choose_list(n, v, kModes); }},
    {"--block", "-b", true, [](Options& o, Text n, Text v) { o.blocks = parse_sizes(n, v); }},
    {"--compute", "-c", true,
     [](Options& o, Text n, Text v) { o.computes = parse_durations(n, v); }},
    {"--series", "-s", true,
     [](Options& o, Text n, Text v) { o.series = parse_count(n, v, 65536); }},
    {"--op", "", true, [](Options& o, Text n, Text v) { o.write = choose(n, v, kOps); }},
    {"--pattern", "", true,
     [](Options& o, Text n, Text v) { o.pattern = choose(n, v, kPatterns); }},
    {"--direct", "", true, [](Options& o, Text n, Text v) { o.direct = choose(n, v, kOnOff); }},
    {"--bytes", "", true, [](Options& o, Text n, Text v) { o.bytes = parse_bytes(n, v); }},
    {"--time-limit", "", true,
     [](Options& o, Text n, Text v) { o.time_limit_ns = parse_limit(n, v); }},
    {"--repetitions", "-r", true,
     [](Options& o, Text n, Text v) { o.repetitions = parse_count(n, v, 1000); }},
    {"--threads", "-t", true,
     [](Options& o, Text n, Text v) { o.threads = parse_count(n, v, 1024); }},
    {"--runtime", "", true,
     [](Options& o, Text n, Text v) { o.runtime = choose(n, v, kRuntimes); }},
    {"--variant", "", true,
     [](Options& o, Text n, Text v) { o.variants = choose_list(n, v, kVariants); }},
    {"--alpi-library", "", true,
     [](Options& o, Text n, Text v) { o.alpi_library = take_path(n, v); }},
    {"--reaper", "", true,
     [](Options& o, Text n, Text v) { o.reap_in_task = choose(n, v, kReapers); }},
    {"--file", "-f", true, [](Options& o, Text n, Text v) { o.file = take_path(n, v); }},
    {"--overwrite", "", false, [](Options& o, Text, Text) { o.overwrite = true; }},
    {"--json", "", true, [](Options& o, Text n, Text v) { o.json = take_path(n, v); }},
    {"--html", "", true, [](Options& o, Text n, Text v) { o.html = take_path(n, v); }},
    {"--png", "", true, [](Options& o, Text n, Text v) { o.png = take_path(n, v); }},
    {"--resume", "", true, [](Options& o, Text n, Text v) { o.resume = take_path(n, v); }},
});

const OptionEntry& find_option(std::string_view word) {
  const auto* const found = std::ranges::find_if(kOptions, [&](const OptionEntry& entry) {
    return entry.name == word || (!entry.letter.empty() && entry.letter == word);
  });
  if (found != kOptions.end()) return *found;
  std::array<std::string_view, kOptions.size()> names;
  std::ranges::transform(kOptions, names.begin(), &OptionEntry::name);
  const std::string_view nearest = ioweave::nearest_name(word, names);
  throw UsageError("unknown option '" + std::string(word) + "'" +
                   (nearest.empty() ? "" : "; did you mean '" + std::string(nearest) + "'?"));
}

/// Consumes one option, with its value: "--name value", "--name=value" or "-n value".
size_t take_option(std::span<const std::string> words, Options& options) {
  const std::string_view word = words[0];
  if (!word.starts_with('-') || word == "-") {
    throw UsageError("'" + std::string(word) + "' is not an option; every value has one before it");
  }
  const size_t equals = word.starts_with("--") ? word.find('=') : std::string_view::npos;
  const OptionEntry& entry = find_option(word.substr(0, equals));
  const std::string name(entry.name);
  if (!entry.takes_value) {
    if (equals != std::string_view::npos) throw UsageError(name + " takes no value");
    entry.apply(options, entry.name, {});
    return 1;
  }
  if (equals != std::string_view::npos) {
    entry.apply(options, entry.name, word.substr(equals + 1));
    return 1;
  }
  if (words.size() < 2) throw UsageError(name + " needs a value");
  entry.apply(options, entry.name, words[1]);
  return 2;
}

void check_blocks(const Options& options) {
  for (const uint64_t block : options.blocks) {
    if (block == 0 || block > kMaxBlock) {
      throw UsageError("--block takes sizes from 1 to 1g, not " + size_text(block));
    }
    if (options.direct && block % kSector != 0) {
      throw UsageError("--block " + size_text(block) +
                       " is no multiple of 512, which O_DIRECT asks for; give another, or "
                       "--direct off");
    }
    if (block > options.bytes) {
      throw UsageError("--block " + size_text(block) + " is above --bytes " +
                       size_text(options.bytes) + ", the bytes of a whole run; raise --bytes");
    }
  }
}

void check_together(const Options& options) {
  check_blocks(options);
  if (!options.alpi_library.empty() && options.runtime != RuntimeKind::alpi) {
    throw UsageError("--alpi-library needs --runtime alpi");
  }
  if (options.reap_in_task && options.runtime != RuntimeKind::alpi) {
    throw UsageError("--reaper task needs --runtime alpi: the others run no task that polls");
  }
  if (options.overwrite && options.file.empty()) {
    throw UsageError("--overwrite needs --file: it allows writing to a file with data");
  }
  if (options.advise && !(options.png.empty() && options.html.empty() && options.resume.empty())) {
    throw UsageError(
        "--advise runs no sweep: it writes text or --json, and takes none of --html, "
        "--png and --resume");
  }
  if (options.advise && (options.list)) {
    throw UsageError("give one of --advise and --list");
  }
}

}  // namespace

std::string_view pattern_name(Pattern pattern) {
  return pattern == Pattern::random ? "random" : "sequential";
}

std::string_view runtime_name(RuntimeKind kind) {
  return std::ranges::find(kRuntimes, kind, &Choice<RuntimeKind>::value)->word;
}

std::vector<Cell> Options::cells() const {
  std::vector<Cell> cells;
  for (const Mode mode : modes) {
    for (const uint64_t compute_ns : computes) {
      for (const uint64_t block : blocks) cells.push_back({mode, block, compute_ns});
    }
  }
  return cells;
}

Options parse_options(const std::vector<std::string>& words) {
  Options options;
  for (std::span<const std::string> rest = words; !rest.empty() && !options.help;) {
    rest = rest.subspan(take_option(rest, options));
  }
  options.command = words;
  if (options.help) return options;
  if (options.variants) {
    // Always there: the others are rated by it.
    std::vector<Variant>& variants = *options.variants;
    if (variants.front() != Variant::standalone) {
      variants.insert(variants.begin(), Variant::standalone);
    }
  }
  check_together(options);
  return options;
}

std::string help_text() {
  return R"(Usage: ioweave tiom [options]

The Task I/O Meter: runs series of tasks that compute and do storage I/O, with plain system calls
and with task-aware I/O, for every block size and compute time of a sweep, and tells what
task-aware I/O gains. After the TASIO paper (IWOMP 2019). docs/tiom.md explains the results.

What the tasks do
  -m, --mode LIST        mix: each task computes, then does one I/O (default); 1to1: in separate
                         tasks; fjio: four I/O tasks behind each compute task; fjc: the reverse
  -b, --block SWEEP      bytes of an I/O: 64k, a range that doubles 4k..8m, or a list
                         (default 4k,64k,1m)
  -c, --compute SWEEP    computation of a task: 1ms, 1ms..128ms, a list; 0 for none
                         (default 0.1ms,1ms,10ms)
  -s, --series N         chains of tasks that may all run in parallel (default 128)
      --op OP            read (default) or write
      --pattern P        random (default) or sequential
      --direct on|off    O_DIRECT (default), or through the page cache
      --bytes SIZE       bytes that a run moves, and size of the file (default 256m)
      --time-limit TIME  a run ends then and is rated by its rate (default 2s)
  -r, --repetitions N    of each cell; the variants take turns, reversed from one repetition to
                         the next (default 5)

How they run
      --runtime R        threads (default), openmp, tbb, alpi or coroutine
      --variant LIST     of standalone, blocking, nonblocking (default: all the runtime has);
                         standalone is always run
  -t, --threads N        workers (default: the cores this process may use)
      --alpi-library F   the ALPI runtime to preload (default: what is preloaded or linked, then
                         $NOSV_PREFIX, then what the loader finds)
      --reaper R         who collects what ALPI tasks wait for: a thread (default) or a task
  -f, --file FILE        made if missing, and then removed at the end (default: a file of its own
                         in the current directory)
      --overwrite        allow writing to a file that holds data: its data is lost

Results
      --json FILE        everything; - for standard output
      --html FILE        a page with heat maps, table and machine
      --png FILE         the heat maps as a picture
      --resume FILE      keep finished cells there, and do not run again what it holds
      --list             tell what runtimes there are and what would be run, and stop
      --advise           measure the device and the cores, and tell whether task-aware I/O would
                         pay, without a sweep
  -h, --help

Examples
  ioweave tiom -b 4k..4m -c 0.1ms,1ms,10ms --op write --html tiom.html --png tiom.png
  ioweave tiom --runtime tbb -m mix,fjio -b 64k -c 1ms -f /scratch/tiom.dat
  ioweave tiom --advise --runtime openmp -b 1m -c 5ms -s 32 -f /scratch/tiom.dat
)";
}

}  // namespace tiom
