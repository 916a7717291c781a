#include "options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include <getopt.h>

namespace cube {
namespace {

constexpr uint64_t kMaxItemBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxBuffers = 1024;
constexpr uint64_t kMaxComputeThreads = 256;
constexpr uint64_t kMaxAlone = uint64_t{1} << 32;
constexpr double kMaxWork = 1e6;

// Options without a letter.
enum Code {
  kAs = 256,
  kMetrics,
  kItem,
  kBuffers,
  kBudget,
  kComputeThreads,
  kWork,
  kPin,
  kAlign,
  kPool,
  kHugePages,
  kPath,
  kAlone,
  kInputLimit,
  kJson
};

const option kLongOptions[] = {
    {"mode", required_argument, nullptr, 'm'},
    {"aggregate", required_argument, nullptr, 'a'},
    {"threads", required_argument, nullptr, 't'},
    {"as", required_argument, nullptr, kAs},
    {"metrics", required_argument, nullptr, kMetrics},
    {"item", required_argument, nullptr, kItem},
    {"buffers", required_argument, nullptr, kBuffers},
    {"budget", required_argument, nullptr, kBudget},
    {"compute-threads", required_argument, nullptr, kComputeThreads},
    {"work", required_argument, nullptr, kWork},
    {"pin", no_argument, nullptr, kPin},
    {"align", no_argument, nullptr, kAlign},
    {"pool", no_argument, nullptr, kPool},
    {"huge-pages", no_argument, nullptr, kHugePages},
    {"path", required_argument, nullptr, kPath},
    {"alone", required_argument, nullptr, kAlone},
    {"input-limit", required_argument, nullptr, kInputLimit},
    {"json", required_argument, nullptr, kJson},
    {"verbose", no_argument, nullptr, 'v'},
    {"help", no_argument, nullptr, 'h'},
    {nullptr, 0, nullptr, 0},
};

uint64_t parse_bytes(const char* name, const char* text, uint64_t low, uint64_t high) {
  const std::optional<uint64_t> bytes = parse_size(text);
  if (!bytes || *bytes < low || *bytes > high) {
    throw UsageError("--" + std::string(name) + " takes a size from " + std::to_string(low) +
                     " to " + std::to_string(high) + " bytes, such as 64K or 4M, not '" + text +
                     "'");
  }
  return *bytes;
}

double parse_work(const char* text) {
  double work = 0;
  const std::string_view digits = text;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), work);
  if (error != std::errc() || end != digits.end() || !(work >= 1 && work <= kMaxWork)) {
    throw UsageError("--work takes a number from 1 to 1000000, not '" + std::string(text) + "'");
  }
  return work;
}

template <typename T, size_t n>
T parse_word(const char* name, std::string_view text,
             const std::array<std::pair<std::string_view, T>, n>& words) {
  std::string known;
  for (const auto& [word, value] : words) {
    if (word == text) return value;
    known += (known.empty() ? "" : ", ") + std::string(word);
  }
  throw UsageError("--" + std::string(name) + " takes one of " + known + ", not '" +
                   std::string(text) + "'");
}

Mode parse_mode(const char* text) {
  using Word = std::pair<std::string_view, Mode>;
  return parse_word("mode", text,
                    std::array{Word{"synchronous", Mode::kSynchronous}, Word{"aio", Mode::kAio},
                               Word{"ioweave", Mode::kIoweave}});
}

WritePath parse_path(const char* text) {
  using Word = std::pair<std::string_view, WritePath>;
  return parse_word("path", text,
                    std::array{Word{"auto", WritePath::kAuto}, Word{"direct", WritePath::kDirect},
                               Word{"buffered", WritePath::kBuffered}});
}

Aggregate parse_aggregate(const char* text) {
  using Word = std::pair<std::string_view, Aggregate>;
  return parse_word("aggregate", text,
                    std::array{Word{"none", Aggregate::kNone}, Word{"process", Aggregate::kProcess},
                               Word{"node", Aggregate::kNode}});
}

StoreAs parse_as(const char* text) {
  using Word = std::pair<std::string_view, StoreAs>;
  return parse_word(
      "as", text,
      std::array{Word{"inclusive", StoreAs::kInclusive}, Word{"exclusive", StoreAs::kExclusive},
                 Word{"stored", StoreAs::kStored}});
}

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    if (end > 0) names.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (names.empty())
    throw UsageError("--metrics takes unique names of metrics, such as time,visits");
  return names;
}

size_t parse_item(const char* text) {
  const uint64_t bytes = parse_bytes("item", text, kPageBytes, kMaxItemBytes);
  if (bytes % kPageBytes != 0) throw UsageError("--item takes a multiple of 4K");
  return bytes;
}

/// Returns false for an option that there is not.
bool apply(Options& options, std::optional<uint64_t>& budget, int code, const char* text) {
  RemapOptions& remap = options.remap;
  BufferOptions& buffers = remap.writer.buffers;
  switch (code) {
    case 'm':
      remap.writer.mode = parse_mode(text);
      return true;
    case 'a':
      remap.plan.aggregate = parse_aggregate(text);
      return true;
    case 't':
      remap.plan.locations = parse_count("threads", text, 1, kMaxLocations);
      return true;
    case kAs:
      remap.plan.as = parse_as(text);
      return true;
    case kMetrics:
      remap.plan.metrics = split_names(text);
      return true;
    case kItem:
      buffers.bytes = parse_item(text);
      return true;
    case kBuffers:
      buffers.count = parse_count("buffers", text, 1, kMaxBuffers);
      return true;
    case kBudget:
      budget = parse_bytes("budget", text, kPageBytes, kMaxItemBytes * kMaxBuffers);
      return true;
    case kComputeThreads:
      remap.compute_threads =
          static_cast<unsigned>(parse_count("compute-threads", text, 1, kMaxComputeThreads));
      return true;
    case kWork:
      remap.work = parse_work(text);
      return true;
    case kPin:
      remap.writer.is_pinned = true;
      return true;
    case kAlign:
      buffers.is_aligned = true;
      return true;
    case kPool:
      buffers.is_pooled = true;
      return true;
    case kHugePages:
      buffers.is_huge = true;
      return true;
    case kPath:
      remap.writer.write_path = parse_path(text);
      return true;
    case kAlone:
      remap.alone_items = parse_count("alone", text, 1, kMaxAlone);
      return true;
    case kInputLimit:
      remap.plan.input_limit = parse_bytes("input-limit", text, 1, UINT64_MAX >> 1);
      return true;
    case kJson:
      options.json = text;
      return true;
    case 'v':
      remap.verbose = true;
      return true;
    case 'h':
      options.help = true;
      return true;
    default:
      return false;
  }
}

/// The kernel takes only whole pages of memory past the page cache. Ioweave's buffers are such.
void check_path(const WriterOptions& writer) {
  if (writer.write_path != WritePath::kDirect || writer.mode == Mode::kIoweave) return;
  if (writer.buffers.is_aligned || writer.buffers.is_huge) return;
  throw UsageError("--path direct takes buffers that begin at a page: add --align");
}

void apply_budget(BufferOptions& buffers, uint64_t budget) {
  if (budget < buffers.bytes) {
    throw UsageError("--budget " + std::to_string(budget) + " has no room for an item of " +
                     std::to_string(buffers.bytes) + " bytes: choose a smaller --item");
  }
  buffers.count = static_cast<size_t>(std::min<uint64_t>(buffers.count, budget / buffers.bytes));
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  std::optional<uint64_t> budget;
  optind = 1;
  for (int code; (code = getopt_long(argc, argv, "m:a:t:vh", kLongOptions, nullptr)) != -1;) {
    if (!apply(options, budget, code, optarg)) throw UsageError("");  // getopt has named the option
    if (options.help) return options;
  }
  if (argc - optind != 2) {
    throw UsageError("needs an input and an output file, got " + std::to_string(argc - optind) +
                     " argument(s)");
  }
  options.remap.input = argv[optind];
  options.remap.output = argv[optind + 1];
  if (budget) apply_budget(options.remap.writer.buffers, *budget);
  check_path(options.remap.writer);
  return options;
}

std::string help_text() {
  return R"(Usage: cube_remap [options] INPUT.cubex OUTPUT.cubex

Reads a Cube profile, recomputes each metric over the call tree, and writes a new profile: one
result for each metric, each byte once and at its place.

What is computed
      --as KIND         store values inclusive or exclusive, or as stored in the input
                        (default inclusive); derived metrics are evaluated and stored, too
  -a, --aggregate HOW   none, or one value for each process or node (default none)
  -t, --threads N       scale to N threads by repeating the system tree, up to 4194304
      --metrics A,B     these metrics only, by their unique names (default all)
      --work X          compute each result X times, 1 to 1000000: a longer computation
      --compute-threads N
                        threads that compute, 1 to 256 (default 1)

How it is written
  -m, --mode MODE       synchronous: pwrite(2) by the computing thread
                        aio: POSIX AIO of the C library
                        ioweave: a write stream of Ioweave (default)
      --item SIZE       bytes computed and written at a time: a multiple of 4K from 4K to 1G
                        (default 4M)
      --buffers D       items computed or being written at once, 1 to 1024 (default 4)
      --budget SIZE     most memory for them: fewer buffers if D are too many
      --pin             one processor for I/O threads, the others for computing ones
      --align           buffers begin at a page, and so at a cache line
      --pool            buffers are kept in a pool, not allocated and freed for each item
      --huge-pages      buffers lie in huge pages
      --path PATH       direct goes past the page cache, buffered through it; auto is buffered,
                        but in the mode ioweave what the file system allows (default auto)

      --input-limit SIZE
                        most stored values of the input held for one result (default 1G)
      --alone N         N items are computed once more when all is written: what the computation
                        takes beside nothing
      --json FILE       seconds of each phase, bytes and memory; - for standard output
  -v, --verbose         a line for each item on standard error
  -h, --help

Examples
  cube_remap profile.cubex inclusive.cubex
  cube_remap --as exclusive --aggregate process profile.cubex small.cubex
  cube_remap -m aio --threads 262143 --work 40 --pin --align --pool --json - in.cubex out.cubex
)";
}

}  // namespace cube
