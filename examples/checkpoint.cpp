// Writes checkpoints behind the computation, at most two at a time on a device with a budget, and
// makes sure that the last one is on stable storage before it says so.
//
//   checkpoint FILE COUNT
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <ioweave/ioweave.hpp>

namespace {

constexpr size_t kStateBytes = 8 << 20;

struct Checkpoint {
  Checkpoint(const std::vector<std::byte>& of, int fd, off_t offset)
      : state(of), request(ioweave::Request::write(fd, state, offset)) {}

  std::vector<std::byte> state;
  ioweave::Request request;  // of `state`, which it must not outlive
};

/// A flow of class write_behind: it yields to whatever somebody waits for, and each of its writes
/// holds 100 of the device's 200 MB/s, so that two run at once.
uint32_t checkpoint_flow(ioweave::Service& service) {
  iow_device_options scratch{};
  scratch.scheduling = IOW_SCHEDULE_STRICT;
  scratch.budget_mb_per_s = 200;
  iow_flow_options flow{};
  flow.device = service.create_device("scratch", scratch);
  flow.priority = IOW_WRITE_BEHIND;
  flow.constraint_mb_per_s = 100;
  return service.create_flow("checkpoint", flow);
}

void run(int fd, int count) {
  ioweave::Service service;
  const uint32_t flow = checkpoint_flow(service);
  std::list<Checkpoint> written;  // a list: requests must not move
  std::vector<std::byte> state(kStateBytes);
  for (int step = 0; step < count; ++step) {
    for (std::byte& cell : state) {  // the computation
      cell = static_cast<std::byte>(std::to_integer<int>(cell) + step);
    }
    const off_t offset = static_cast<off_t>(step) * static_cast<off_t>(kStateBytes);
    service.submit(written.emplace_back(state, fd, offset).request.flow(flow));
  }
  for (Checkpoint& checkpoint : written) {
    if (service.wait(checkpoint.request) != kStateBytes) {
      throw std::system_error(ENOSPC, std::generic_category(), "short write");
    }
  }
  service.fsync(fd);
  std::printf("%d checkpoints are on stable storage\n", count);
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc == 3 ? std::atoi(argv[2]) : 0;
  if (count < 1) {
    std::fprintf(stderr, "usage: %s FILE COUNT\n", argv[0]);
    return 2;
  }
  const int fd = ::open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    std::perror(argv[1]);
    return 1;
  }
  try {
    run(fd, count);
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "checkpoint: %s: %s\n", argv[1], error.what());
    return 1;
  }
  ::close(fd);
}
