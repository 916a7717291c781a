#include "stream/watch/mpiio_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "config/mpiio_variables.hpp"

namespace ioweave::stream {
namespace {

using config::MpiioFile;

constexpr size_t kMostFiles = 1 << 18;

}  // namespace

MpiioFiles::MpiioFiles(const std::string& run_directory) {
  if (!run_directory.empty()) path_ = run_directory + "/" + config::kMpiioFilesName;
}

bool MpiioFiles::refresh() {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  if (!list_.is_open() && !path_.empty()) list_ = Descriptor(open(path_.c_str(), kFlags));
  const size_t before = files_.size();
  while (list_.is_open() && files_.size() < kMostFiles) {
    MpiioFile file;
    if (pread(list_.get(), &file, sizeof file, read_bytes_) != ssize_t{sizeof file}) break;
    read_bytes_ += sizeof file;
    files_.insert(FileId{file.device, file.inode});
  }
  return files_.size() != before;
}

}  // namespace ioweave::stream
