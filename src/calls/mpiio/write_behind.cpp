#include "calls/mpiio/write_behind.hpp"

#include <charconv>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <dirent.h>

namespace ioweave::calls {
namespace {

/// More ranges apart from each other are drained.
constexpr size_t kMostRanges = 4096;

/// A descriptor by which the process has the file open to write; -1: none.
int find_open_to_write(const FileId& id) {
  struct Close {
    void operator()(DIR* folder) const noexcept { ::closedir(folder); }
  };
  const std::unique_ptr<DIR, Close> folder(::opendir("/proc/self/fd"));
  while (const dirent* const entry = folder != nullptr ? ::readdir(folder.get()) : nullptr) {
    int fd = -1;
    std::from_chars(entry->d_name, entry->d_name + std::strlen(entry->d_name), fd);
    const int flags = fd >= 0 ? ::fcntl(fd, F_GETFL) : -1;
    stream::FileState state;
    if (flags >= 0 && (flags & O_PATH) == 0 && (flags & O_ACCMODE) != O_RDONLY &&
        stream::find_state(fd, state) == 0 && state.id == id) {
      return fd;
    }
  }
  return -1;
}

}  // namespace

WriteBehind::~WriteBehind() {
  try {
    std::string why;
    static_cast<void>(stream_.end(file_, false, why));
  } catch (const std::bad_alloc&) {
    // The stream's end ends it.
  }
}

bool WriteBehind::take(const FileRange& range, const void* data) noexcept {
  const std::lock_guard guard(lock_);
  if (has_failed_) {
    return false;
  }
  try {
    // The stream writes in any order, so what overlaps must have ended.
    if (outstanding_.size() >= kMostRanges || !outstanding_.add(range)) {
      drain_locked();
      static_cast<void>(outstanding_.add(range));
    }
  } catch (const std::bad_alloc&) {
    drain_locked();
    return false;
  }
  is_dirty_.store(true, std::memory_order_release);
  const int error = stream_.copy(file_, static_cast<const std::byte*>(data),
                                 static_cast<uint64_t>(range.bytes), range.offset);
  note(error);
  // What the stream did not take because of an earlier failure, the program writes by itself.
  return error == 0;
}

void WriteBehind::drain() noexcept {
  if (is_dirty_.load(std::memory_order_acquire)) {
    const std::lock_guard guard(lock_);
    drain_locked();
  }
}

void WriteBehind::drain_locked() noexcept {
  for (bool has_ended = false; !has_ended;) {
    try {
      note(stream_.flush(file_));
      has_ended = true;
    } catch (const std::bad_alloc&) {
      ::usleep(1000);  // what comes behind must not come before
    }
  }
  outstanding_.clear();
  is_dirty_.store(false, std::memory_order_release);
}

void WriteBehind::note(int error) noexcept {
  if (error != 0 && error_ == 0 && !has_failed_) {
    error_ = error;
  }
  has_failed_ = has_failed_ || error != 0;
}

int WriteBehind::take_error() noexcept {
  const std::lock_guard guard(lock_);
  drain_locked();
  const int error = error_;
  error_ = 0;
  return error;
}

std::shared_ptr<WriteBehind> Writers::share(const FileId& id, stream::WriteStream& stream,
                                            size_t most) {
  const std::lock_guard guard(lock_);
  std::erase_if(writers_, [](const auto& writer) { return writer.second.expired(); });
  if (const auto found = writers_.find(id); found != writers_.end()) {
    if (auto writer = found->second.lock()) {
      return writer;
    }
  }
  const int fd = writers_.size() < most ? find_open_to_write(id) : -1;
  if (fd < 0) {
    return nullptr;
  }
  iow_write_file_options options{};
  options.keep = 1;
  std::string why;
  // What MPI has opened, whatever its name has become since.
  const int number = stream.create("/proc/self/fd/" + std::to_string(fd), options, why);
  if (number < 0) {
    return nullptr;
  }
  auto writer = std::make_shared<WriteBehind>(stream, number);
  writers_[id] = writer;
  has_any_.store(true, std::memory_order_release);
  return writer;
}

std::shared_ptr<WriteBehind> Writers::find(const FileId& id) noexcept {
  const std::lock_guard guard(lock_);
  const auto found = writers_.find(id);
  return found != writers_.end() ? found->second.lock() : nullptr;
}

void Writers::drain(const FileId& id) noexcept {
  if (const auto writer = find(id)) {
    writer->drain();
  }
}

/// The first one behind `last`, which becomes its file; null behind all. No file has the inode 0.
std::shared_ptr<WriteBehind> Writers::find_next(FileId& last) noexcept {
  const std::lock_guard guard(lock_);
  for (auto next = writers_.upper_bound(last); next != writers_.end(); ++next) {
    if (auto writer = next->second.lock()) {
      last = next->first;
      return writer;
    }
  }
  return nullptr;
}

void Writers::drain_all() noexcept {
  FileId last;
  while (const auto writer = find_next(last)) {
    writer->drain();
  }
}

int Writers::take_errors() noexcept {
  int first = 0;
  FileId last;
  while (const auto writer = find_next(last)) {
    const int error = writer->take_error();
    first = first != 0 ? first : error;
  }
  return first;
}

}  // namespace ioweave::calls
