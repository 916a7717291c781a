// Storage I/O inside OpenMP tasks: what bound reads of the page cache in a task with detach cost
// beside calls of pread(2) in a task.

#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "driver.hpp"
#include "ioweave/openmp.h"
#include "options.hpp"

namespace {

using namespace ioweave::bench;

constexpr size_t kBlockBytes = 4096;
/// Tasks between two waits: well below what makes libgomp run tasks in their parent.
constexpr unsigned kWindow = 32;

struct Settings {
  std::string path;
  std::string what;
  unsigned rounds = 10;
  unsigned calls = 20'000;
  size_t per_task = 16;
  int workers = 2;
};

/// What a task reads: `count` times the same block, to one place.
struct Reads {
  int fd;
  size_t count;
  std::byte* buffer;
  off_t offset;
  ssize_t* results;
};

void read_plainly(const Reads& reads) {
#pragma omp task firstprivate(reads)
  for (size_t i = 0; i < reads.count; ++i) {
    reads.results[i] = pread(reads.fd, reads.buffer, kBlockBytes, reads.offset);
  }
}

void read_bound(iow_service* service, const Reads& reads) {
  omp_event_handle_t event{};
#pragma omp task detach(event) firstprivate(reads)
  {
    const ioweave::omp::TaskIo io(service, event);
    for (size_t i = 0; i < reads.count; ++i) {
      check(iow_ta_pread(service, reads.fd, reads.buffer, kBlockBytes, reads.offset,
                         &reads.results[i]),
            "iow_ta_pread");
    }
  }
}

/// Nanoseconds per call of about `calls` calls, in tasks that are created by create(reads).
template <typename Create>
double nanoseconds_per_call(const Settings& settings, const File& file, RandomBlocks offsets,
                            Create create) {
  const Buffer buffers(kWindow * kBlockBytes);
  std::vector<ssize_t> results(kWindow * settings.per_task, 0);
  size_t done = 0;
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
#pragma omp parallel num_threads(settings.workers)
#pragma omp single
  {
    start_ns = ioweave::now_ns();
    for (; done < settings.calls; done += kWindow * settings.per_task) {
#pragma omp taskgroup
      for (unsigned i = 0; i < kWindow; ++i) {
        create(Reads{file.fd(), settings.per_task, buffers.data() + i * kBlockBytes, offsets.next(),
                     &results[i * settings.per_task]});
      }
      for (const ssize_t result : results) {
        if (result != static_cast<ssize_t>(kBlockBytes)) {
          die("a read failed or was short: " + std::to_string(result));
        }
      }
    }
    end_ns = ioweave::now_ns();
  }
  return static_cast<double>(end_ns - start_ns) / static_cast<double>(done);
}

void compare(const Settings& settings, iow_service* service) {
  const File file(settings.path, O_RDONLY);
  const auto bound = [service](const Reads& reads) { read_bound(service, reads); };
  for (unsigned round = 0; round < settings.rounds; ++round) {
    const RandomBlocks offsets(file.size(), kBlockBytes, round);
    const bool ours_first = round % 2 == 0;
    double task_ns = ours_first ? nanoseconds_per_call(settings, file, offsets, bound) : 0;
    const double plain_ns = nanoseconds_per_call(settings, file, offsets, read_plainly);
    task_ns = ours_first ? task_ns : nanoseconds_per_call(settings, file, offsets, bound);
    print_result({{"task_ns", task_ns}, {"plain_ns", plain_ns}});
  }
}

int run(int argc, char** argv) {
  Settings settings;
  Options app("storage I/O inside OpenMP tasks");
  app.add("--file", settings.path).required();
  app.add("--what", settings.what).one_of({"cached"}).required();
  app.add("--rounds", settings.rounds).positive();
  app.add("--calls", settings.calls, "per round").positive();
  app.add("--per-task", settings.per_task, "calls in each task").positive();
  app.add("--workers", settings.workers).positive();
  app.parse(argc, argv);
  const char* why = nullptr;
  if (iow_omp_check(&why) != 0) {
    die(why);
  }
  iow_service* service = nullptr;
  check(iow_service_open(&service, nullptr, nullptr), "iow_service_open");
  compare(settings, service);
  iow_service_close(service);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}
