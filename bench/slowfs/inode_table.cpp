#include "inode_table.hpp"

#include <algorithm>
#include <utility>

#include <unistd.h>

namespace slowfs {

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int UniqueFd::release() noexcept {
  return std::exchange(fd_, -1);
}

void UniqueFd::reset() noexcept {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Inode::Inode(UniqueFd path_fd, const struct stat& status)
    : path_fd_(std::move(path_fd)),
      proc_path_("/proc/self/fd/" + std::to_string(path_fd_.get())),
      device_(status.st_dev),
      number_(status.st_ino),
      seen_mtime_(status.st_mtim),
      seen_size_(status.st_size) {}

bool Inode::cache_is_current(const struct stat& status) {
  const std::lock_guard lock(seen_mutex_);
  const bool same = seen_mtime_.tv_sec == status.st_mtim.tv_sec &&
                    seen_mtime_.tv_nsec == status.st_mtim.tv_nsec && seen_size_ == status.st_size;
  const bool ours = changed_by_us_.exchange(false);
  seen_mtime_ = status.st_mtim;
  seen_size_ = status.st_size;
  return same || ours;
}

Inode* InodeTable::acquire(UniqueFd path_fd, const struct stat& status) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Inode>& slot = inodes_[Key{status.st_dev, status.st_ino}];
  if (!slot) slot = std::make_unique<Inode>(std::move(path_fd), status);
  ++slot->lookups_;
  return slot.get();
}

void InodeTable::forget(Inode* inode, uint64_t count) {
  const std::lock_guard lock(mutex_);
  inode->lookups_ -= std::min(inode->lookups_, count);
  if (inode->lookups_ == 0) inodes_.erase(Key{inode->device_, inode->number_});
}

}  // namespace slowfs
