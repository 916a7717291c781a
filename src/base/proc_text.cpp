#include "base/proc_text.hpp"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "base/descriptor.hpp"

namespace ioweave {

int read_proc_text(const char* path, size_t most, std::string& text) {
  text.clear();
  const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return -errno;
  char block[4096];
  while (text.size() < most) {
    const ssize_t got = read(file.get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) break;
    text.append(block, static_cast<size_t>(got));
  }
  return 0;
}

}  // namespace ioweave
