// Storage I/O inside the tasks of oneTBB: what a call adds that needs no device, what a pause and
// resume costs beside the device's own latency, and many transfers pending at once.

#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_group.h>

#include "base/clock.hpp"
#include "driver.hpp"
#include "ioweave/tasks.h"
#include "options.hpp"

namespace {

using namespace ioweave::bench;

constexpr size_t kBlockBytes = 4096;

struct Settings {
  std::string path;
  std::string what = "cached";
  unsigned rounds = 10;
  unsigned calls = 2000;
  unsigned workers = 2;
};

/// Runs in one task: nanoseconds per call of `read`, which has the arguments and result of
/// pread(2).
template <typename Read>
double nanoseconds_per_call(const Settings& settings, RandomBlocks offsets, Read read) {
  double result = 0;
  oneapi::tbb::task_group group;
  group.run_and_wait([&] {
    const Buffer buffer(kBlockBytes);
    const uint64_t start_ns = ioweave::now_ns();
    for (unsigned i = 0; i < settings.calls; ++i) {
      const ssize_t bytes = read(buffer.data(), kBlockBytes, offsets.next());
      if (bytes != static_cast<ssize_t>(kBlockBytes)) {
        die("read failed or was short: " + std::to_string(bytes));
      }
    }
    result = static_cast<double>(ioweave::now_ns() - start_ns) / settings.calls;
  });
  return result;
}

/// iow_pread() against pread(2) in a task, in turn: of the page cache, or of the device.
void compare(const Settings& settings, iow_service* service, bool direct) {
  const File file(settings.path, O_RDONLY | (direct ? O_DIRECT : 0));
  const auto plain = [fd = file.fd()](void* data, size_t bytes, off_t offset) {
    return pread(fd, data, bytes, offset);
  };
  const auto in_task = [fd = file.fd(), service](void* data, size_t bytes, off_t offset) {
    return iow_pread(service, fd, data, bytes, offset);
  };
  for (unsigned round = 0; round < settings.rounds; ++round) {
    const RandomBlocks offsets(file.size(), kBlockBytes, round);
    const bool ours_first = round % 2 == 0;
    double task_ns = ours_first ? nanoseconds_per_call(settings, offsets, in_task) : 0;
    const double plain_ns = nanoseconds_per_call(settings, offsets, plain);
    task_ns = ours_first ? task_ns : nanoseconds_per_call(settings, offsets, in_task);
    print_result({{"task_ns", task_ns}, {"plain_ns", plain_ns}});
  }
}

/// A line of /proc/self/status in KiB.
double status_kib(const char* name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name, 0) == 0) {
      return std::stod(line.substr(std::strlen(name) + 1));
    }
  }
  die("no such line in /proc/self/status");
}

/// `calls` tasks, each with one transfer bound to it, as many as can be at once.
void pend(const Settings& settings, iow_service* service) {
  const File file(settings.path, O_RDONLY | O_DIRECT);
  const Buffer buffers(settings.calls * kBlockBytes);
  std::vector<ssize_t> results(settings.calls);
  std::atomic<unsigned> ended{0};
  const uint64_t blocks = file.size() / kBlockBytes;
  oneapi::tbb::parallel_for(0u, settings.calls, [&](unsigned i) {
    const auto done = [](void* user) { static_cast<std::atomic<unsigned>*>(user)->fetch_add(1); };
    check(iow_task_begin(service, done, &ended), "iow_task_begin");
    check(iow_ta_pread(service, file.fd(), buffers.data() + i * kBlockBytes, kBlockBytes,
                       static_cast<off_t>(i % blocks * kBlockBytes), &results[i]),
          "iow_ta_pread");
    check(iow_task_end(service), "iow_task_end");
  });
  const double pending = settings.calls - ended.load();
  while (ended.load() != settings.calls) {
    usleep(1000);
  }
  for (const ssize_t result : results) {
    if (result != static_cast<ssize_t>(kBlockBytes)) {
      die("a bound read failed or was short: " + std::to_string(result));
    }
  }
  print_result({{"pending", pending}, {"peak_rss_mib", status_kib("VmHWM:") / 1024}});
}

int run(int argc, char** argv) {
  Settings settings;
  Options app("storage I/O inside oneTBB tasks");
  app.add("--file", settings.path).required();
  app.add("--what", settings.what).one_of({"cached", "pause", "pending"});
  app.add("--rounds", settings.rounds).positive();
  app.add("--calls", settings.calls, "per round").positive();
  app.add("--workers", settings.workers).positive();
  app.parse(argc, argv);
  const oneapi::tbb::global_control limit(oneapi::tbb::global_control::max_allowed_parallelism,
                                          settings.workers);
  iow_options options{};
  options.tasks = IOW_TASKS_TBB;
  options.required = 1;
  iow_service* service = nullptr;
  char* why = nullptr;
  if (const int error = iow_service_open(&service, &options, &why); error != 0) {
    die(why != nullptr ? why : "iow_service_open", error);
  }
  if (settings.what == "pending") {
    pend(settings, service);
  } else {
    compare(settings, service, settings.what == "pause");
  }
  iow_service_close(service);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return ioweave::bench::guarded(run, argc, argv);
}
