#include "options.hpp"

#include <cerrno>
#include <cmath>
#include <cstdlib>

#include <getopt.h>

namespace slowfs {
namespace {

// Above a day a latency is a slip of the unit; above these a queue is one of the hand.
constexpr uint64_t kMaxLatencyUs = 60'000'000;
constexpr uint64_t kMaxSlackUs = 1000;
constexpr uint64_t kMaxBackground = 1024;
constexpr uint64_t kMaxReadaheadKb = 65'536;

enum OptionCode : int {
  kReadMbS = 1000,
  kWriteMbS,
  kLatencyUs,
  kMetadataLatencyUs,
  kSlackUs,
  kEfficiency,
  kShared,
  kPerFile,
  kFullDuplex,
  kWriteThrough,
  kWriteBack,
  kDiscard,
  kMaxBackgroundRequests,
  kMaxReadahead,
  kBadAt,
  kBadWriteAt,
  kForeground,
  kReadyFd,
  kUnmount,
  kHelp,
};

const option kLongOptions[] = {
    {"read-mb-s", required_argument, nullptr, kReadMbS},
    {"write-mb-s", required_argument, nullptr, kWriteMbS},
    {"latency-us", required_argument, nullptr, kLatencyUs},
    {"metadata-latency-us", required_argument, nullptr, kMetadataLatencyUs},
    {"slack-us", required_argument, nullptr, kSlackUs},
    {"efficiency", required_argument, nullptr, kEfficiency},
    {"shared", no_argument, nullptr, kShared},
    {"per-file", no_argument, nullptr, kPerFile},
    {"full-duplex", no_argument, nullptr, kFullDuplex},
    {"write-through", no_argument, nullptr, kWriteThrough},
    {"write-back", no_argument, nullptr, kWriteBack},
    {"discard", no_argument, nullptr, kDiscard},
    {"max-background", required_argument, nullptr, kMaxBackgroundRequests},
    {"max-readahead-kb", required_argument, nullptr, kMaxReadahead},
    {"bad-at", required_argument, nullptr, kBadAt},
    {"bad-write-at", required_argument, nullptr, kBadWriteAt},
    {"foreground", no_argument, nullptr, kForeground},
    {"ready-fd", required_argument, nullptr, kReadyFd},
    {"unmount", required_argument, nullptr, kUnmount},
    {"help", no_argument, nullptr, kHelp},
    {nullptr, 0, nullptr, 0},
};

uint64_t parse_count(const char* name, const char* text, uint64_t low, uint64_t high) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text, &end, 10);
  const bool whole = end != text && *end == '\0' && errno == 0;
  if (!whole || value < 0 || static_cast<uint64_t>(value) < low ||
      static_cast<uint64_t>(value) > high) {
    throw UsageError("--" + std::string(name) + " takes a whole number from " +
                     std::to_string(low) + " to " + std::to_string(high) + ", not '" + text + "'");
  }
  return static_cast<uint64_t>(value);
}

double parse_rate(const char* name, const char* text) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !std::isfinite(value) || value < 0.001 || value > 1e6) {
    throw UsageError("--" + std::string(name) +
                     " takes MB/s (10^6 bytes) from 0.001 to 1000000, not '" + text +
                     "'; leave the option out for no limit");
  }
  return value;
}

std::vector<Efficiency::Point> parse_efficiency(const char* text) {
  std::vector<Efficiency::Point> points;
  const char* at = text;
  bool good = true;
  do {
    char* end = nullptr;
    Efficiency::Point point{};
    point.streams = std::strtod(at, &end);
    good = end != at && *end == ':';
    at = end + 1;
    point.part = good ? std::strtod(at, &end) : 0;
    good = good && end != at && (*end == ',' || *end == '\0') && point.streams >= 1 &&
           point.streams <= 1e6 && point.part >= 0.001 && point.part <= 1 &&
           (points.empty() || point.streams > points.back().streams);
    points.push_back(point);
    at = end + 1;
    if (good && *end == '\0') return points;
  } while (good);
  throw UsageError(
      "--efficiency takes STREAMS:PART,..., with streams ascending from 1 and parts from 0.001 to "
      "1, as 1:0.6,8:1,64:0.3, not '" +
      std::string(text) + "'");
}

void apply(Options& options, int code, const char* text) {
  switch (code) {
    case kReadMbS:
      options.read_mb_s = parse_rate("read-mb-s", text);
      break;
    case kWriteMbS:
      options.write_mb_s = parse_rate("write-mb-s", text);
      break;
    case kLatencyUs:
      options.latency_us = parse_count("latency-us", text, 0, kMaxLatencyUs);
      break;
    case kMetadataLatencyUs:
      options.metadata_latency_us = parse_count("metadata-latency-us", text, 0, kMaxLatencyUs);
      break;
    case kSlackUs:
      options.slack_us = parse_count("slack-us", text, 0, kMaxSlackUs);
      break;
    case kEfficiency:
      options.efficiency = parse_efficiency(text);
      break;
    case kShared:
      options.per_file = false;
      break;
    case kPerFile:
      options.per_file = true;
      break;
    case kFullDuplex:
      options.full_duplex = true;
      break;
    case kWriteThrough:
      options.write_back = false;
      break;
    case kWriteBack:
      options.write_back = true;
      break;
    case kDiscard:
      options.discard = true;
      break;
    case kMaxBackgroundRequests:
      options.max_background =
          static_cast<unsigned>(parse_count("max-background", text, 1, kMaxBackground));
      break;
    case kMaxReadahead:
      options.max_readahead_kb =
          static_cast<unsigned>(parse_count("max-readahead-kb", text, 0, kMaxReadaheadKb));
      break;
    case kBadAt:
      options.bad_at = static_cast<int64_t>(parse_count("bad-at", text, 0, INT64_MAX));
      break;
    case kBadWriteAt:
      options.bad_write_at = static_cast<int64_t>(parse_count("bad-write-at", text, 0, INT64_MAX));
      break;
    case kForeground:
      options.foreground = true;
      break;
    case kReadyFd:
      options.ready_fd = static_cast<int>(parse_count("ready-fd", text, 0, 1 << 20));
      break;
    case kUnmount:
      options.action = Options::Action::kUnmount;
      options.mountpoint = text;
      break;
    case kHelp:
      options.action = Options::Action::kHelp;
      break;
    default:
      throw UsageError("");  // getopt has named the option
  }
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  optind = 1;
  for (int code; (code = getopt_long(argc, argv, "h", kLongOptions, nullptr)) != -1;) {
    apply(options, code == 'h' ? int{kHelp} : code, optarg);
    if (options.action == Options::Action::kHelp) return options;
  }
  const int positional = argc - optind;
  if (options.action == Options::Action::kUnmount) {
    if (positional != 0) throw UsageError("--unmount takes the mount point only");
    return options;
  }
  if (positional != 2) {
    throw UsageError("needs a source directory and a mount point, got " +
                     std::to_string(positional) + " argument(s)");
  }
  options.source = argv[optind];
  options.mountpoint = argv[optind + 1];
  return options;
}

std::string help_text() {
  return R"(Usage: ioweave-slowfs [options] SOURCE_DIR MOUNTPOINT
       ioweave-slowfs --unmount MOUNTPOINT

Shows SOURCE_DIR at MOUNTPOINT as if it lay on a device of the given speed: a stand-in for a
parallel file system. Returns once the mount can be used, and serves it in the background.

Speed
  --read-mb-s N, --write-mb-s N   bandwidth in 10^6 bytes/s (default: no limit)
  --latency-us N                  added to every read, write and fsync request; the latencies of
                                  concurrent requests overlap (default 0)
  --metadata-latency-us N         the same for lookups, opens, renames, ... (default 0)
  --shared | --per-file           one budget for the file system (default), or one for each file
  --full-duplex                   reads and writes do not slow each other down
  --efficiency S:P,S:P,...        the part P of the bandwidth that S files in use get together,
                                  joined by straight lines (default 1 for any number)
  --slack-us N                    idle time between requests put down to FUSE, not to the client,
                                  and given back; at most 1000 (default 100)

Cache
  --write-through                 write(2) waits for the device (default)
  --write-back                    write(2) fills the kernel's cache, which is written later
  --discard                       keep the length of what is written and not the bytes: runs that
                                  write more than the memory holds; it is read as zeros
  --max-readahead-kb N            the kernel's read-ahead window (default 128; more needs root)
  --max-background N              read-ahead and write-back requests in flight (default 64)

Faults
  --bad-at N                      reads of byte N of a file fail (EIO), as from a bad block
  --bad-write-at N                writes of byte N of a file fail (EIO)

Running
  --foreground                    stay in the foreground; SIGTERM or SIGINT unmounts
  --ready-fd FD                   write a newline to FD once the mount can be used
  --unmount MOUNTPOINT            unmount, failing if files are still open
  -h, --help

Examples
  ioweave-slowfs --read-mb-s 400 --write-mb-s 400 --latency-us 200 /dev/shm/data /mnt/slow
  ioweave-slowfs --read-mb-s 100 --per-file --full-duplex data slow
  ioweave-slowfs --unmount /mnt/slow

How exact it is, and how to measure on it: bench/slowfs/README.md
)";
}

}  // namespace slowfs
