// ioweave::omp::TaskIo, and that the header's state is one in a program of two sources: a task may
// begin in one of them and end in the other. Status 0, or 77 where detach cannot be had.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "ioweave/openmp.h"

int end_in_other_source(iow_service* service);

namespace {

void check(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "not so: %s\n", what);
    std::exit(1);
  }
}

void write_then_read(iow_service* service, int fd) {
  constexpr size_t kBlocks = 200;
  std::vector<std::string> texts(kBlocks);
  std::vector<ssize_t> written(kBlocks);
  std::vector<ssize_t> read(kBlocks);
  std::vector<char> found(kBlocks * 8);
#pragma omp parallel num_threads(2)
#pragma omp single
  for (size_t i = 0; i < kBlocks; ++i) {
    texts[i] = std::to_string(10000000 + i);
    ssize_t* const result = &written[i];  // what the two tasks share
    const auto offset = static_cast<off_t>(8 * i);
    auto event = omp_event_handle_t{};
#pragma omp task detach(event) depend(out : result[0])
    {
      const ioweave::omp::TaskIo io(service, event);
      check(io.error() == 0, "a task begins");
      check(iow_ta_pwrite(service, fd, texts[i].data(), 8, offset, result) == 0, "a write");
    }
#pragma omp task detach(event) depend(in : result[0])
    {
      check(iow_omp_begin(service, event) == 0, "a task begins in this source");
      check(iow_ta_pread(service, fd, &found[8 * i], 8, offset, &read[i]) == 0, "a read");
      check(end_in_other_source(service) == 0, "and ends in the other one");
    }
  }
  for (size_t i = 0; i < kBlocks; ++i) {
    check(written[i] == 8 && read[i] == 8, "results");
    check(texts[i] == std::string(&found[8 * i], 8), "what was written is read");
  }
}

}  // namespace

int main() {
  const char* why = nullptr;
  if (iow_omp_check(&why) != 0) {
    std::printf("skipped: %s\n", why);
    return 77;
  }
  std::FILE* const file = std::tmpfile();
  check(file != nullptr, "a temporary file");
  iow_service* service = nullptr;
  check(iow_service_open(&service, nullptr, nullptr) == 0, "a service");
  write_then_read(service, fileno(file));
  iow_service_close(service);
  std::fclose(file);
}
