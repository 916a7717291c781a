#pragma once

#define FUSE_USE_VERSION 35
#include <cstdint>

#include <fuse3/fuse_lowlevel.h>

#include "buffer_pool.hpp"
#include "inode_table.hpp"
#include "options.hpp"
#include "server.hpp"

namespace slowfs {

/// The largest read and write that the kernel sends; also the max_read mount option.
inline constexpr size_t kMaxRequestBytes = size_t{1} << 20;

/// The file system behind the mount: every request is passed to the source directory, and every
/// request for data is answered when the emulated device would have answered it. Hand it to
/// fuse_session_new as user data together with `operations()`. Thread-safe: requests may be
/// processed by any number of threads, and each sleeps in its own until its answer is due, so that
/// as many latencies overlap as there are threads.
class Filesystem {
 public:
  Filesystem(UniqueFd root, const struct stat& status, const Options& options);
  Filesystem(const Filesystem&) = delete;
  Filesystem& operator=(const Filesystem&) = delete;

  static const fuse_lowlevel_ops& operations();

  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] InodeTable& inodes() noexcept { return inodes_; }
  [[nodiscard]] BufferPool& buffers() noexcept { return buffers_; }
  [[nodiscard]] Inode& inode(fuse_ino_t number) noexcept;
  /// The number by which the kernel shall name `inode`.
  [[nodiscard]] fuse_ino_t number(const Inode& inode) const noexcept;

  /// When a request for `bytes` of `inode` that arrived at `arrival_ns` is to be answered. Times
  /// are CLOCK_MONOTONIC.
  [[nodiscard]] uint64_t answer_at(Inode& inode, Speed::Direction direction, uint64_t arrival_ns,
                                   uint64_t bytes);
  /// One of its opens has ended.
  void closed(const Inode& inode);
  void wait_metadata_latency() const;
  void wait_data_latency() const;

 private:
  const Options options_;
  const Speed speed_;
  const uint64_t metadata_latency_ns_;
  Duplex shared_budget_;
  Streams streams_;  // counted where efficiency depends on it
  BufferPool buffers_;
  Inode root_;
  InodeTable inodes_;
};

/// Returns at `deadline_ns` of CLOCK_MONOTONIC, or at once if it has passed.
void sleep_until(uint64_t deadline_ns);

}  // namespace slowfs
