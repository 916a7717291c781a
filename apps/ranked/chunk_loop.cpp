#include "chunk_loop.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ioweave/plans.hpp"
#include "ioweave/streams.hpp"
#include "mpi_session.hpp"
#include "numbers.hpp"

namespace apps {
namespace {

constexpr std::array<std::pair<const char*, ReadMode>, 6> kModes = {{
    {"mpiio", ReadMode::mpiio},
    {"normal", ReadMode::normal},
    {"pp", ReadMode::pp},
    {"ppis", ReadMode::ppis},
    {"weighted", ReadMode::weighted},
    {"auto", ReadMode::automatic},
}};

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw std::runtime_error(what + " '" + path + "': " + std::strerror(error));
}

/// Adds the time of its life to a sum.
class Timer {
 public:
  explicit Timer(double& seconds) : seconds_(seconds) {}
  ~Timer() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class File {
 public:
  File(std::string path, int flags)
      : path_(std::move(path)), fd_(open(path_.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ == -1) fail("cannot open", path_, errno);
  }
  ~File() { close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  std::string path_;
  int fd_;
};

/// Page-aligned memory, touched beforehand so that page faults are not counted as reading.
class Buffer {
 public:
  explicit Buffer(size_t bytes)
      : bytes_(std::max<size_t>(bytes, 1)),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)) {
    if (data_ == MAP_FAILED) {
      throw std::runtime_error("no memory for a chunk of " + std::to_string(bytes) + " bytes");
    }
  }
  ~Buffer() { munmap(data_, bytes_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] std::span<std::byte> first(size_t bytes) const {
    return {static_cast<std::byte*>(data_), bytes};
  }

 private:
  size_t bytes_;
  void* data_;
};

size_t largest(std::span<const Chunk> chunks) {
  size_t bytes = 0;
  for (const Chunk& chunk : chunks) {
    bytes = std::max(bytes, chunk.bytes);
  }
  return bytes;
}

void check_whole(size_t got, const Chunk& chunk, const std::string& path) {
  if (got != chunk.bytes) {
    throw std::runtime_error("'" + path + "' ends within the chunk at " +
                             std::to_string(chunk.offset));
  }
}

class MpiFile {
 public:
  MpiFile(const std::string& path, int mode) : path_(path) {
    check_mpi(MPI_File_open(MPI_COMM_WORLD, path.c_str(), mode, MPI_INFO_NULL, &file_),
              "cannot open '" + path + "'");
  }
  ~MpiFile() {
    if (file_ != MPI_FILE_NULL) MPI_File_close(&file_);
  }
  MpiFile(const MpiFile&) = delete;
  MpiFile& operator=(const MpiFile&) = delete;

  size_t read(std::span<std::byte> bytes, uint64_t offset) {
    MPI_Status status;
    check_mpi(MPI_File_read_at(file_, static_cast<MPI_Offset>(offset), bytes.data(),
                               static_cast<int>(bytes.size()), MPI_BYTE, &status),
              "cannot read '" + path_ + "'");
    int got = 0;
    MPI_Get_count(&status, MPI_BYTE, &got);
    return static_cast<size_t>(got);
  }
  void write(std::span<const std::byte> bytes, uint64_t offset) {
    MPI_Status status;
    check_mpi(MPI_File_write_at(file_, static_cast<MPI_Offset>(offset), bytes.data(),
                                static_cast<int>(bytes.size()), MPI_BYTE, &status),
              "cannot write '" + path_ + "'");
  }
  void close() { check_mpi(MPI_File_close(&file_), "cannot write '" + path_ + "'"); }

 private:
  std::string path_;
  MPI_File file_ = MPI_FILE_NULL;
};

void run_by_mpiio(const LoopOptions& options, std::span<const Chunk> chunks, const Compute& compute,
                  LoopTimes& times) {
  MpiFile input(options.input, MPI_MODE_RDONLY);
  std::optional<MpiFile> output;
  if (!options.output.empty()) {
    output.emplace(options.output, MPI_MODE_WRONLY | MPI_MODE_CREATE);
  }
  const Buffer buffer(largest(chunks));
  MPI_Barrier(MPI_COMM_WORLD);
  const Timer total(times.total_s);
  for (size_t i = 0; i < chunks.size(); ++i) {
    const std::span<std::byte> bytes = buffer.first(chunks[i].bytes);
    {
      const Timer timer(times.read_s);
      check_whole(input.read(bytes, chunks[i].offset), chunks[i], options.input);
    }
    {
      const Timer timer(times.compute_s);
      compute(bytes, i);
    }
    if (output) {
      const Timer timer(times.write_s);
      output->write(bytes, chunks[i].offset);
    }
  }
  if (output) {
    const Timer timer(times.write_s);
    output->close();
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

iow_plan_schedule schedule_of(ReadMode mode) {
  switch (mode) {
    case ReadMode::normal:
      return IOW_PLAN_NORMAL;
    case ReadMode::pp:
      return IOW_PLAN_PP;
    case ReadMode::ppis:
      return IOW_PLAN_PPIS;
    case ReadMode::weighted:
      return IOW_PLAN_WEIGHTED;
    default:
      return IOW_PLAN_AUTO;
  }
}

ReadMode mode_of(iow_plan_schedule schedule) {
  for (const auto& [name, mode] : kModes) {
    if (mode != ReadMode::mpiio && schedule_of(mode) == schedule) return mode;
  }
  return ReadMode::automatic;
}

double thread_cpu_s() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

/// A stream of which each lease holds a chunk, so that it is written from where it was computed.
class WriteBehind {
 public:
  WriteBehind(ioweave::Service& service, const LoopOptions& options, size_t chunk_bytes)
      : stream_(service, options_for(service, chunk_bytes)),
        number_(stream_.create(options.output)) {}

  [[nodiscard]] ioweave::Lease lease() { return stream_.lease(); }
  void write(ioweave::Lease lease, const Chunk& chunk) {
    lease.write(number_, chunk.bytes, static_cast<off_t>(chunk.offset));
  }
  void close() { stream_.close(); }

 private:
  /// Results are meant for another device: reads ahead do not wait for their writes there.
  static iow_write_stream_options options_for(ioweave::Service& service, size_t chunk_bytes) {
    iow_write_stream_options options{};
    iow_flow_options flow{};
    flow.device = service.create_device("output");
    flow.priority = IOW_WRITE_BEHIND;
    options.flow = service.create_flow("results", flow);
    options.buffer_bytes = (chunk_bytes + 4095) & ~size_t{4095};
    options.budget_bytes = 3 * options.buffer_bytes;
    return options;
  }

  ioweave::WriteStream stream_;
  int number_;
};

void run_ahead(const LoopOptions& options, std::span<const Chunk> chunks, const Compute& compute,
               LoopTimes& times) {
  const File input(options.input, O_RDONLY);
  std::optional<File> output;
  if (!options.output.empty() && !options.write_behind) {
    output.emplace(options.output, O_WRONLY | O_CREAT);
  }
  const Buffer buffer(largest(chunks));
  ioweave::Service service;
  iow_plan_options plan_options{};
  plan_options.schedule = schedule_of(options.mode);
  plan_options.budget_bytes = options.budget_bytes;
  ioweave::Plan plan(service, plan_options);
  std::optional<WriteBehind> behind;
  if (options.write_behind) {
    behind.emplace(service, options, largest(chunks));
  }

  const auto loop = [&](ioweave::LoopIo& io) {
    double ignored = 0;
    const auto seconds = [&](double& sum) -> double& { return io.is_ahead() ? ignored : sum; };
    for (size_t i = 0; i < chunks.size(); ++i) {
      const auto offset = static_cast<off_t>(chunks[i].offset);
      std::span<std::byte> bytes = buffer.first(chunks[i].bytes);
      std::optional<ioweave::Lease> lease;
      if (behind && !io.is_ahead()) {
        const Timer timer(times.write_s);  // where writing is slower than all else, it waits here
        lease.emplace(behind->lease());
        bytes = lease->data().first(chunks[i].bytes);
      }
      ioweave::PlanLease found;  // where chunks are not written behind, they stay where they are
      if (behind) {
        const Timer timer(seconds(times.read_s));
        check_whole(io.read(input.fd(), bytes, offset), chunks[i], options.input);
      } else {
        const Timer timer(seconds(times.read_s));
        found = io.lease(input.fd(), chunks[i].bytes, offset);
        if (!io.is_ahead()) {
          check_whole(found.data().size(), chunks[i], options.input);
          bytes = found.data();
        }
      }
      io.compute([&] {
        const Timer timer(times.compute_s);
        compute(bytes, i);
      });
      const Timer timer(seconds(times.write_s));
      if (output) {
        check_whole(io.write(output->fd(), bytes, offset), chunks[i], options.output);
      } else if (lease) {
        behind->write(std::move(*lease), chunks[i]);
      }
    }
    if (io.is_ahead()) {
      times.ahead_cpu_s = thread_cpu_s();
    }
  };

  MPI_Barrier(MPI_COMM_WORLD);
  const Timer total(times.total_s);
  ioweave::pre_execute(plan, loop);
  if (behind) {
    const Timer timer(times.write_s);
    behind->close();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const iow_plan_stats stats = plan.stats();
  times.hit_reads = stats.hit_reads;
  times.late_reads = stats.late_reads;
  times.ahead_bytes = stats.ahead_bytes;
  times.schedule = name_of(mode_of(stats.schedule));
  times.depth = stats.depth;
  times.gain_of_two = stats.gain_of_two;
}

/// The member of the summary with the sum of the ranks' checksums; only that of the first counts.
std::string checksum_member(uint64_t checksum, bool is_first) {
  check_mpi(MPI_Reduce(is_first ? MPI_IN_PLACE : &checksum, &checksum, 1, MPI_UINT64_T, MPI_SUM, 0,
                       MPI_COMM_WORLD),
            "MPI_Reduce");
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), ", \"checksum\": \"%016" PRIx64 "\"", checksum);
  return text.data();
}

}  // namespace

ReadMode parse_read_mode(const std::string& text) {
  for (const auto& [name, mode] : kModes) {
    if (text == name) return mode;
  }
  throw UsageError("--mode takes mpiio, normal, pp, ppis, weighted or auto, not '" + text + "'");
}

const char* name_of(ReadMode mode) noexcept {
  for (const auto& [name, known] : kModes) {
    if (known == mode) return name;
  }
  return "?";
}

LoopTimes run_chunk_loop(const LoopOptions& options, std::span<const Chunk> chunks,
                         const Compute& compute) {
  if (largest(chunks) > INT_MAX) {
    throw std::runtime_error(
        "a rank's part of a chunk must be below 2 GiB: take smaller chunks, "
        "or more ranks");
  }
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (options.write_behind && (ranks != 1 || options.mode == ReadMode::mpiio)) {
    throw std::runtime_error("write-behind is for one rank, and not for mode mpiio");
  }
  LoopTimes times;
  if (options.mode == ReadMode::mpiio) {
    run_by_mpiio(options, chunks, compute, times);
  } else {
    run_ahead(options, chunks, compute, times);
  }
  for (const Chunk& chunk : chunks) {
    times.bytes += chunk.bytes;
  }
  return times;
}

Chunk share_of(const Chunk& chunk, uint64_t granule, int rank, int ranks) {
  const uint64_t granules = (chunk.bytes + granule - 1) / granule;
  const auto bytes_before = [&](int number) {
    const uint64_t whole = granules * static_cast<uint64_t>(number) / static_cast<uint64_t>(ranks);
    return std::min<uint64_t>(whole * granule, chunk.bytes);
  };
  return {chunk.offset + bytes_before(rank), bytes_before(rank + 1) - bytes_before(rank)};
}

std::vector<Chunk> cut(uint64_t file_bytes, uint64_t chunk_bytes) {
  std::vector<Chunk> chunks;
  for (uint64_t offset = 0; offset < file_bytes; offset += chunk_bytes) {
    chunks.push_back({offset, std::min(chunk_bytes, file_bytes - offset)});
  }
  return chunks;
}

uint64_t file_bytes(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == -1) fail("cannot read", path, errno);
  if (!S_ISREG(status.st_mode)) fail("cannot read", path, EINVAL);
  return static_cast<uint64_t>(status.st_size);
}

std::string summarize(const LoopOptions& options, const LoopTimes& times, size_t chunks,
                      std::optional<uint64_t> checksum) {
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::array<double, 8> sums = {times.read_s,
                                times.compute_s,
                                times.write_s,
                                static_cast<double>(times.bytes),
                                static_cast<double>(times.hit_reads),
                                static_cast<double>(times.late_reads),
                                static_cast<double>(times.ahead_bytes),
                                times.ahead_cpu_s};
  std::array<double, 2> greatest = {times.read_s, times.total_s};
  const bool is_first = rank == 0;
  check_mpi(MPI_Reduce(is_first ? MPI_IN_PLACE : sums.data(), sums.data(),
                       static_cast<int>(sums.size()), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD),
            "MPI_Reduce");
  check_mpi(MPI_Reduce(is_first ? MPI_IN_PLACE : greatest.data(), greatest.data(),
                       static_cast<int>(greatest.size()), MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD),
            "MPI_Reduce");
  const std::string sum = checksum ? checksum_member(*checksum, is_first) : "";
  if (!is_first) return {};
  std::array<char, 1024> text{};
  std::snprintf(
      text.data(), text.size(),
      "{\"mode\": \"%s\", \"ranks\": %d, \"chunks\": %zu, \"bytes\": %.0f, "
      "\"total_s\": %.9f, \"read_s\": %.9f, \"greatest_read_s\": %.9f, "
      "\"compute_s\": %.9f, \"write_s\": %.9f, \"bytes_per_s\": %.0f, "
      "\"hit_reads\": %.0f, \"late_reads\": %.0f, \"ahead_bytes\": %.0f, "
      "\"ahead_cpu_s\": %.9f, \"schedule\": \"%s\", \"depth\": %u, \"gain_of_two\": %.3f%s}",
      name_of(options.mode), ranks, chunks, sums[3], greatest[1], sums[0] / ranks, greatest[0],
      sums[1] / ranks, sums[2] / ranks, sums[3] / greatest[1], sums[4], sums[5], sums[6], sums[7],
      times.schedule, times.depth, times.gain_of_two, sum.c_str());
  return text.data();
}

}  // namespace apps
