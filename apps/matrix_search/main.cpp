// matrix_search: the light workload of the PPIS paper, by MPI ranks.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <vector>

#include "chunk_loop.hpp"
#include "mpi_session.hpp"
#include "numbers.hpp"
#include "options.hpp"
#include "top_items.hpp"

namespace {

using matrix_search::Item;
using matrix_search::Options;
using matrix_search::TopItems;

constexpr int kUsageExit = 2;

void make_matrix(const Options& options) {
  std::ofstream file(options.loop.input, std::ios::binary | std::ios::trunc);
  constexpr uint64_t kBlock = 1 << 18;
  std::vector<int32_t> block(kBlock);
  const uint64_t items = options.make_bytes / sizeof(int32_t);
  for (uint64_t begin = 0; begin < items; begin += kBlock) {
    const uint64_t count = std::min(kBlock, items - begin);
    for (uint64_t i = 0; i < count; ++i) {
      block[i] = matrix_search::item_at(options.seed, begin + i);
    }
    file.write(reinterpret_cast<const char*>(block.data()),
               static_cast<std::streamsize>(count * sizeof(int32_t)));
  }
  file.close();
  if (!file) throw std::runtime_error("cannot write '" + options.loop.input + "'");
}

/// Those of all ranks, on rank 0.
std::vector<Item> gather(const TopItems& found, size_t count, const apps::MpiSession& mpi) {
  const std::vector<Item> own = found.sorted();
  const int bytes = static_cast<int>(own.size() * sizeof(Item));
  std::vector<int> sizes(static_cast<size_t>(mpi.ranks()));
  apps::check_mpi(MPI_Gather(&bytes, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD),
                  "MPI_Gather");
  std::vector<int> places(sizes.size());
  int sum = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    places[i] = sum;
    sum += sizes[i];
  }
  std::vector<Item> all(static_cast<size_t>(sum) / sizeof(Item));
  apps::check_mpi(MPI_Gatherv(own.data(), bytes, MPI_BYTE, all.data(), sizes.data(), places.data(),
                              MPI_BYTE, 0, MPI_COMM_WORLD),
                  "MPI_Gatherv");
  TopItems top(count);
  for (const Item& item : all) {
    top.add(item);
  }
  return top.sorted();
}

void search(const Options& options, const apps::MpiSession& mpi) {
  const uint64_t bytes = apps::file_bytes(options.loop.input);
  if (bytes % sizeof(int32_t) != 0) {
    throw std::runtime_error("'" + options.loop.input +
                             "' is no matrix of 32-bit integers: its "
                             "size is no multiple of 4");
  }
  const uint64_t items = bytes / sizeof(int32_t);
  const uint64_t sub = (items + options.sub_matrices - 1) / options.sub_matrices * sizeof(int32_t);
  std::vector<apps::Chunk> chunks;
  for (const apps::Chunk& chunk : apps::cut(bytes, std::max<uint64_t>(sub, sizeof(int32_t)))) {
    chunks.push_back(apps::share_of(chunk, sizeof(int32_t), mpi.rank(), mpi.ranks()));
  }
  TopItems top(options.top);
  const apps::LoopTimes times =
      apps::run_chunk_loop(options.loop, chunks, [&](std::span<std::byte> found, size_t number) {
        top.add({reinterpret_cast<const int32_t*>(found.data()), found.size() / sizeof(int32_t)},
                chunks[number].offset / sizeof(int32_t));
      });
  const std::vector<Item> greatest = gather(top, options.top, mpi);
  const std::string summary = apps::summarize(options.loop, times, chunks.size());
  if (mpi.rank() == 0) {
    for (const Item& item : greatest) {
      std::printf("%d %llu\n", item.value, static_cast<unsigned long long>(item.index));
    }
    std::printf("%s\n", summary.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = matrix_search::parse_options(argc, argv);
    if (options.help) {
      std::fputs(matrix_search::help_text().c_str(), stdout);
      return EXIT_SUCCESS;
    }
    if (options.make_bytes != 0) {
      make_matrix(options);
      return EXIT_SUCCESS;
    }
    const apps::MpiSession mpi(argc, argv);
    try {
      search(options, mpi);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "matrix_search: rank %d: %s\n", mpi.rank(), error.what());
      MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    return EXIT_SUCCESS;
  } catch (const apps::UsageError& error) {
    if (*error.what()) std::fprintf(stderr, "matrix_search: %s\n", error.what());
    std::fputs("Try 'matrix_search --help' for options and an example.\n", stderr);
    return kUsageExit;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "matrix_search: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
