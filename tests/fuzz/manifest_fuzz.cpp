// Any bytes as the manifest of a spread: an error with a sentence, or items that could be read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "stream/manifest/manifest_reader.hpp"

namespace {

using ioweave::stream::ManifestItem;
using ioweave::stream::ManifestReader;

/// One line may stand for more items than there is time.
constexpr uint64_t kMostItems = 100'000;

/// A file in memory, with a path.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("manifest", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] bool fill(const uint8_t* data, size_t size) const {
    return ::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, data, size, 0) == static_cast<ssize_t>(size);
  }
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void read_items(ManifestReader& reader) {
  const auto& totals = reader.totals();
  ManifestItem item;
  std::string why;
  uint64_t items = 0;
  uint64_t bytes = 0;
  uint64_t lost = 0;
  int status = 1;
  for (; items < kMostItems && (status = reader.next(item, why)) == 1; ++items) {
    require(item.number == items);
    if (item.target == ManifestItem::kLost) {
      ++lost;
      continue;
    }
    int64_t end = 0;
    require(item.target < reader.targets().size());
    require(item.offset >= 0 && item.bytes <= totals.largest);
    require(!__builtin_add_overflow(item.offset, item.bytes, &end));
    bytes += item.bytes;
  }
  require(status >= 0);
  if (status == 0) {
    require(items == totals.items && bytes == totals.bytes && lost == totals.lost);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile file;
  require(file.fill(data, size));
  for (const bool relative_only : {false, true}) {
    int error = 0;
    std::string why;
    const auto reader = ManifestReader::open(file.path(), relative_only, error, why);
    require((reader == nullptr) == (error < 0) && (error < 0) == !why.empty());
    if (reader != nullptr) {
      for (const std::string& target : reader->targets()) {
        require(!relative_only || target.starts_with("/proc/self/fd/"));
        require(target.find("/../") == std::string::npos || !relative_only);
      }
      read_items(*reader);
    }
  }
  return 0;
}
