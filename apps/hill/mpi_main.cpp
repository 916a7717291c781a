// hill_mpi: the Hill encryption of the PPIS paper in the form of its evaluation, by MPI ranks.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "checksum.hpp"
#include "chunk_loop.hpp"
#include "cipher.hpp"
#include "key.hpp"
#include "mpi_options.hpp"
#include "mpi_session.hpp"
#include "numbers.hpp"

namespace {

constexpr int kUsageExit = 2;

/// The checksum is part of what the program computes, in all modes alike: each run can be compared
/// with the others, and none gets time for it that another does not. It takes a piece while that is
/// in the processor's cache.
void encipher(hill::Cipher& cipher, hill::Checksum& checksum, std::span<std::byte> text,
              uint64_t offset) {
  while (!text.empty()) {
    const std::span<std::byte> piece = text.first(std::min(hill::kPieceBytes, text.size()));
    cipher.transform(piece);
    checksum.add(piece, offset);
    offset += piece.size();
    text = text.subspan(piece.size());
  }
}

void run(const hill::MpiOptions& options, const apps::MpiSession& mpi) {
  std::vector<hill::Matrix> keys;
  for (unsigned round = 0; round < options.rounds; ++round) {
    keys.push_back(hill::key_from_seed(options.key_size, options.seed + round));
  }
  hill::Cipher cipher(keys, hill::Cipher::Direction::kEncrypt);
  std::vector<apps::Chunk> chunks;
  for (const apps::Chunk& chunk :
       apps::cut(apps::file_bytes(options.loop.input), options.chunk_bytes)) {
    chunks.push_back(apps::share_of(chunk, hill::kPieceBytes, mpi.rank(), mpi.ranks()));
  }
  hill::Checksum checksum;
  const apps::LoopTimes times =
      apps::run_chunk_loop(options.loop, chunks, [&](std::span<std::byte> bytes, size_t number) {
        encipher(cipher, checksum, bytes, chunks[number].offset);
      });
  const std::string summary = apps::summarize(options.loop, times, chunks.size(), checksum.value());
  if (mpi.rank() == 0) std::printf("%s\n", summary.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const hill::MpiOptions options = hill::parse_mpi_options(argc, argv);
    if (options.help) {
      std::fputs(hill::mpi_help_text().c_str(), stdout);
      return EXIT_SUCCESS;
    }
    const apps::MpiSession mpi(argc, argv);
    try {
      run(options, mpi);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "hill_mpi: rank %d: %s\n", mpi.rank(), error.what());
      MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    return EXIT_SUCCESS;
  } catch (const apps::UsageError& error) {
    if (*error.what()) std::fprintf(stderr, "hill_mpi: %s\n", error.what());
    std::fputs("Try 'hill_mpi --help' for options and examples.\n", stderr);
    return kUsageExit;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hill_mpi: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
