#pragma once

// Reads from /proc what the processes of a run do and which files they have open. Nothing here
// waits for, stops or changes these processes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/descriptor.hpp"
#include "base/file_id.hpp"

namespace ioweave::stream {

/// Returns `root` and the living processes that it started, directly or through others. A process
/// whose parent has ended belongs to another process by then, and is not found.
[[nodiscard]] std::vector<pid_t> family_of(pid_t root);

/// Returns true if the process has one thread; false also if it is gone.
[[nodiscard]] bool has_one_thread(pid_t process);

/// Returns true if one of the process's first threads sleeps uninterruptibly now, as a thread does
/// that waits for a page of a file. A few looks tell what part of its time goes into waiting.
[[nodiscard]] bool waits_for_storage(pid_t process);

/// Returns true if its first thread runs now, or is ready to run.
[[nodiscard]] bool is_running(pid_t process);

/// A regular file that a process has open.
struct OpenFile {
  int fd = -1;
  FileId id;
  uint64_t bytes = 0;
  bool is_read = false;     ///< open for reading
  bool is_written = false;  ///< open for writing
};

struct OpenFiles {
  std::vector<OpenFile> files;
  /// The process is told when files are opened (inotify, fanotify).
  bool hears_of_opens = false;
  bool has_io_uring = false;
};

/// Returns the open files of at least `least_bytes` on file systems with a device behind them.
/// Empty if the process is gone or /proc denies access.
[[nodiscard]] OpenFiles open_files_of(pid_t process, uint64_t least_bytes);

/// The position of an open file.
struct Position {
  uint64_t offset = 0;
  bool buffered_read = false;  ///< it is open for reading, and not with O_DIRECT
  /// It is open for writing, and writes do not wait for the device (O_DIRECT, O_SYNC, O_DSYNC).
  bool deferred_write = false;
  bool leased = false;  ///< opening it would notify somebody (fcntl F_SETLEASE)
  ino_t inode = 0;      ///< 0: the kernel does not tell, before Linux 5.14
};

/// All that a process has read and written, by any call that has ended.
struct IoTotals {
  uint64_t read_bytes = 0;
  uint64_t read_calls = 0;
  uint64_t written_bytes = 0;
};

/// A regular file, or a part of one, that a process has mapped for reading. Files that it also
/// executes, programs and libraries, do not count.
struct Mapping {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t file_offset = 0;  ///< the offset of its first byte
  uint64_t file_bytes = 0;   ///< the size of the whole file
  FileId id;
  std::string path;  ///< as the kernel tells it to this process
};

struct Mappings {
  std::vector<Mapping> files;
  bool has_aio = false;  ///< the process has a context of Linux AIO (io_setup), which lies in one
};

/// Returns the mappings of at least `least_bytes` whose files have a name and reach into them. On
/// btrfs there are none, since /proc names another device for its files. Empty if the process is
/// gone, if /proc denies access, or if it has more than some thousand mappings.
[[nodiscard]] Mappings mappings_of(pid_t process, uint64_t least_bytes);

/// One file of /proc or /sys that stays open, since reading it again then takes a third of the
/// time.
class ProcFile {
 public:
  /// /proc/PROCESS/fdinfo/FD.
  [[nodiscard]] static ProcFile of_position(pid_t process, int fd);
  /// /proc/PROCESS/io.
  [[nodiscard]] static ProcFile of_totals(pid_t process);
  /// /proc/PROCESS/schedstat.
  [[nodiscard]] static ProcFile of_runs(pid_t process);
  /// /proc/PROCESS/pagemap.
  [[nodiscard]] static ProcFile of_pages(pid_t process);
  /// /sys/dev/block/DEVICE/inflight. File systems without a block device have none.
  [[nodiscard]] static ProcFile of_requests(dev_t device);
  ProcFile() = default;

  /// Returns nothing if the descriptor was closed, the process has ended, or access is denied.
  [[nodiscard]] std::optional<Position> position() const;
  [[nodiscard]] std::optional<IoTotals> totals() const;
  /// Returns a text that changes whenever the first thread of a process gets a processor, and at
  /// each tick of the clock while it runs. Empty if the kernel does not tell.
  [[nodiscard]] std::string runs() const;
  /// Returns how many requests a device has now; nothing if that is not known.
  [[nodiscard]] std::optional<uint64_t> requests() const;
  /// Returns how many bytes of files the process has in its page table without a hole, from
  /// `address` on, the start of a page, and at most `most_bytes`. These are the pages that it has
  /// touched, and those that the kernel maps with them (16 pages). 0 if nothing is mapped there;
  /// nothing if the process is gone, ran another program when this was opened, or access is denied.
  [[nodiscard]] std::optional<uint64_t> touched_bytes(uint64_t address, uint64_t most_bytes) const;

 private:
  explicit ProcFile(int fd) noexcept : file_(fd) {}
  Descriptor file_;
};

/// Returns the absolute path of what a process has open, as the kernel tells it, or an empty one.
[[nodiscard]] std::string path_of(pid_t process, int fd);

/// Returns that of the program that it runs, likewise.
[[nodiscard]] std::string program_of(pid_t process);

/// Returns the kind of file system of what it has open, as statfs(2) tells it. Opens nothing.
[[nodiscard]] std::optional<unsigned long> file_system_of(pid_t process, int fd);

/// The size of an open file.
struct NamedBytes {
  uint64_t bytes = 0;
  bool has_name = false;  ///< false: it will be gone when it is closed
};
/// Returns the present size of what a process has open; nothing if it is another file by now.
[[nodiscard]] std::optional<NamedBytes> bytes_of(pid_t process, const OpenFile& file);

/// Opens what `process` has open as `file.fd`. Returns a descriptor of this process,
/// close-on-exec; or -errno; or -ESTALE if it is another file by now.
[[nodiscard]] int open_again(pid_t process, const OpenFile& file);
/// Opens the file that it has mapped, likewise.
[[nodiscard]] int open_again(pid_t process, const Mapping& mapping);

}  // namespace ioweave::stream
