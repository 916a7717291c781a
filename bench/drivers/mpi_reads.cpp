// Reads the blocks that bench_plans reads, by MPI_File_iread_at with a window of requests: what a
// program tuned by hand does: with several handles of the file, since MPI libraries that build on
// the C library's asynchronous I/O carry out the requests of one descriptor one by one. It prints
// the same sum.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "driver.hpp"
#include "options.hpp"

namespace {

using namespace ioweave::bench;

void check_mpi(int error, const char* what) {
  if (error != MPI_SUCCESS) {
    die(std::string(what) + " failed");
  }
}

struct Settings {
  std::string file;
  uint64_t reads = 1000;
  int block_bytes = 4096;
  uint64_t seed = 1;
  size_t window = 64;
  size_t handles = 16;
};

int run_reads(const Settings& settings) {
  std::vector<int64_t> blocks(File(settings.file, O_RDONLY).size() /
                              static_cast<uint64_t>(settings.block_bytes));
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = static_cast<int64_t>(i) * settings.block_bytes;
  }
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937_64(settings.seed));
  const auto bytes = static_cast<size_t>(settings.block_bytes);
  const Buffer buffer(settings.window * bytes);
  const auto place = [&](size_t i) { return buffer.data() + i % settings.window * bytes; };
  std::vector<MPI_File> files(settings.handles, MPI_FILE_NULL);
  for (MPI_File& file : files) {
    check_mpi(
        MPI_File_open(MPI_COMM_SELF, settings.file.c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
        "MPI_File_open");
  }
  std::vector<MPI_Request> requests(settings.window, MPI_REQUEST_NULL);
  const auto begin = [&](size_t i) {
    if (i < settings.reads) {
      check_mpi(MPI_File_iread_at(files[i % files.size()], blocks[i], place(i),
                                  settings.block_bytes, MPI_BYTE, &requests[i % settings.window]),
                "MPI_File_iread_at");
    }
  };
  const Usage before = Usage::now();
  uint64_t sum = 0;
  for (size_t i = 0; i < settings.window; ++i) {
    begin(i);
  }
  for (size_t i = 0; i < settings.reads; ++i) {
    check_mpi(MPI_Wait(&requests[i % settings.window], MPI_STATUS_IGNORE), "MPI_Wait");
    uint64_t word = 0;
    for (size_t at = 0; at + sizeof word <= bytes; at += sizeof word) {
      std::memcpy(&word, place(i) + at, sizeof word);
      sum = sum * 31 + word;
    }
    begin(i + settings.window);
  }
  const Usage used = Usage::now() - before;
  for (MPI_File& file : files) {
    check_mpi(MPI_File_close(&file), "MPI_File_close");
  }
  print_result({{"time_s", static_cast<double>(used.wall_ns) / 1e9},
                {"cpu_s", static_cast<double>(used.cpu_ns) / 1e9},
                {"sum", static_cast<double>(sum >> 12)}});
  return 0;
}

int run(int argc, char** argv) {
  Settings settings;
  Options app("Reads blocks of a file at random by MPI_File_iread_at");
  app.add("--file", settings.file).required().existing_file();
  app.add("--reads", settings.reads).between(1, 1 << 20);
  app.add("--bytes", settings.block_bytes).between(512, 1 << 30);
  app.add("--seed", settings.seed);
  app.add("--window", settings.window, "requests at once").between(1, 4096);
  app.add("--handles", settings.handles, "of the file, taken in turn").between(1, 1024);
  app.parse(argc, argv);
  check_mpi(MPI_Init(&argc, &argv), "MPI_Init");
  const int result = run_reads(settings);
  MPI_Finalize();
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}
