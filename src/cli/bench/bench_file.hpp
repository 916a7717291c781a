#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/descriptor.hpp"

namespace ioweave::cli {

/// The file with which `bench` measures. In a folder it is made, has no name, and so is gone
/// however the command ends. A file that is there already is only read. One thread.
class BenchFile {
 public:
  /// Opens `path`, or makes a file of `bytes` in it. On failure returns null; `why` says what is
  /// wrong and what to do about it.
  static std::unique_ptr<BenchFile> open(const std::string& path, uint64_t bytes, std::string& why);

  /// Writes the whole file, so that no sample has to search for space. `tell` is called with the
  /// bytes so far. Does nothing with a file that is only read. On failure returns false and sets
  /// `why`.
  [[nodiscard]] bool fill(const std::function<void(uint64_t bytes)>& tell, std::string& why);

  /// Brings everything to the device, and drops the file from the page cache. Returns 0 or -errno.
  [[nodiscard]] int settle() const;

  [[nodiscard]] bool read_only() const noexcept { return read_only_; }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }
  /// With O_DIRECT or without; -1 with it where the file system refuses it.
  [[nodiscard]] int fd(bool direct) const noexcept { return direct ? direct_.get() : fd_.get(); }
  /// A path by which other processes of the same user open the file while this object lives.
  [[nodiscard]] std::string path() const;

 private:
  BenchFile(Descriptor fd, bool read_only, uint64_t bytes);

  Descriptor fd_;
  Descriptor direct_;
  const bool read_only_;
  const uint64_t bytes_;
};

}  // namespace ioweave::cli
