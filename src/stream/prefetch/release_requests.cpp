#include "stream/prefetch/release_requests.hpp"

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/segment.hpp"

namespace ioweave::stream {
namespace {

constexpr size_t kMostAtOnce = 64;

bool make_fifo(const std::string& path) {
  return mkfifo(path.c_str(), 0600) == 0;
}

}  // namespace

ReleaseRequests::ReleaseRequests(const std::string& run_directory)
    : answers_(run_directory + "/" + stats::kReleasedName) {
  const std::string path = run_directory + "/" + stats::kReleaseName;
  if (run_directory.empty() || !make_fifo(answers_) || !make_fifo(path)) return;
  // For writing as well: a FIFO that nobody else has open is not at its end.
  requests_ = Descriptor(open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
}

size_t ReleaseRequests::take() const noexcept {
  std::array<char, kMostAtOnce> bytes;
  const ssize_t taken = requests_.is_open() ? read(requests_.get(), bytes.data(), bytes.size()) : 0;
  return taken > 0 ? static_cast<size_t>(taken) : 0;
}

void ReleaseRequests::answer(size_t asked, bool had_open) const noexcept {
  std::array<char, kMostAtOnce> bytes;
  bytes.fill(had_open ? stats::kHadFilesOpen : stats::kHadNoneOpen);
  const Descriptor answers(open(answers_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!answers.is_open()) return;  // nobody waits any more
  (void)!write(answers.get(), bytes.data(), std::min(asked, bytes.size()));
}

}  // namespace ioweave::stream
