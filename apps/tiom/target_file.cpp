#include "target_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sweep.hpp"

namespace tiom {
namespace {

constexpr size_t kFillBytes = size_t{1} << 20;  // a multiple of every alignment of O_DIRECT

[[noreturn]] void fail(const std::string& what, int error = errno) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

std::string quoted(const std::string& path) {
  return "'" + path + "'";
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

using Pages = std::unique_ptr<void, void (*)(void*)>;

Pages aligned_pages(size_t bytes) {
  Pages pages(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), &std::free);
  if (!pages) throw std::bad_alloc();
  return pages;
}

}  // namespace

TargetFile::TargetFile(const TargetSettings& settings) : settings_(settings) {
  try {
    make();
    if (fd_ < 0) {
      open_existing();
      check_existing();
    }
    if (settings_.direct) set_direct();
    if (place_.empty()) place_ = settings_.path;
  } catch (...) {
    if (fd_ >= 0) close(fd_);
    throw;
  }
}

TargetFile::~TargetFile() {
  if (emptied_again_ && ftruncate(fd_, 0) != 0) {
    // Nothing is lost by it: the file holds what was measured with.
  }
  close(fd_);
}

/// Leaves fd_ alone where the file is there already.
void TargetFile::make() {
  std::string path = settings_.path;
  if (path.empty()) {
    path = "./ioweave-tiom-XXXXXX";
    fd_ = mkostemp(path.data(), O_CLOEXEC);
    if (fd_ < 0) {
      fail("cannot make a file in the current directory; name one elsewhere with --file");
    }
  } else {
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd_ < 0 && errno == EEXIST) return;
    if (fd_ < 0) fail("cannot make " + quoted(path) + "; name another with --file");
  }
  place_ = settings_.path.empty() ? "." : folder_of(path);
  unlink(path.c_str());
  if (settings_.direct) set_direct();
  fill();
}

void TargetFile::open_existing() {
  const int access = settings_.write ? O_RDWR : O_RDONLY;
  fd_ = open(settings_.path.c_str(), access | O_CLOEXEC);
  if (fd_ < 0) fail("cannot open " + quoted(settings_.path));
}

void TargetFile::check_existing() {
  const std::string name = quoted(settings_.path);
  struct stat status {};
  if (fstat(fd_, &status) != 0) fail("cannot look at " + name);
  if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) {
    throw std::runtime_error(name + " is neither a regular file nor a block device");
  }
  const off_t size = lseek(fd_, 0, SEEK_END);
  if (size < 0) fail("cannot tell the size of " + name);
  if (size > 0 && settings_.write && !settings_.overwrite) {
    throw std::runtime_error(name +
                             " holds data, and --op write would destroy it; name a file "
                             "that does not exist, or give --overwrite");
  }
  if (size == 0 && !settings_.write) {
    // Opened for reading only, and there is nothing in it to lose.
    close(fd_);
    fd_ = open(settings_.path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd_ < 0) fail(name + " is empty and cannot be filled");
  }
  emptied_again_ = size == 0 && S_ISREG(status.st_mode);
  const bool may_fill = S_ISREG(status.st_mode) && (size == 0 || settings_.write);
  const bool short_of_bytes = static_cast<uint64_t>(size) < settings_.bytes;
  if (short_of_bytes && !may_fill) {
    throw std::runtime_error(name + " has " + std::to_string(size) +
                             " bytes, and --bytes asks for " + size_text(settings_.bytes) +
                             "; lower --bytes, or name a file that "
                             "does not exist");
  }
  // An old file may have holes, and a device gets no more data than asked for.
  if (may_fill) fill();
}

void TargetFile::set_direct() const {
  const int flags = fcntl(fd_, F_GETFL);
  if (flags < 0 || fcntl(fd_, F_SETFL, flags | O_DIRECT) != 0) {
    const int error = errno;
    const std::string where =
        settings_.path.empty() ? "the current directory" : quoted(settings_.path);
    fail("the file system of " + where +
             " refuses O_DIRECT; name a file on another one with --file, or give --direct off",
         error);
  }
}

void TargetFile::fill() const {
  const Pages pages = aligned_pages(kFillBytes);
  // Noise: a file system that compresses or finds duplicates shall have no advantage.
  std::mt19937_64 random(1);
  auto* const words = static_cast<uint64_t*>(pages.get());
  std::generate_n(words, kFillBytes / sizeof *words, random);
  for (uint64_t offset = 0; offset < settings_.bytes; offset += kFillBytes) {
    words[0] = offset;
    size_t done = 0;
    while (done < kFillBytes) {
      const ssize_t put = pwrite(fd_, static_cast<char*>(pages.get()) + done, kFillBytes - done,
                                 static_cast<off_t>(offset + done));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) {
        fail("cannot fill the file with " + size_text(settings_.bytes) +
                 " (--bytes); lower --bytes or name a file elsewhere with --file",
             put == 0 ? ENOSPC : errno);
      }
      done += static_cast<size_t>(put);
    }
  }
  if (fdatasync(fd_) != 0) fail("cannot write the file out");
}

void TargetFile::check_block(uint64_t block_bytes) const {
  const Pages pages = aligned_pages(block_bytes);
  // The second block where there is one: its offset is as odd as the size is.
  const uint64_t offset = settings_.bytes >= 2 * block_bytes ? block_bytes : 0;
  const ssize_t got = pread(fd_, pages.get(), block_bytes, static_cast<off_t>(offset));
  if (got >= 0) return;
  const int error = errno;
  const std::string hint =
      settings_.direct && error == EINVAL
          ? "; with O_DIRECT the size must be a multiple of the device's sector, often 4k: give "
            "another --block, or --direct off"
          : "";
  throw std::runtime_error("cannot read a block of " + size_text(block_bytes) + ": " +
                           std::strerror(error) + hint);
}

void TargetFile::settle() const {
  if (settings_.write) fdatasync(fd_);
  if (!settings_.direct) posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace tiom
