#pragma once

// The files of a plan: those of the program, and the duplicates that the plan reads ahead from.

#include <atomic>
#include <cerrno>
#include <climits>
#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_id.hpp"
#include "file.hpp"
#include "module.hpp"

namespace ioweave::python {

inline constexpr int kIrregular = -ENOTBLK;  ///< no regular file; no errno of any call here

/// A file of the program while a call uses it: a Descriptor, a number, or an object with fileno().
class UsedFile {
 public:
  /// Throws ValueError where it is closed, TypeError where it is no file.
  explicit UsedFile(nb::handle file) : shown_(nb::borrow(file)) {
    if (nb::isinstance<Descriptor>(file)) {
      descriptor_ = nb::cast<Descriptor*>(file);
      users_ = descriptor_->begin_use();
      fd_ = descriptor_->fd();
    } else if (fd_ = PyObject_AsFileDescriptor(file.ptr()); fd_ < 0) {
      throw nb::python_error();
    }
  }
  ~UsedFile() { end(); }
  UsedFile(const UsedFile&) = delete;
  UsedFile& operator=(const UsedFile&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }
  /// It may be closed from now on. Needs no GIL.
  void end() noexcept {
    if (users_ != nullptr) {
      std::exchange(users_, nullptr)->end();
    }
  }
  /// As its errors name it.
  [[nodiscard]] FileName name() const {
    if (descriptor_ != nullptr) {
      return descriptor_->name();
    }
    const nb::object name = nb::getattr(shown_, "name", nb::none());
    return {name.is_none() ? nb::int_(fd_) : name};
  }

 private:
  const nb::object shown_;
  Descriptor* descriptor_ = nullptr;
  std::shared_ptr<Users> users_;
  int fd_ = -1;
};

/// Duplicates of the program's descriptors, one for each file and way of reading it. Any thread,
/// with or without the GIL.
class KeptFiles {
 public:
  KeptFiles() = default;
  ~KeptFiles() { close_all(); }
  KeptFiles(const KeptFiles&) = delete;
  KeptFiles& operator=(const KeptFiles&) = delete;

  /// The duplicate for a descriptor, or -errno, or kIrregular.
  int keep(int fd) {
    Key key;
    const int flags = ::fcntl(fd, F_GETFL);
    if (const int error = flags < 0 ? -errno : key_of(fd, flags, key); error != 0) {
      return error;
    }
    const std::lock_guard guard(lock_);
    const auto found = kept_.find(key);
    if (found != kept_.end()) {
      return found->second;
    }
    const int kept = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (kept < 0) {
      return -errno;
    }
    kept_.emplace(key, kept);
    return kept;
  }

  /// So many are about to be given to the plan, or may be: none is closed meanwhile.
  void begin_giving(size_t count) noexcept { giving_.fetch_add(count); }
  void end_giving(size_t count) noexcept { giving_.fetch_sub(count); }

  /// Takes the duplicates for a file out, for the caller to close; none while some are about to be
  /// given to the plan.
  std::vector<int> take(int fd) {
    std::vector<int> taken;
    Key key;
    if (key_of(fd, 0, key) != 0) {
      return taken;
    }
    const std::lock_guard guard(lock_);
    // Who begins to give after this line finds them gone.
    if (giving_.load() == 0) {
      for (auto place = kept_.lower_bound({key.file, INT_MIN});
           place != kept_.end() && place->first.file == key.file; place = kept_.erase(place)) {
        taken.push_back(place->second);
      }
    }
    return taken;
  }
  /// Nobody uses them any more.
  void close_all() noexcept {
    for (const auto& [key, fd] : kept_) {
      ::close(fd);
    }
    kept_.clear();
  }

 private:
  struct Key {
    FileId file;
    int flags = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  static int key_of(int fd, int flags, Key& key) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
      return -errno;
    }
    key = {FileId::of(status), flags & (O_ACCMODE | O_DIRECT)};
    return S_ISREG(status.st_mode) ? 0 : kIrregular;
  }

  std::mutex lock_;
  std::map<Key, int> kept_;
  std::atomic<size_t> giving_ = 0;
};

}  // namespace ioweave::python
