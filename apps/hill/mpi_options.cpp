#include "mpi_options.hpp"

#include <getopt.h>

#include "cipher.hpp"
#include "numbers.hpp"

namespace hill {
namespace {

using apps::parse_count;
using apps::parse_size;
using apps::UsageError;

const option kLongOptions[] = {
    {"mode", required_argument, nullptr, 'm'},
    {"chunk", required_argument, nullptr, 'c'},
    {"key-size", required_argument, nullptr, 'k'},
    {"seed", required_argument, nullptr, 's'},
    {"rounds", required_argument, nullptr, 'r'},
    {"budget", required_argument, nullptr, 'b'},
    {"write-behind", no_argument, nullptr, 'w'},
    {"help", no_argument, nullptr, 'h'},
    {nullptr, 0, nullptr, 0},
};

void apply(MpiOptions& options, int code, const char* text) {
  switch (code) {
    case 'm':
      options.loop.mode = apps::parse_read_mode(text);
      break;
    case 'c':
      options.chunk_bytes = parse_size(text).value_or(0);
      if (options.chunk_bytes == 0 || options.chunk_bytes % kPieceBytes != 0) {
        throw UsageError("--chunk takes a multiple of 64K, such as 1M or 2G, not '" +
                         std::string(text) + "'");
      }
      break;
    case 'k':
      options.key_size = parse_count("key-size", text, 1, kMaxKeySize);
      break;
    case 's':
      options.seed = parse_count("seed", text, 0, UINT64_MAX);
      break;
    case 'r':
      options.rounds = static_cast<unsigned>(parse_count("rounds", text, 1, 1000));
      break;
    case 'b':
      options.loop.budget_bytes = parse_size(text).value_or(0);
      if (options.loop.budget_bytes == 0) {
        throw UsageError("--budget takes a size such as 256M, not '" + std::string(text) + "'");
      }
      break;
    case 'w':
      options.loop.write_behind = true;
      break;
    case 'h':
      options.help = true;
      break;
    default:
      throw UsageError("");  // getopt has named the option
  }
}

}  // namespace

MpiOptions parse_mpi_options(int argc, char** argv) {
  MpiOptions options;
  optind = 1;
  for (int code; (code = getopt_long(argc, argv, "m:c:k:s:r:b:wh", kLongOptions, nullptr)) != -1;) {
    apply(options, code, optarg);
    if (options.help) return options;
  }
  const int files = argc - optind;
  if (files != 1 && files != 2) {
    throw UsageError("needs an input file, and perhaps an output file, got " +
                     std::to_string(files) + " argument(s)");
  }
  options.loop.input = argv[optind];
  if (files == 2) options.loop.output = argv[optind + 1];
  if (options.loop.write_behind && files == 1) {
    throw UsageError("--write-behind needs an output file");
  }
  return options;
}

std::string mpi_help_text() {
  return R"(Usage: mpirun -n RANKS hill_mpi [options] INPUT [OUTPUT]

Enciphers a file with the Hill cipher, chunk by chunk: each rank reads its part of a chunk,
computes, writes its part (if there is an output), and again. The output is that of
`hill --encrypt`. Rank 0 prints where the time went and a checksum of it, as JSON.

  -m, --mode MODE       mpiio     MPI_File_read_at and MPI_File_write_at, nothing of Ioweave
                        normal    the loop with a plan that reads nothing ahead
                        pp        the loop is run ahead of itself, reads ahead whenever possible
                        ppis      the same with strict priority of the program's own transfers
                        weighted  the same by shares
                        auto      ppis or pp, as measured (default)
  -c, --chunk SIZE      a multiple of 64K, with K, M or G (default 64M)
  -k, --key-size N      the key is an N x N matrix modulo 256 made from the seed (default 100)
  -s, --seed N          (default 1)
  -r, --rounds N        encipher N times: N times the computation (default 1)
  -b, --budget SIZE     memory of a rank for what is read ahead (default 256M)
  -w, --write-behind    chunks are written while the next ones are computed; one rank only
  -h, --help

Examples
  hill_mpi --mode ppis -c 16M data.tar
  mpirun -n 4 hill_mpi --mode mpiio data.tar data.hill
)";
}

}  // namespace hill
