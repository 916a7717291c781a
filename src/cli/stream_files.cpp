// How it works: each stream has a thread, since the tasks of a program make blocking calls, too.
// The threads wait for one word, so that all begin together. A failure of one makes the others end
// soon. Every page that is written differs from all others, so that a device that compresses or
// removes duplicates has no advantage.

#include "cli/stream_files.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <random>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/cpu_time.hpp"
#include "base/descriptor.hpp"
#include "base/page_bytes.hpp"
#include "cli/format.hpp"
#include "cli/unnamed_file.hpp"
#include "config/settings.hpp"

namespace ioweave::cli {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kPageBytes = 4096;  // nearly everywhere a multiple of what O_DIRECT requires
constexpr unsigned kWarmUpStreams = 8;

double seconds_of(uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

/// Lets threads begin together, or not at all if one of them could not be made.
class Gate {
 public:
  void open(bool go) {
    state_.store(go ? 1 : 2);
    state_.notify_all();
  }
  [[nodiscard]] bool pass() const {
    state_.wait(0);
    return state_.load() == 1;
  }

 private:
  std::atomic<int> state_{0};
};

/// Runs `work(0)` to `work(count - 1)`, each in a thread of its own, from the same moment on.
/// Returns that moment, or 0 if the machine has not enough threads.
uint64_t run_together(unsigned count, const std::function<void(unsigned)>& work) {
  Gate gate;
  std::vector<std::jthread> threads;
  try {
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([&gate, &work, i] {
        if (gate.pass()) work(i);
      });
    }
  } catch (const std::exception&) {  // no thread or no memory: the waiting threads must end
    gate.open(false);
    return 0;
  }
  const uint64_t began_ns = now_ns();
  gate.open(true);
  return began_ns;  // the threads are joined
}

}  // namespace

/// One stream: its file, its buffer and what it did. Used by one thread at a time.
struct StreamFiles::Stream {
  Stream(Descriptor unnamed, uint64_t file_bytes, bool is_direct, uint64_t seed)
      : file(std::move(unnamed)),
        fd(file.get()),
        bytes(file_bytes),
        direct(is_direct),
        random(seed),
        piece(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kPieceBytes)), &std::free) {
    if (!piece) throw std::bad_alloc();
    for (size_t at = 0; at < kPieceBytes; at += sizeof(uint64_t)) put(at, random());
  }

  /// Writes the file from its beginning to its end or until the deadline, and syncs it. Returns 0
  /// or errno.
  int write_file(uint64_t deadline_ns, const std::atomic<bool>& stop) {
    for (uint64_t offset = 0; offset < bytes && !stop.load();) {
      for (size_t page = 0; page < kPieceBytes; page += kPageBytes) put(page, random());
      const size_t length = std::min<uint64_t>(kPieceBytes, bytes - offset);
      if (const int error = transfer(true, length, offset)) return error;
      offset += length;
      if (now_ns() >= deadline_ns) break;
    }
    return fsync(fd) == 0 ? 0 : errno;
  }

  int read_file(uint64_t deadline_ns, const std::atomic<bool>& stop) {
    for (uint64_t offset = 0; offset < bytes && !stop.load();) {
      const size_t length = std::min<uint64_t>(kPieceBytes, bytes - offset);
      if (const int error = transfer(false, length, offset)) return error;
      offset += length;
      if (now_ns() >= deadline_ns) break;
    }
    forget();
    return 0;
  }

  /// Drops clean pages of the file from the page cache, if the file system can do that.
  void forget() const {
    if (!direct) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  }

  const Descriptor file;
  const int fd;
  const uint64_t bytes;
  const bool direct;
  uint64_t moved = 0;
  uint64_t ended_ns = 0;
  int failed = 0;  ///< the errno of its last move

 private:
  void put(size_t at, uint64_t word) { std::memcpy(piece.get() + at, &word, sizeof word); }

  int transfer(bool write, size_t length, uint64_t offset) {
    for (size_t done = 0; done < length;) {
      const auto at = static_cast<off_t>(offset + done);
      const ssize_t put = write ? pwrite(fd, piece.get() + done, length - done, at)
                                : pread(fd, piece.get() + done, length - done, at);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return errno;
      if (put == 0) return write ? ENOSPC : EIO;  // EIO: somebody has cut the file
      done += static_cast<size_t>(put);
      moved += static_cast<uint64_t>(put);
    }
    return 0;
  }

  std::mt19937_64 random;
  std::unique_ptr<std::byte, void (*)(void*)> piece;
};

StreamFiles::StreamFiles(const Settings& settings) : settings_(settings) {}
StreamFiles::~StreamFiles() = default;

std::unique_ptr<StreamFiles> StreamFiles::make(const Settings& settings, std::string& why) {
  const std::string name = quoted_name(settings.folder);
  struct stat status {};
  if (stat(settings.folder.c_str(), &status) != 0) {
    why = "cannot look at folder " + name + ": " + std::strerror(errno);
    return nullptr;
  }
  if (!S_ISDIR(status.st_mode)) {
    why = name + " is not a folder; name one on the device to be measured";
    return nullptr;
  }
  const uint64_t free_bytes = free_bytes_in(settings.folder);
  const uint64_t wanted = settings.files * settings.bytes;
  if (wanted > free_bytes) {
    why = std::to_string(settings.files) + " files of " + config::size_text(settings.bytes) +
          " need " + bytes_text(wanted) + ", but " + name + " has " +
          (free_bytes > 0 ? bytes_text(free_bytes) : "nothing") +
          " left; lower --size or --streams";
    return nullptr;
  }
  std::unique_ptr<StreamFiles> files(new StreamFiles(settings));
  if (!files->open_all(why)) return nullptr;
  return files;
}

bool StreamFiles::open_all(std::string& why) {
  std::random_device seed;
  for (unsigned i = 0; i < settings_.files; ++i) {
    int error = 0;
    Descriptor file = make_unnamed_file(settings_.folder, error);
    if (!file.is_open()) {
      why = "cannot make a file in " + quoted_name(settings_.folder) + ": " + std::strerror(error);
      if (error == EMFILE) why += "; lower --streams, or see ulimit -n";
      return false;
    }
    streams_.push_back(
        std::make_unique<Stream>(std::move(file), settings_.bytes, settings_.direct, seed()));
    // Set afterwards: with O_CREAT the file would stay behind if O_DIRECT is refused.
    if (settings_.direct && fcntl(streams_.back()->fd, F_SETFL, O_DIRECT) != 0) {
      why = "the file system of " + quoted_name(settings_.folder) +
            " refuses O_DIRECT; leave out --direct to measure through the page cache, with fsync";
      return false;
    }
  }
  return true;
}

std::string StreamFiles::failure(Direction direction, int error) const {
  std::string text = direction == Direction::write ? "cannot write in " : "cannot read in ";
  text += quoted_name(settings_.folder) + ": " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT) {
    text += "; " + std::to_string(settings_.files) + " files of " +
            config::size_text(settings_.bytes) + " need " +
            bytes_text(settings_.files * settings_.bytes) + ": lower --size or --streams";
  } else if (error == EINVAL && settings_.direct) {
    text += "; its file system may not support O_DIRECT: leave out --direct";
  }
  return text + ". Nothing was left there";
}

bool StreamFiles::warm_up(double seconds, const std::function<void(uint64_t bytes)>& tell,
                          std::vector<device::Durable>& log, std::string& why) {
  const unsigned count = std::min(kWarmUpStreams, settings_.files);
  std::atomic<bool> stop = false;
  std::atomic<int> failed = 0;
  std::mutex mutex;  // of the log and of tell()
  uint64_t total = 0;
  const uint64_t began_ns = now_ns();
  const auto work = [&](unsigned number) {
    bool all_written = false;
    // Files number, number + count, ...: so no two threads use the same file.
    for (unsigned i = number;; i += count) {
      if (i >= settings_.files) {
        all_written = true;
        i = number;
      }
      if (stop.load() || (all_written && seconds_of(now_ns() - began_ns) >= seconds)) return;
      if (const int error = streams_[i]->write_file(UINT64_MAX, stop)) {
        failed.store(error);
        stop.store(true);
        return;
      }
      const std::lock_guard lock(mutex);
      log.push_back({seconds_of(now_ns() - began_ns), settings_.bytes});
      total += settings_.bytes;
      tell(total);
    }
  };
  if (run_together(count, work) == 0) {
    why = "cannot start " + std::to_string(count) + " threads on this machine; see ulimit -u";
    return false;
  }
  if (failed.load() != 0) why = failure(Direction::write, failed.load());
  return failed.load() == 0;
}

bool StreamFiles::move(Direction direction, unsigned streams, double seconds,
                       device::Sample& sample, std::string& why) {
  for (unsigned i = 0; i < streams; ++i) {
    streams_[i]->moved = 0;
    if (direction == Direction::read) streams_[i]->forget();
  }
  std::atomic<bool> stop = false;
  const double cpu_before_s = process_cpu_seconds();
  const auto length_ns = static_cast<uint64_t>(seconds * 1e9);
  const auto work = [&](unsigned number) {
    Stream& stream = *streams_[number];
    const uint64_t deadline_ns = now_ns() + length_ns;
    do {
      stream.failed = direction == Direction::write ? stream.write_file(deadline_ns, stop)
                                                    : stream.read_file(deadline_ns, stop);
      if (stream.failed != 0) stop.store(true);
    } while (!stop.load() && now_ns() < deadline_ns);
    stream.ended_ns = now_ns();
  };
  const uint64_t began_ns = run_together(streams, work);
  if (began_ns == 0) {
    why = "cannot start " + std::to_string(streams) +
          " threads on this machine; lower --streams, or see ulimit -u";
    return false;
  }
  if (began_ns_ == 0) began_ns_ = began_ns;
  sample.start_s = seconds_of(began_ns - began_ns_);
  sample.cpu_seconds = process_cpu_seconds() - cpu_before_s;
  uint64_t ended_ns = began_ns + 1;
  for (unsigned i = 0; i < streams; ++i) {
    const Stream& stream = *streams_[i];
    if (stream.failed != 0) {
      why = failure(direction, stream.failed);
      return false;
    }
    sample.bytes += stream.moved;
    ended_ns = std::max(ended_ns, stream.ended_ns);
  }
  sample.seconds = seconds_of(ended_ns - began_ns);
  return true;
}

double StreamFiles::still_cached() const {
  if (settings_.direct) return 0;
  const Stream& first = *streams_.front();
  first.forget();
  void* const mapped = mmap(nullptr, first.bytes, PROT_READ, MAP_SHARED, first.fd, 0);
  if (mapped == MAP_FAILED) return 0;  // no page cache to look into
  const auto page = page_bytes();
  std::vector<unsigned char> pages((first.bytes + page - 1) / page);
  const bool known = mincore(mapped, first.bytes, pages.data()) == 0;
  munmap(mapped, first.bytes);
  const auto in_memory = std::ranges::count_if(pages, [](unsigned char c) { return (c & 1) != 0; });
  return known ? static_cast<double>(in_memory) / static_cast<double>(pages.size()) : 0;
}

}  // namespace ioweave::cli
