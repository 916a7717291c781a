#pragma once

// What /proc tells of the processes of a run and of the files they have open. Nothing here waits
// for, stops or changes the processes that are looked at.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/descriptor.hpp"

namespace ioweave::stream {

/// `root` and those it started, directly or through others, that are still there. A process whose
/// parent has ended belongs to somebody else and is not found.
[[nodiscard]] std::vector<pid_t> family_of(pid_t root);

/// False where the process is gone, too.
[[nodiscard]] bool has_one_thread(pid_t process);

/// Whether one of its first threads sleeps where no signal wakes it, as one does that waits for a
/// page of a file: at this moment, so a few looks tell what part of its time goes into waiting.
[[nodiscard]] bool waits_for_storage(pid_t process);

/// Whether its first thread runs, or would with a processor, at this moment.
[[nodiscard]] bool is_running(pid_t process);

/// A regular file that a process has open for reading through the page cache.
struct OpenFile {
  int fd = -1;
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t bytes = 0;
};

struct OpenFiles {
  std::vector<OpenFile> files;
  /// The process hears of files being opened (inotify, fanotify).
  bool hears_of_opens = false;
};

/// Files of at least `least_bytes` on file systems with a device behind them. Empty where the
/// process is gone or may not be looked at.
[[nodiscard]] OpenFiles open_files_of(pid_t process, uint64_t least_bytes);

/// Where the reader of an open file is.
struct Position {
  uint64_t offset = 0;
  bool buffered_read = false;  ///< open for reading, and not with O_DIRECT
  bool leased = false;         ///< somebody would be told if it were opened (fcntl F_SETLEASE)
};

/// What a process has read in all, by whatever call.
struct ReadTotals {
  uint64_t bytes = 0;
  uint64_t calls = 0;
};

/// A regular file, or a part of one, that a process has mapped for reading. A file of which it
/// executes some part, a program or a library, is none.
struct Mapping {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t file_offset = 0;  ///< of the first byte
  uint64_t file_bytes = 0;   ///< of the whole file
  dev_t device = 0;
  ino_t inode = 0;
  std::string path;  ///< as the kernel tells it to us
};

/// Those of at least `least_bytes` whose files have a name and reach into them; on btrfs, whose
/// files have another device there, none. Empty where the process is gone or may not be looked at,
/// or where it has more than some thousand mappings.
[[nodiscard]] std::vector<Mapping> mappings_of(pid_t process, uint64_t least_bytes);

/// One file of /proc or /sys, kept open: reading it again costs a third.
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
  /// /sys/dev/block/DEVICE/inflight. File systems without one of their own have none.
  [[nodiscard]] static ProcFile of_requests(dev_t device);
  ProcFile() = default;

  /// Nothing where the descriptor was closed, the process has ended or may not be asked.
  [[nodiscard]] std::optional<Position> position() const;
  [[nodiscard]] std::optional<ReadTotals> totals() const;
  /// What changes whenever the first thread of a process is put on a processor, and at each tick
  /// of the clock while it runs; empty where the kernel does not tell.
  [[nodiscard]] std::string runs() const;
  /// How many requests a device has at this moment; nothing where nobody tells.
  [[nodiscard]] std::optional<uint64_t> requests() const;
  /// How many bytes of files from `address` on, the start of a page, the process has in its page
  /// table without a hole, at most `most_bytes`: what it has touched, and the kernel with it (16
  /// pages). None where nothing is mapped there; nothing where the process is gone, ran another
  /// program when this was opened, or may not be asked.
  [[nodiscard]] std::optional<uint64_t> touched_bytes(uint64_t address, uint64_t most_bytes) const;

 private:
  explicit ProcFile(int fd) noexcept : file_(fd) {}
  Descriptor file_;
};

/// Absolute path of what a process has open, as the kernel tells it; empty where it does not.
[[nodiscard]] std::string path_of(pid_t process, int fd);

/// A descriptor of our own, close-on-exec, for what `process` has open as `file.fd`; -errno where
/// that is not possible, -ESTALE where it is another file by now.
[[nodiscard]] int open_again(pid_t process, const OpenFile& file);
/// The same for what it has mapped.
[[nodiscard]] int open_again(pid_t process, const Mapping& mapping);

}  // namespace ioweave::stream
