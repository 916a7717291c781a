#pragma once

// Services and open files.

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "ioweave/ioweave.hpp"
#include "module.hpp"

namespace ioweave::python {

/// What an error calls a file.
struct FileName {
  nb::object path;      ///< str, bytes or None
  bool direct = false;  ///< opened with O_DIRECT, whose EINVAL needs a word more
};

/// Throws the OSError of an errno.
[[noreturn]] void raise_os_error(int error, const FileName& name);
[[noreturn]] void raise_path_error(int error, const std::string& path);

/// A path as a str.
[[nodiscard]] nb::object path_object(const std::string& path);

/// Who uses an open file now: it is not closed meanwhile, as the number of a descriptor that was
/// closed may be another file's. Any thread, with or without the GIL.
class Users {
 public:
  /// False where the file is closed. Each that is true is followed by an end().
  [[nodiscard]] bool begin() noexcept;
  void end() noexcept;
  /// Refuses further ones; false where that is so already.
  bool refuse() noexcept;
  /// Takes refuse() back.
  void admit() noexcept;
  [[nodiscard]] bool refused() const noexcept;
  /// After refuse(): sleeps until the last has ended, or a signal. Whether it has ended.
  bool sleep_until_none() noexcept;

 private:
  std::atomic<uint32_t> word_ = 0;  ///< their number, and a bit for refuse()
};

/// A service. Any thread.
class OpenService {
 public:
  /// Throws std::system_error, whose text names what is wrong. `keeps_log`: the lines of its
  /// policy's event log are kept for take_log().
  explicit OpenService(iow_options options, bool keeps_log = false);

  [[nodiscard]] iow_service* raw() const { return service_.raw(); }
  [[nodiscard]] std::string engine() const { return service_.engine(); }
  [[nodiscard]] std::string fallback_reason() const { return service_.fallback_reason(); }

  /// What the log has said since the last call, lines with their ends.
  std::string take_log();
  /// Nobody will take it any more.
  void stop_log();

 private:
  struct Log {
    std::mutex lock;
    std::string text;
    bool is_stopped = false;
  };
  std::unique_ptr<Log> log_;  ///< before the service, which writes to it until it has ended
  Service service_;
};

/// An open file. Any thread.
class Descriptor {
 public:
  /// Owns `fd` from now on.
  Descriptor(int fd, nb::object service, nb::object path, bool direct, uint32_t flow);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  nb::object pread(int64_t bytes, int64_t offset);
  int64_t pread_into(nb::handle buffer, int64_t offset);
  int64_t pwrite(nb::handle buffer, int64_t offset);
  void fsync(bool data_only);
  int64_t size();
  void truncate(int64_t bytes);
  int fileno();
  [[nodiscard]] bool closed() const noexcept;
  /// Waits for those who use it.
  void close();

  /// One more of them; throws ValueError where it is closed. The caller owes an end().
  const std::shared_ptr<Users>& begin_use();

  /// While it is in use.
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] iow_service* service() const { return service_; }
  [[nodiscard]] uint32_t flow() const { return flow_; }
  [[nodiscard]] const FileName& name() const { return name_; }

 private:
  template <class Call>
  int64_t without_gil(const Call& call);

  int fd_;
  const uint32_t process_;  ///< who opened it, see process_generation()
  const std::shared_ptr<Users> users_ = std::make_shared<Users>();
  const nb::object service_kept_;
  iow_service* const service_;
  const uint32_t flow_;
  const FileName name_;
};

/// The buffer of an object, as flat bytes; throws TypeError that names `method` and what is wrong.
Py_buffer buffer_of(nb::handle object, const char* method, bool writable);

/// A buffer in use; releases it.
class View {
 public:
  explicit View(const Py_buffer& view) : view_(view) {}
  ~View() { PyBuffer_Release(&view_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  const Py_buffer& operator*() const { return view_; }

 private:
  Py_buffer view_;
};

/// Writes all of a buffer by `write(from, bytes, offset)`, called once or more. Returns the bytes,
/// or -errno: then a part may be written.
template <class Write>
int64_t write_all(const Py_buffer& view, int64_t offset, const Write& write) {
  const auto* const from = static_cast<const std::byte*>(view.buf);
  int64_t moved = 0;
  do {
    const ssize_t now = write(from + moved, static_cast<size_t>(view.len - moved), offset + moved);
    if (now < 0) {
      return now;
    }
    if (now == 0 && moved < view.len) {
      return -EIO;
    }
    moved += now;
  } while (moved < view.len);
  return moved;
}

/// A new bytes object to read into; throws MemoryError, or ValueError below 0.
nb::object new_bytes(int64_t bytes);

/// The first part of what new_bytes() gave. Throws MemoryError.
nb::object shortened(nb::object bytes, int64_t length);

/// Throws ValueError for one below 0.
void check_offset(int64_t offset);

}  // namespace ioweave::python
