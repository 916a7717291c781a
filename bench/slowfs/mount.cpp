// How it works: unless in the foreground, a child is forked first and the parent waits on a pipe
// for one byte that says that the mount answers. The serving process has a fixed pool of workers,
// each of which reads one request, sleeps until it is due and answers it; the main thread waits
// for a signal, or for the workers to find that the mount is gone.
#include "mount.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mntent.h>
#include <spawn.h>

#include "filesystem.hpp"

extern char** environ;

namespace slowfs {
namespace {

constexpr const char* kType = "fuse.ioweave-slowfs";
// Above the background requests, for what programs wait for: reads, writes, metadata.
constexpr unsigned kForegroundWorkers = 32;

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

// ---- checks ---------------------------------------------------------------------------------

void check_fuse_device() {
  const UniqueFd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (device.valid()) return;
  const int error = errno;
  if (error == ENOENT || error == ENODEV || error == ENXIO) {
    throw std::runtime_error(
        "/dev/fuse is missing: load the module ('modprobe fuse'), or start the container with "
        "'--device /dev/fuse --cap-add SYS_ADMIN'");
  }
  fail("cannot open /dev/fuse (a container needs '--device /dev/fuse --cap-add SYS_ADMIN')", error);
}

struct stat directory_status(const std::string& path, const char* role) {
  struct stat status {};
  if (stat(path.c_str(), &status) == -1) {
    const int error = errno;
    if (error == ENOTCONN) {
      throw std::runtime_error(std::string(role) + " '" + path +
                               "' is a dead FUSE mount: run 'ioweave-slowfs --unmount " + path +
                               "' first");
    }
    fail(std::string(role) + " '" + path + "'", error);
  }
  if (!S_ISDIR(status.st_mode)) {
    throw std::runtime_error(std::string(role) + " '" + path + "' is not a directory");
  }
  return status;
}

/// A mount inside its own source would be served through itself.
void check_mountpoint_outside(const std::string& source, const std::string& mountpoint) {
  const std::string inner = std::filesystem::canonical(mountpoint).string() + "/";
  const std::string outer = std::filesystem::canonical(source).string() + "/";
  if (inner.starts_with(outer)) {
    throw std::runtime_error("mount point '" + mountpoint + "' lies inside the source '" + source +
                             "': choose a directory outside it");
  }
}

// ---- the process ----------------------------------------------------------------------------

/// Every inode that the kernel knows holds a descriptor here.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == -1) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// In the parent: waits for the child's verdict and exits with it. In the child: returns the
/// descriptor on which to say that the mount is ready.
UniqueFd continue_in_child() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) == -1) fail("cannot make a pipe", errno);
  UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t child = fork();
  if (child == -1) fail("cannot fork", errno);
  if (child == 0) return writing;
  writing.reset();
  char ready;
  ssize_t got;
  do {
    got = ::read(reading.get(), &ready, 1);
  } while (got == -1 && errno == EINTR);
  if (got == 1) _exit(EXIT_SUCCESS);
  int status = 0;
  waitpid(child, &status, 0);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE);
}

void detach_from_terminal() {
  setsid();
  if (chdir("/") == -1) return;
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (int fd = 0; null.valid() && fd <= 2; ++fd) dup2(null.get(), fd);
}

sigset_t block_end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// ---- mount and unmount ----------------------------------------------------------------------

/// 0 or an errno; without the right to umount, the set-user-id helper of FUSE is asked.
int unmount_path(const std::string& mountpoint, bool lazily) {
  if (umount2(mountpoint.c_str(), lazily ? MNT_DETACH : 0) == 0) return 0;
  if (errno != EPERM) return errno;
  const char* const arguments[] = {"fusermount3", lazily ? "-uz" : "-u", "--", mountpoint.c_str(),
                                   nullptr};
  pid_t helper = 0;
  if (const int error = posix_spawnp(&helper, arguments[0], nullptr, nullptr,
                                     const_cast<char* const*>(arguments), environ)) {
    return error;
  }
  int status = 0;
  waitpid(helper, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EBUSY;
}

/// Commas end a mount option, so those of a path are escaped.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == ',' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

/// FUSE starts with the kernel's 128 KiB and only ever lowers it; raising takes sysfs and root.
void raise_readahead(const Options& options) {
  constexpr unsigned kKernelReadaheadKb = 128;
  if (options.max_readahead_kb <= kKernelReadaheadKb) return;
  const struct stat root = directory_status(options.mountpoint, "mount point");
  const std::string path = "/sys/class/bdi/" + std::to_string(major(root.st_dev)) + ":" +
                           std::to_string(minor(root.st_dev)) + "/read_ahead_kb";
  std::ofstream setting(path);
  if (!(setting << options.max_readahead_kb << std::flush)) {
    throw std::runtime_error("cannot set " + path + " for --max-readahead-kb " +
                             std::to_string(options.max_readahead_kb) +
                             ": run as root, or ask for at most 128");
  }
}

/// A mounted session and the threads that serve it. Used by one thread.
class Mount {
 public:
  Mount(Filesystem& filesystem, const Options& options) : mountpoint_(options.mountpoint) {
    std::string mount_options =
        "fsname=" + escaped(options.source) +
        ",subtype=ioweave-slowfs,default_permissions,max_read=" + std::to_string(kMaxRequestBytes);
    std::string name = "ioweave-slowfs";
    std::string flag = "-o";
    std::array<char*, 3> arguments = {name.data(), flag.data(), mount_options.data()};
    fuse_args args = FUSE_ARGS_INIT(static_cast<int>(arguments.size()), arguments.data());
    session_ =
        fuse_session_new(&args, &Filesystem::operations(), sizeof(fuse_lowlevel_ops), &filesystem);
    fuse_opt_free_args(&args);
    if (!session_) throw std::runtime_error("libfuse refused to make a session");
    if (fuse_session_mount(session_, mountpoint_.c_str()) != 0) {
      fuse_session_destroy(session_);
      throw std::runtime_error("cannot mount at '" + mountpoint_ +
                               "': the line above says why; without root, fusermount3 must be "
                               "installed (Debian: apt install fuse3)");
    }
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

  ~Mount() {
    if (!workers_.empty()) detach();
    for (std::thread& worker : workers_) worker.join();
    fuse_session_unmount(session_);
    fuse_session_destroy(session_);
  }

  /// Takes the mount out of the tree; the workers end when its last file is closed.
  void detach() {
    if (!workers_done_) unmount_path(mountpoint_, /*lazily=*/true);
  }

  void start(unsigned workers) {
    running_ = workers;
    for (unsigned i = 0; i < workers; ++i) workers_.emplace_back([this] { work(); });
  }

  /// Readable once every worker has ended.
  [[nodiscard]] int done_fd() const noexcept { return done_.get(); }

 private:
  void work() {
    fuse_buf request{};
    while (!fuse_session_exited(session_)) {
      const int received = fuse_session_receive_buf(session_, &request);
      if (received == -EINTR || received == -EAGAIN) continue;
      if (received <= 0) break;  // unmounted
      fuse_session_process_buf(session_, &request);
    }
    std::free(request.mem);
    if (--running_ == 0) {
      workers_done_ = true;
      eventfd_write(done_.get(), 1);
    }
  }

  std::string mountpoint_;
  fuse_session* session_ = nullptr;
  UniqueFd done_{eventfd(0, EFD_CLOEXEC)};
  std::atomic<unsigned> running_{0};
  std::atomic<bool> workers_done_{false};
  std::vector<std::thread> workers_;
};

void announce_ready(const Options& options, UniqueFd& parent) {
  if (parent.valid()) {
    detach_from_terminal();
    if (::write(parent.get(), "1", 1) != 1) fail("the starting process is gone", errno);
    parent.reset();
  }
  if (options.ready_fd >= 0) {
    if (::write(options.ready_fd, "\n", 1) != 1) fail("--ready-fd", errno);
    close(options.ready_fd);
  }
}

void wait_for_end(Mount& mount, const sigset_t& signals) {
  const UniqueFd signal_fd(signalfd(-1, &signals, SFD_CLOEXEC));
  bool detached = false;
  for (;;) {
    std::array<pollfd, 2> events = {pollfd{signal_fd.get(), POLLIN, 0},
                                    pollfd{mount.done_fd(), POLLIN, 0}};
    if (poll(events.data(), events.size(), -1) == -1) continue;
    if (events[1].revents) return;
    signalfd_siginfo received{};
    if (::read(signal_fd.get(), &received, sizeof received) == -1) continue;
    // Ending the process closes /dev/fuse: what is still open answers ENOTCONN from now on.
    if (detached) _exit(EXIT_FAILURE);
    mount.detach();
    detached = true;
  }
}

}  // namespace

void mount_and_serve(const Options& options) {
  check_fuse_device();
  const struct stat source_status = directory_status(options.source, "source");
  directory_status(options.mountpoint, "mount point");
  check_mountpoint_outside(options.source, options.mountpoint);
  Options absolute = options;
  absolute.source = std::filesystem::canonical(options.source);
  absolute.mountpoint = std::filesystem::canonical(options.mountpoint);

  UniqueFd root(::open(absolute.source.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) fail("source '" + options.source + "'", errno);
  UniqueFd parent = options.foreground ? UniqueFd() : continue_in_child();

  const sigset_t signals = block_end_signals();
  raise_descriptor_limit();
  // The default of 50 us would be added to every sleep; threads inherit this.
  prctl(PR_SET_TIMERSLACK, 1UL);
  umask(0);  // the kernel has applied the caller's

  Filesystem filesystem(std::move(root), source_status, absolute);
  Mount mount(filesystem, absolute);
  mount.start(absolute.max_background + kForegroundWorkers);
  // Answered by a worker after the handshake with the kernel: from here on the mount is usable.
  directory_status(absolute.mountpoint, "mount point");
  raise_readahead(absolute);
  announce_ready(absolute, parent);
  wait_for_end(mount, signals);
}

void unmount(const std::string& mountpoint) {
  // The last component is not resolved: on a dead mount that would fail.
  const std::filesystem::path given = std::filesystem::absolute(mountpoint).lexically_normal();
  const std::filesystem::path named = given.has_filename() ? given : given.parent_path();
  std::error_code error;
  const std::string path =
      (std::filesystem::weakly_canonical(named.parent_path(), error) / named.filename()).string();

  std::string type;
  FILE* mounts = setmntent("/proc/self/mounts", "r");
  if (!mounts) fail("cannot read /proc/self/mounts", errno);
  while (const mntent* entry = getmntent(mounts)) {
    if (path == entry->mnt_dir) type = entry->mnt_type;
  }
  endmntent(mounts);
  if (type != kType) {
    throw std::runtime_error("'" + mountpoint + "' is not a mount point of ioweave-slowfs" +
                             (type.empty() ? "" : " but of type " + type));
  }
  if (const int result = unmount_path(path, /*lazily=*/false)) {
    if (result == EBUSY) {
      throw std::runtime_error("'" + mountpoint + "' is in use: 'fuser -vm " + path +
                               "' lists by whom; end them and try again");
    }
    fail("cannot unmount '" + mountpoint + "'", result);
  }
}

}  // namespace slowfs
