#include "support/small_filesystem.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <sched.h>
#include <sys/mount.h>

namespace ioweave::test {
namespace {

/// The command's last words, or nothing where it ended well.
std::string failure_of(const std::string& command, const std::string& log) {
  if (std::system((command + " > '" + log + "' 2>&1 < /dev/null").c_str()) == 0) return {};
  std::string line;
  std::string last;
  for (std::ifstream text(log); std::getline(text, line);) last = line;
  return command.substr(0, command.find(' ')) + " failed: " + last;
}

}  // namespace

SmallFilesystem::SmallFilesystem(uint64_t bytes) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    problem_ = std::string("a mount namespace of its own: ") + std::strerror(errno);
    return;
  }
  const std::string image = dir_.file("image");
  std::ofstream(image).close();
  std::filesystem::resize_file(image, bytes);
  std::filesystem::create_directory(mount_point());
  // No share for root: space ends for everybody at the same byte.
  problem_ = failure_of("mkfs.ext4 -q -F -m 0 '" + image + "'", dir_.file("log"));
  if (problem_.empty()) {
    problem_ =
        failure_of("mount -o loop '" + image + "' '" + mount_point() + "'", dir_.file("log"));
  }
}

SmallFilesystem::~SmallFilesystem() {
  if (problem_.empty()) (void)::umount2(mount_point().c_str(), MNT_DETACH);
}

}  // namespace ioweave::test
