#include "cli/unnamed_file.hpp"

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/statvfs.h>

#include "base/signals_masked.hpp"

namespace ioweave::cli {

Descriptor make_unnamed_file(const std::string& folder, int& error) {
  std::string path = folder + "/.ioweave-measure-XXXXXX";
  const SignalsMasked masked;  // between the two calls the file has a name
  Descriptor file(mkostemp(path.data(), O_CLOEXEC));
  error = errno;
  if (file.is_open()) unlink(path.c_str());
  return file;
}

uint64_t free_bytes_in(const std::string& folder) {
  struct statvfs space {};
  if (statvfs(folder.c_str(), &space) != 0 || space.f_blocks == 0) return UINT64_MAX;
  return uint64_t{space.f_bavail} * space.f_frsize;
}

}  // namespace ioweave::cli
