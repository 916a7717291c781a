#include "options.hpp"

#include <getopt.h>

namespace hill {
namespace {

constexpr uint64_t kMaxChunkBytes = uint64_t{2} << 30;
constexpr uint64_t kMaxRounds = 1000;

const option kLongOptions[] = {
    {"encrypt", no_argument, nullptr, 'e'},
    {"decrypt", no_argument, nullptr, 'd'},
    {"key-size", required_argument, nullptr, 'k'},
    {"seed", required_argument, nullptr, 's'},
    {"key-file", required_argument, nullptr, 'f'},
    {"rounds", required_argument, nullptr, 'r'},
    {"chunk", required_argument, nullptr, 'c'},
    {"fsync", no_argument, nullptr, 'y'},
    {"stats-json", required_argument, nullptr, 'j'},
    {"verbose", no_argument, nullptr, 'v'},
    {"help", no_argument, nullptr, 'h'},
    {nullptr, 0, nullptr, 0},
};

size_t parse_chunk(const char* text) {
  const std::optional<uint64_t> bytes = parse_size(text);
  if (!bytes || *bytes < kPieceBytes || *bytes > kMaxChunkBytes || *bytes % kPieceBytes != 0) {
    throw UsageError("--chunk takes a multiple of 64K from 64K to 2G, such as 1M or 256M, not '" +
                     std::string(text) + "'");
  }
  return *bytes;
}

void apply(Options& options, int code, const char* text) {
  switch (code) {
    case 'e':
      options.direction = Cipher::Direction::kEncrypt;
      break;
    case 'd':
      options.direction = Cipher::Direction::kDecrypt;
      break;
    case 'k':
      options.key_size = parse_count("key-size", text, 1, kMaxKeySize);
      break;
    case 's':
      options.seed = parse_count("seed", text, 0, UINT64_MAX);
      break;
    case 'f':
      options.key_file = text;
      break;
    case 'r':
      options.rounds = static_cast<unsigned>(parse_count("rounds", text, 1, kMaxRounds));
      break;
    case 'c':
      options.chunk_bytes = parse_chunk(text);
      break;
    case 'y':
      options.fsync = true;
      break;
    case 'j':
      options.stats_json = text;
      break;
    case 'v':
      options.verbose = true;
      break;
    case 'h':
      options.help = true;
      break;
    default:
      throw UsageError("");  // getopt has named the option
  }
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  bool directed = false;
  optind = 1;
  for (int code; (code = getopt_long(argc, argv, "edk:s:r:c:vh", kLongOptions, nullptr)) != -1;) {
    const bool direction = code == 'e' || code == 'd';
    if (direction && directed) throw UsageError("give one of --encrypt and --decrypt, once");
    directed |= direction;
    apply(options, code, optarg);
    if (options.help) return options;
  }
  if (!directed) throw UsageError("say --encrypt or --decrypt");
  if (argc - optind != 2) {
    throw UsageError("needs an input and an output file, got " + std::to_string(argc - optind) +
                     " argument(s)");
  }
  options.input = argv[optind];
  options.output = argv[optind + 1];
  return options;
}

std::string help_text() {
  return R"(Usage: hill --encrypt|--decrypt [options] INPUT OUTPUT

Enciphers a file with the Hill cipher, chunk by chunk: read, compute, write, and again. The output
has the length of the input, and does not depend on the chunk size.

  -e, --encrypt | -d, --decrypt
  -k, --key-size N      the key is an N x N matrix modulo 256 made from the seed; 1 to 1024
                        (default 100)
  -s, --seed N          (default 1)
      --key-file FILE   read the key instead: N * N numbers from 0 to 255, row by row
  -r, --rounds N        encipher N times, each with a key of its own: N times the computation
                        (default 1)
  -c, --chunk SIZE      bytes read, enciphered and written at a time: a multiple of 64K from 64K to
                        2G, with K, M or G (default 64M)
      --fsync           end only when the output is on stable storage
      --stats-json FILE seconds spent in reading, computing and writing
  -v, --verbose         progress on standard error
  -h, --help

Examples
  hill --encrypt --seed 7 data.tar data.hill
  hill --decrypt --seed 7 data.hill data.tar
  hill -e -k 32 -r 4 -c 16M --stats-json stats.json data.tar data.hill
)";
}

}  // namespace hill
