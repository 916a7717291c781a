// Loads a device: threads read files of their own again and again, in large pieces past the page
// cache, until the program is told to end (SIGTERM, SIGINT). Then one JSON line tells how much they
// moved. It is the heavy I/O beside which `bench/run ppis` measures.

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "driver.hpp"
#include "options.hpp"

namespace {

using namespace ioweave::bench;

std::atomic<bool> is_over = false;

struct Settings {
  std::filesystem::path directory;
  unsigned streams = 2;
  uint64_t file_bytes = 256 << 20;
  uint64_t piece_bytes = 1 << 20;
  bool prepare_only = false;
};

std::filesystem::path file_of(const Settings& settings, unsigned number) {
  return settings.directory / ("load." + std::to_string(number));
}

void prepare(const Settings& settings) {
  const Buffer piece(settings.piece_bytes);
  for (unsigned i = 0; i < settings.streams; ++i) {
    const File file(file_of(settings, i), O_WRONLY | O_CREAT);
    for (uint64_t done = 0; done < settings.file_bytes; done += piece.bytes()) {
      check_errno(pwrite(file.fd(), piece.data(), piece.bytes(), static_cast<off_t>(done)),
                  "pwrite");
    }
    check_errno(fdatasync(file.fd()), "fdatasync");
  }
}

uint64_t read_on(const Settings& settings, unsigned number) {
  const File file(file_of(settings, number), O_RDONLY | O_DIRECT);
  const Buffer piece(settings.piece_bytes);
  uint64_t moved = 0;
  while (!is_over) {
    const uint64_t at = moved % settings.file_bytes;
    const int64_t got =
        check_errno(pread(file.fd(), piece.data(), piece.bytes(), static_cast<off_t>(at)), "pread");
    if (static_cast<uint64_t>(got) != piece.bytes()) {
      die("a file of the load is too short");
    }
    moved += static_cast<uint64_t>(got);
  }
  return moved;
}

int run(int argc, char** argv) {
  Settings settings;
  Options app("Loads a device with large sequential reads until it is told to end");
  std::string directory;
  app.add("--directory", directory, "where its files are").required().existing_directory();
  app.add("--streams", settings.streams).between(1, 64);
  app.add("--file-bytes", settings.file_bytes, "of each file, whole pieces");
  app.add("--piece-bytes", settings.piece_bytes).between(4096, 1 << 30);
  app.add_flag("--prepare", settings.prepare_only, "make the files, and end");
  app.parse(argc, argv);
  settings.directory = directory;
  if (settings.file_bytes == 0 || settings.file_bytes % settings.piece_bytes != 0) {
    die("--file-bytes must be a multiple of --piece-bytes");
  }
  if (settings.prepare_only) {
    prepare(settings);
    return 0;
  }
  std::signal(SIGTERM, [](int) { is_over = true; });
  std::signal(SIGINT, [](int) { is_over = true; });
  const uint64_t start_ns = ioweave::now_ns();
  std::atomic<uint64_t> moved = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < settings.streams; ++i) {
      threads.emplace_back([&, i] { moved += read_on(settings, i); });
    }
  }
  const double seconds = seconds_since(start_ns);
  print_result({{"seconds", seconds}, {"bytes_per_s", static_cast<double>(moved) / seconds}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}
