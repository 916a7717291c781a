#include "cli/bench/bench_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/format.hpp"
#include "cli/unnamed_file.hpp"
#include "config/settings.hpp"

namespace ioweave::cli {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

/// The bytes of a regular file or a block device; 0 where there are none, or it cannot be asked.
uint64_t bytes_of(int fd, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return static_cast<uint64_t>(status.st_size);
  uint64_t bytes = 0;
  return ioctl(fd, BLKGETSIZE64, &bytes) == 0 ? bytes : 0;
}

Descriptor open_existing(const std::string& path, const struct stat& status, uint64_t& bytes,
                         std::string& why) {
  if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) {
    why = quoted_name(path) + " is no folder, file or block device; name a folder on the device";
    return Descriptor{};
  }
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    why = "cannot read " + quoted_name(path) + ": " + std::strerror(errno);
    return file;
  }
  bytes = std::min(bytes, bytes_of(file.get(), status));
  if (bytes < kPieceBytes) {
    why = quoted_name(path) + " is shorter than 1 MiB; name a longer file, or a folder";
    file.reset();
  }
  return file;
}

Descriptor make_in(const std::string& folder, uint64_t bytes, std::string& why) {
  const uint64_t free_bytes = free_bytes_in(folder);
  if (bytes > free_bytes) {
    why = "the file of " + config::size_text(bytes) + " does not fit: " + quoted_name(folder) +
          " has " + (free_bytes > 0 ? bytes_text(free_bytes) : "nothing") + " left; lower --size";
    return Descriptor{};
  }
  int error = 0;
  Descriptor file = make_unnamed_file(folder, error);
  if (!file.is_open()) {
    why = "cannot make a file in " + quoted_name(folder) + ": " + std::strerror(error) +
          "; name a folder that you may write to, or a file, which is only read";
  }
  return file;
}

}  // namespace

BenchFile::BenchFile(Descriptor fd, bool read_only, uint64_t bytes)
    : fd_(std::move(fd)),
      direct_(::open(path().c_str(), (read_only ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC)),
      read_only_(read_only),
      bytes_(bytes) {}

std::unique_ptr<BenchFile> BenchFile::open(const std::string& path, uint64_t bytes,
                                           std::string& why) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    why = "cannot look at " + quoted_name(path) + ": " + std::strerror(errno);
    return nullptr;
  }
  const bool is_folder = S_ISDIR(status.st_mode);
  Descriptor file = is_folder ? make_in(path, bytes, why) : open_existing(path, status, bytes, why);
  if (!file.is_open()) return nullptr;
  return std::unique_ptr<BenchFile>(new BenchFile(std::move(file), !is_folder, bytes));
}

bool BenchFile::fill(const std::function<void(uint64_t bytes)>& tell, std::string& why) {
  if (read_only_) return true;
  std::mt19937_64 random(std::random_device{}());
  std::vector<uint64_t> piece(kPieceBytes / sizeof(uint64_t));
  for (uint64_t offset = 0; offset < bytes_;) {
    std::ranges::generate(piece, random);
    const size_t length = std::min<uint64_t>(kPieceBytes, bytes_ - offset);
    const ssize_t written = pwrite(fd_.get(), piece.data(), length, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      why = std::string("cannot write the file to measure with: ") +
            std::strerror(written < 0 ? errno : ENOSPC) + ". Nothing was left there";
      return false;
    }
    offset += static_cast<uint64_t>(written);
    tell(offset);
  }
  if (const int error = settle()) {
    why = std::string("cannot write the file to measure with: ") + std::strerror(-error) +
          ". Nothing was left there";
    return false;
  }
  return true;
}

int BenchFile::settle() const {
  if (!read_only_ && fdatasync(fd_.get()) != 0) return -errno;
  posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
  return 0;
}

std::string BenchFile::path() const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd_.get());
}

}  // namespace ioweave::cli
