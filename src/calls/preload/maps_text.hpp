#pragma once

// What the process has mapped, as /proc/self/maps tells. Async-signal-safe: no memory, no library.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "engine/raw_syscall.hpp"

namespace ioweave::calls {

/// Reads the lines one after the other.
class MapsText {
 public:
  struct Line {
    bool is_writable = false;
    bool is_shared = false;
    uint64_t device = 0;
    uint64_t inode = 0;     ///< 0: no file
    const char* path = "";  ///< until the next line
  };

  MapsText() noexcept
      : fd_(static_cast<int>(
            engine::raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0))),
        is_whole_(fd_ >= 0) {}
  ~MapsText() {
    if (fd_ >= 0) engine::raw_syscall(SYS_close, fd_);
  }
  MapsText(const MapsText&) = delete;
  MapsText& operator=(const MapsText&) = delete;

  /// Returns false behind the last line.
  [[nodiscard]] bool next(Line& line) noexcept {
    char* end = end_of_line();
    while (end == nullptr && fill()) end = end_of_line();
    if (end == nullptr) {
      is_whole_ = is_whole_ && length_ == begin_;
      return false;
    }
    *end = '\0';
    is_whole_ = parse(text_ + begin_, line) && is_whole_;
    begin_ = static_cast<size_t>(end - text_) + 1;
    return true;
  }

  /// Whether all lines could be read so far.
  [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }

 private:
  [[nodiscard]] char* end_of_line() noexcept {
    return static_cast<char*>(std::memchr(text_ + begin_, '\n', length_ - begin_));
  }

  /// Reads more behind what is left. Returns false at the end.
  [[nodiscard]] bool fill() noexcept {
    std::memmove(text_, text_ + begin_, length_ - begin_);
    length_ -= begin_;
    begin_ = 0;
    if (fd_ < 0 || length_ == sizeof text_) return false;
    const long got = engine::raw_syscall(SYS_read, fd_, text_ + length_, sizeof text_ - length_);
    if (got < 0) is_whole_ = false;
    length_ += got > 0 ? static_cast<size_t>(got) : 0;
    return got > 0;
  }

  /// "55d0-55d4 rw-s 00000000 fd:01 1234   /path"
  [[nodiscard]] static bool parse(char* text, Line& line) noexcept {
    line = {};
    const char* const rights = std::strchr(text, ' ');
    if (rights == nullptr || std::strlen(rights) < 6) return false;
    line.is_writable = rights[2] == 'w';
    line.is_shared = rights[4] == 's';
    const char* at = std::strchr(rights + 1, ' ');  // before the offset
    at = at != nullptr ? std::strchr(at + 1, ' ') : nullptr;
    if (at == nullptr) return false;
    char* end = nullptr;
    constexpr int kHexadecimal = 16;
    const auto major = static_cast<unsigned>(std::strtoul(at + 1, &end, kHexadecimal));
    if (*end != ':') return false;
    const auto minor = static_cast<unsigned>(std::strtoul(end + 1, &end, kHexadecimal));
    line.device = makedev(major, minor);
    line.inode = std::strtoull(end, &end, 10);
    while (*end == ' ') ++end;
    line.path = end;
    return true;
  }

  int fd_;
  bool is_whole_;
  size_t begin_ = 0;
  size_t length_ = 0;
  char text_[6144];  // a line is a path and 73 characters
};

}  // namespace ioweave::calls
