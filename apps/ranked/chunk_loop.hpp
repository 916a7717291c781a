#pragma once

// The loop of the PPIS paper's programs: read a chunk, compute on it, perhaps write it, and again.
// Each MPI rank has chunks of its own. It reads by MPI-IO, as such programs do, or runs the loop
// ahead of itself (ioweave::pre_execute), with one of the schedules of a plan.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace apps {

/// A part of a file.
struct Chunk {
  uint64_t offset = 0;
  size_t bytes = 0;
};

/// The paper's modes, and those it lacks.
enum class ReadMode : uint8_t {
  mpiio,      ///< MPI_File_read_at, MPI_File_write_at: nothing of Ioweave
  normal,     ///< the same loop with a plan that reads nothing ahead
  pp,         ///< reads ahead whenever possible
  ppis,       ///< strict priority of the program's own transfers
  weighted,   ///< by shares
  automatic,  ///< ppis or pp, as measured
};
/// The value of option --mode. Throws UsageError.
ReadMode parse_read_mode(const std::string& text);
const char* name_of(ReadMode mode) noexcept;

struct LoopOptions {
  ReadMode mode = ReadMode::automatic;
  std::string input;
  std::string output;         ///< empty: nothing is written
  bool write_behind = false;  ///< of modes but mpiio: chunks are written while the next ones are
                              ///< computed
  uint64_t budget_bytes = 0;  ///< of the plan; 0: its default
};

/// Where the time of a rank went, in seconds, and what became of its plan.
struct LoopTimes {
  double read_s = 0;  ///< inside reads of the loop: the I/O latency that the program sees
  double compute_s = 0;
  double write_s = 0;  ///< inside writes, and until all is written
  double total_s = 0;  ///< from the first read on; the same for all ranks
  uint64_t bytes = 0;
  uint64_t hit_reads = 0;
  uint64_t late_reads = 0;
  uint64_t ahead_bytes = 0;
  double ahead_cpu_s = 0;     ///< processor time of the loop ahead
  const char* schedule = "";  ///< in use at the end
  uint32_t depth = 0;
  double gain_of_two = 0;
};

/// Changes a chunk in place, or only looks at it.
using Compute = std::function<void(std::span<std::byte> bytes, size_t number)>;

/// Runs the loop. All ranks of MPI_COMM_WORLD call it together. Chunks are written where they were
/// read. Throws std::runtime_error or std::system_error with the file's name.
LoopTimes run_chunk_loop(const LoopOptions& options, std::span<const Chunk> chunks,
                         const Compute& compute);

/// Rank `rank`'s part of a chunk: equal shares of whole granules, the last ones may be smaller or
/// empty.
Chunk share_of(const Chunk& chunk, uint64_t granule, int rank, int ranks);

/// The chunks of a file, one behind the other; bytes of the last one may be fewer.
std::vector<Chunk> cut(uint64_t file_bytes, uint64_t chunk_bytes);

/// The size of a regular file. Throws std::runtime_error.
uint64_t file_bytes(const std::string& path);

/// One JSON object, on rank 0: sums over the ranks, means of times, the greatest read_s. With a
/// checksum of what each rank computed, also the sum of these modulo 2^64, in hexadecimal. All
/// ranks call it together. Empty on other ranks.
std::string summarize(const LoopOptions& options, const LoopTimes& times, size_t chunks,
                      std::optional<uint64_t> checksum = std::nullopt);

}  // namespace apps
