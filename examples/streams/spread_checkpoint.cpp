// A checkpoint spread over several folders, one on each disk, and a run that goes on from it. What
// is computed is heat in a rod; a checkpoint is its step, and then the rod in blocks. It is written
// while the next steps are computed, and all disks write and read at the same time.
//
//   spread_checkpoint [--from OLD] NEW STEPS FOLDER...
//
// Goes on from the checkpoint OLD, computes STEPS steps, hands over the checkpoint NEW, computes
// STEPS more and prints the heat. A checkpoint has a name of its own: remove the old one when the
// new one is there.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <ioweave/read_streams.hpp>
#include <ioweave/spread.hpp>

namespace {

constexpr size_t kPoints = 1 << 20;
constexpr size_t kBlockPoints = 1 << 16;

struct Rod {
  uint64_t step = 0;
  std::vector<double> points = std::vector<double>(kPoints);
};

/// Its left end is hot.
void compute(Rod& rod, int steps) {
  std::vector<double> next(rod.points.size());
  for (int i = 0; i < steps; ++i) {
    rod.points.front() = 1;
    for (size_t at = 1; at + 1 < rod.points.size(); ++at) {
      next[at] = (rod.points[at - 1] + 2 * rod.points[at] + rod.points[at + 1]) / 4;
    }
    next.front() = 1;
    rod.points.swap(next);
    ++rod.step;
  }
}

/// Returns when all items are handed over; their writes go on.
void append_checkpoint(const Rod& rod, ioweave::WriteStream& stream, ioweave::Spread& checkpoint) {
  checkpoint.append(std::as_bytes(std::span(&rod.step, 1)));
  for (size_t at = 0; at < rod.points.size(); at += kBlockPoints) {
    ioweave::Lease lease = stream.lease();
    std::copy_n(rod.points.begin() + static_cast<std::ptrdiff_t>(at), kBlockPoints,
                lease.as<double>().begin());
    checkpoint.append(std::move(lease), kBlockPoints * sizeof(double));
  }
}

Rod restore(ioweave::Service& service, const std::string& manifest) {
  ioweave::ReadStream items(service, manifest);
  Rod rod;
  rod.step = items.next().as<uint64_t>()[0];
  rod.points.clear();
  while (const ioweave::ReadLease block = items.next()) {
    rod.points.insert(rod.points.end(), block.as<double>().begin(), block.as<double>().end());
  }
  return rod;
}

void run(const std::string& from, const std::string& manifest, int steps,
         const std::vector<std::filesystem::path>& folders) {
  ioweave::Service service;
  Rod rod = from.empty() ? Rod() : restore(service, from);
  if (!from.empty()) {
    std::printf("goes on from step %llu\n", static_cast<unsigned long long>(rod.step));
  }
  iow_write_stream_options options{};
  options.buffer_bytes = kBlockPoints * sizeof(double);
  ioweave::WriteStream stream(service, options);
  ioweave::Spread checkpoint(stream, manifest, folders);

  compute(rod, steps);
  append_checkpoint(rod, stream, checkpoint);
  compute(rod, steps);
  checkpoint.end();  // all of it is on the devices, or this throws
  std::printf("step %llu: heat %.9f\n", static_cast<unsigned long long>(rod.step),
              std::accumulate(rod.points.begin(), rod.points.end(), 0.0));
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string from;
  if (words.size() > 1 && words[0] == "--from") {
    from = words[1];
    words.erase(words.begin(), words.begin() + 2);
  }
  const int steps = words.size() > 2 ? std::atoi(words[1].c_str()) : 0;
  if (steps < 1) {
    std::fprintf(stderr, "usage: %s [--from OLD] NEW STEPS FOLDER...\n", argv[0]);
    return 2;
  }
  try {
    run(from, words[0], steps, {words.begin() + 2, words.end()});
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "spread_checkpoint: %s\n", error.what());
    return 1;
  }
}
