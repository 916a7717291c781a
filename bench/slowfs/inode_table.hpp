#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include <sys/stat.h>
#include <sys/types.h>

#include "server.hpp"

namespace slowfs {

/// Owns a descriptor. Move-only.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  int release() noexcept;
  void reset() noexcept;

 private:
  int fd_ = -1;
};

/// One file of the source directory that the kernel knows by this object's address.
class Inode {
 public:
  Inode(UniqueFd path_fd, const struct stat& status);

  /// An O_PATH descriptor: keeps the inode alive, and its number from being reused, after unlink.
  [[nodiscard]] int path_fd() const noexcept { return path_fd_.get(); }
  /// The name under which the C library's path calls reach the inode itself.
  [[nodiscard]] const std::string& proc_path() const noexcept { return proc_path_; }

  /// Close-to-open consistency: true if the pages that the kernel holds from earlier opens are
  /// still those of the file, which `status` describes now. Changes made through this file
  /// system never count, for the kernel has seen them. Thread-safe.
  bool cache_is_current(const struct stat& status);
  /// Must be called before a change through this file system reaches the source. Thread-safe.
  void will_change() noexcept { changed_by_us_ = true; }

  Duplex budget;  // used with --per-file only

 private:
  friend class InodeTable;

  UniqueFd path_fd_;
  std::string proc_path_;
  dev_t device_;
  ino_t number_;
  uint64_t lookups_ = 0;  // guarded by the table's mutex

  std::mutex seen_mutex_;
  timespec seen_mtime_;
  off_t seen_size_;
  std::atomic<bool> changed_by_us_{false};
};

/// Every inode that the kernel may name, counted as FUSE counts them: a lookup adds one reference
/// and `forget` drops some. Thread-safe by one mutex; no system call is made under it but close.
class InodeTable {
 public:
  /// Takes the inode behind `path_fd`, or the one already known, and adds a reference.
  Inode* acquire(UniqueFd path_fd, const struct stat& status);
  /// Drops `count` references; the inode dies with the last.
  void forget(Inode* inode, uint64_t count);

 private:
  struct Key {
    dev_t device;
    ino_t number;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const noexcept {
      return std::hash<uint64_t>{}(key.number) ^ (std::hash<uint64_t>{}(key.device) << 1);
    }
  };

  std::mutex mutex_;
  std::unordered_map<Key, std::unique_ptr<Inode>, KeyHash> inodes_;
};

}  // namespace slowfs
