#include "options.hpp"

#include <getopt.h>

#include "numbers.hpp"

namespace matrix_search {
namespace {

using apps::parse_count;
using apps::parse_size;
using apps::UsageError;

const option kLongOptions[] = {
    {"make", required_argument, nullptr, 'M'}, {"seed", required_argument, nullptr, 's'},
    {"mode", required_argument, nullptr, 'm'}, {"sub-matrices", required_argument, nullptr, 'n'},
    {"top", required_argument, nullptr, 't'},  {"budget", required_argument, nullptr, 'b'},
    {"help", no_argument, nullptr, 'h'},       {nullptr, 0, nullptr, 0},
};

uint64_t size_of(const char* name, const char* text) {
  const uint64_t bytes = parse_size(text).value_or(0);
  if (bytes == 0 || bytes % sizeof(int32_t) != 0) {
    throw UsageError("--" + std::string(name) + " takes a size such as 256M, not '" +
                     std::string(text) + "'");
  }
  return bytes;
}

void apply(Options& options, int code, const char* text) {
  switch (code) {
    case 'M':
      options.make_bytes = size_of("make", text);
      break;
    case 's':
      options.seed = parse_count("seed", text, 0, UINT64_MAX);
      break;
    case 'm':
      options.loop.mode = apps::parse_read_mode(text);
      break;
    case 'n':
      options.sub_matrices = parse_count("sub-matrices", text, 1, 1 << 20);
      break;
    case 't':
      options.top = parse_count("top", text, 1, 1 << 16);
      break;
    case 'b':
      options.loop.budget_bytes = size_of("budget", text);
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
  optind = 1;
  for (int code; (code = getopt_long(argc, argv, "s:m:n:t:b:h", kLongOptions, nullptr)) != -1;) {
    apply(options, code, optarg);
    if (options.help) return options;
  }
  if (argc - optind != 1) {
    throw UsageError("needs one file, got " + std::to_string(argc - optind) + " argument(s)");
  }
  options.loop.input = argv[optind];
  return options;
}

std::string help_text() {
  return R"(Usage: mpirun -n RANKS matrix_search [options] FILE
       matrix_search --make SIZE [--seed N] FILE

Finds the greatest items of a matrix of 32-bit integers that is too big for memory: the matrix is
cut into sub-matrices, and each rank reads and searches its part of them, one behind the other.
Prints the items, with the number of items before each, and a line of JSON that tells where the
time went.

  -m, --mode MODE         how chunks are read: mpiio, normal, pp, ppis, weighted or auto
                          (default auto; `hill_mpi --help` explains them)
  -n, --sub-matrices N    (default 4)
  -t, --top N             so many items (default 30)
  -b, --budget SIZE       memory of a rank for what is read ahead (default 256M)
      --make SIZE         make such a file of random items, with K, M or G
  -s, --seed N            of the random items (default 1)
  -h, --help

Example
  matrix_search --make 1G matrix.bin
  mpirun -n 2 matrix_search --mode ppis matrix.bin
)";
}

}  // namespace matrix_search
