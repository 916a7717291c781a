// Reads blocks of a file by MPI-IO, and computes on each. Two ways:
//
//   iread   MPI_File_iread_at with a window of requests, as a program tuned by hand makes them:
//           with several handles of the file, since MPI libraries that build on the C library's
//           asynchronous I/O carry out the requests of one descriptor one by one
//   read    MPI_File_read_at, one by one, as many as the window holds before what came is computed
//           on: with a window of many blocks the clock costs small reads nothing
//
// Under a preloaded libioweave_mpiio_*.so it can name the reads before, or others that never come.
// One JSON line tells how long it took, and the sum that bench_plans prints for these blocks.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "base/clock.hpp"
#include "driver.hpp"
#include "ioweave/mpiio.h"
#include "options.hpp"

namespace {

using namespace ioweave::bench;

void check_mpi(int error, const char* what) {
  if (error != MPI_SUCCESS) {
    die(std::string(what) + " failed");
  }
}

struct Settings {
  std::string how = "iread";
  std::string order = "random";
  std::string plan = "none";
  std::string file;
  uint64_t reads = 1000;
  uint64_t passes = 1;
  int block_bytes = 4096;
  uint64_t seed = 1;
  uint64_t compute_ns = 0;
  size_t window = 64;
  size_t handles = 16;
};

/// Where blocks begin.
struct Blocks {
  std::vector<MPI_Offset> read;
  std::vector<MPI_Offset> other;  ///< as many that are not read
};

Blocks chosen_blocks(const Settings& settings) {
  std::vector<MPI_Offset> all(File(settings.file, O_RDONLY).size() /
                              static_cast<uint64_t>(settings.block_bytes));
  if (all.size() < 2 * settings.reads) {
    die("the file must hold twice as many blocks as are read");
  }
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<MPI_Offset>(i) * settings.block_bytes;
  }
  if (settings.order == "random") {
    std::shuffle(all.begin(), all.end(), std::mt19937_64(settings.seed));
  }
  const auto middle = all.begin() + static_cast<ptrdiff_t>(settings.reads);
  return {{all.begin(), middle}, {middle, middle + static_cast<ptrdiff_t>(settings.reads)}};
}

/// Several handles of one file, taken in turn.
class Handles {
 public:
  explicit Handles(const Settings& settings) : files_(settings.handles, MPI_FILE_NULL) {
    for (MPI_File& file : files_) {
      check_mpi(MPI_File_open(MPI_COMM_SELF, settings.file.c_str(), MPI_MODE_RDONLY, MPI_INFO_NULL,
                              &file),
                "MPI_File_open");
    }
  }
  ~Handles() {
    for (MPI_File& file : files_) {
      MPI_File_close(&file);
    }
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  [[nodiscard]] MPI_File of(size_t i) const { return files_[i % files_.size()]; }

 private:
  std::vector<MPI_File> files_;
};

/// The program whose reads are measured.
class Program {
 public:
  explicit Program(const Settings& settings)
      : settings_(settings),
        bytes_(static_cast<size_t>(settings.block_bytes)),
        blocks_(chosen_blocks(settings)),
        handles_(settings),
        buffer_(settings.window * bytes_) {}

  void run() {
    if (settings_.plan != "none") {
      plan(settings_.plan == "right" ? blocks_.read : blocks_.other);
    }
    for (uint64_t pass = 0; pass < settings_.passes; ++pass) {
      if (settings_.how == "read") {
        read_one_by_one();
      } else {
        read_by_requests();
      }
    }
  }

  [[nodiscard]] double read_s() const { return static_cast<double>(read_ns_) / 1e9; }
  /// Of all bytes in their order; fits a double.
  [[nodiscard]] double sum() const { return static_cast<double>(sum_ >> 12); }

 private:
  void plan(std::span<const MPI_Offset> blocks) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      check(iow_mpiio_plan(handles_.of(i), blocks[i], settings_.block_bytes, MPI_BYTE),
            "iow_mpiio_plan");
    }
  }

  void read_one_by_one() {
    const size_t reads = blocks_.read.size();
    for (size_t begin = 0; begin < reads; begin += settings_.window) {
      const size_t end = std::min(begin + settings_.window, reads);
      time([&] {
        for (size_t i = begin; i < end; ++i) {
          check_mpi(MPI_File_read_at(handles_.of(i), blocks_.read[i], place(i),
                                     settings_.block_bytes, MPI_BYTE, MPI_STATUS_IGNORE),
                    "MPI_File_read_at");
        }
      });
      for (size_t i = begin; i < end; ++i) {
        compute(i);
      }
    }
  }

  void read_by_requests() {
    std::vector<MPI_Request> requests(settings_.window, MPI_REQUEST_NULL);
    const auto begin = [&](size_t i) {
      if (i < blocks_.read.size()) {
        check_mpi(
            MPI_File_iread_at(handles_.of(i), blocks_.read[i], place(i), settings_.block_bytes,
                              MPI_BYTE, &requests[i % requests.size()]),
            "MPI_File_iread_at");
      }
    };
    for (size_t i = 0; i < requests.size(); ++i) {
      time([&] { begin(i); });
    }
    for (size_t i = 0; i < blocks_.read.size(); ++i) {
      time([&] {
        check_mpi(MPI_Wait(&requests[i % requests.size()], MPI_STATUS_IGNORE), "MPI_Wait");
      });
      compute(i);
      time([&] { begin(i + requests.size()); });
    }
  }

  template <typename Read>
  void time(const Read& read) {
    const uint64_t before_ns = ioweave::now_ns();
    read();
    read_ns_ += ioweave::now_ns() - before_ns;
  }

  [[nodiscard]] std::byte* place(size_t i) const {
    return buffer_.data() + i % settings_.window * bytes_;
  }

  void compute(size_t i) {
    const uint64_t end_ns = ioweave::now_ns() + settings_.compute_ns;
    uint64_t word = 0;
    for (size_t at = 0; at + sizeof word <= bytes_; at += sizeof word) {
      std::memcpy(&word, place(i) + at, sizeof word);
      sum_ = sum_ * 31 + word;
    }
    while (settings_.compute_ns != 0 && ioweave::now_ns() < end_ns) {
    }
  }

  const Settings& settings_;
  const size_t bytes_;
  const Blocks blocks_;
  const Handles handles_;
  const Buffer buffer_;
  uint64_t read_ns_ = 0;
  uint64_t sum_ = 0;
};

void run_reads(const Settings& settings) {
  Program program(settings);
  const Usage before = Usage::now();
  program.run();
  const Usage used = Usage::now() - before;
  print_result({{"time_s", static_cast<double>(used.wall_ns) / 1e9},
                {"cpu_s", static_cast<double>(used.cpu_ns) / 1e9},
                {"read_s", program.read_s()},
                {"sum", program.sum()}});
}

int run(int argc, char** argv) {
  Settings settings;
  Options app("Reads blocks of a file by MPI-IO, and computes on each");
  app.add("--how", settings.how, "requests, or reads one by one").one_of({"iread", "read"});
  app.add("--order", settings.order).one_of({"random", "sequential"});
  app.add("--plan", settings.plan, "reads named before, to a preloaded library")
      .one_of({"none", "right", "wrong"});
  app.add("--file", settings.file).required().existing_file();
  app.add("--reads", settings.reads).between(1, 1 << 24);
  app.add("--passes", settings.passes, "over these blocks").between(1, 1 << 10);
  app.add("--bytes", settings.block_bytes, "of a block").between(8, 1 << 30);
  app.add("--seed", settings.seed, "which blocks");
  app.add("--compute-ns", settings.compute_ns, "least time of computing on a block");
  app.add("--window", settings.window, "requests at once, or reads in a row").between(1, 4096);
  app.add("--handles", settings.handles, "of the file, taken in turn").between(1, 1024);
  app.parse(argc, argv);
  check_mpi(MPI_Init(&argc, &argv), "MPI_Init");
  run_reads(settings);
  MPI_Finalize();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}
