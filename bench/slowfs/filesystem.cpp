// How it works: the kernel names inodes by the address of an Inode, which holds an O_PATH
// descriptor of the source file; a name is resolved by openat on its directory's descriptor, and
// an open file is an ordinary descriptor in fi->fh. Calls that have no *at form on a bare
// descriptor go through /proc/self/fd.
//
// Data passes through a buffer: splicing it costs as much CPU as copying (pages are small and the
// pipe is not free), needs pipes larger than pipe-max-size for 1 MiB requests, and could read a
// cold source only after the delay instead of during it. The same holds for writes.
//
// What is absent is absent on purpose. Without `getxattr` the kernel stops asking for
// security.capability before every write, without `flush` a close costs no round trip, and without
// `copy_file_range` such a copy is made of reads and writes, which pay for their bytes.
#include "filesystem.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <dirent.h>

namespace slowfs {
namespace {

// The kernel may keep what it knows about names and attributes this long; a change made behind
// the mount shows after that time at the latest. Opening a file checks its pages at once.
constexpr double kAttributeSeconds = 1.0;

uint64_t now_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

Filesystem& filesystem(fuse_req_t req) {
  return *static_cast<Filesystem*>(fuse_req_userdata(req));
}

/// FUSE's handles are integers wide enough for a pointer.
template <typename T>
T* pointer_from(uint64_t handle) {
  return reinterpret_cast<T*>(handle);  // NOLINT(performance-no-int-to-ptr)
}

int file_of(const fuse_file_info* file) {
  return static_cast<int>(file->fh);
}

/// The reply to a call that answers nothing but success.
void reply_status(fuse_req_t req, int result) {
  fuse_reply_err(req, result == -1 ? errno : 0);
}

/// Flags for the source file. O_APPEND would override the offset that the kernel has chosen;
/// O_DIRECT is between the program and the mount; the kernel sends its own fsync for O_SYNC.
int source_flags(int flags) {
  return (flags & ~(O_APPEND | O_DIRECT | O_SYNC | O_DSYNC | O_NOFOLLOW)) | O_CLOEXEC;
}

/// Finds `name` and adds a reference to it for the kernel; null with errno set if it cannot.
Inode* look_up(Filesystem& fs, fuse_ino_t parent, const char* name, fuse_entry_param& entry) {
  UniqueFd fd(openat(fs.inode(parent).path_fd(), name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return nullptr;
  if (fstatat(fd.get(), "", &entry.attr, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == -1) return nullptr;
  entry.attr_timeout = kAttributeSeconds;
  entry.entry_timeout = kAttributeSeconds;
  Inode* const inode = fs.inodes().acquire(std::move(fd), entry.attr);
  entry.ino = fs.number(*inode);
  return inode;
}

void reply_entry(fuse_req_t req, fuse_ino_t parent, const char* name) {
  fuse_entry_param entry{};
  if (look_up(filesystem(req), parent, name, entry)) {
    fuse_reply_entry(req, &entry);
  } else {
    fuse_reply_err(req, errno);
  }
}

// ---- names and attributes -------------------------------------------------------------------

void lookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
  reply_entry(req, parent, name);
}

void forget(fuse_req_t req, fuse_ino_t number, uint64_t count) {
  Filesystem& fs = filesystem(req);
  if (number != FUSE_ROOT_ID) fs.inodes().forget(&fs.inode(number), count);
  fuse_reply_none(req);
}

void forget_multi(fuse_req_t req, size_t count, fuse_forget_data* forgets) {
  Filesystem& fs = filesystem(req);
  for (size_t i = 0; i < count; ++i) {
    if (forgets[i].ino == FUSE_ROOT_ID) continue;
    fs.inodes().forget(&fs.inode(forgets[i].ino), forgets[i].nlookup);
  }
  fuse_reply_none(req);
}

void getattr(fuse_req_t req, fuse_ino_t number, fuse_file_info* /*file*/) {
  struct stat status {};
  const int fd = filesystem(req).inode(number).path_fd();
  if (fstatat(fd, "", &status, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == -1) {
    fuse_reply_err(req, errno);
  } else {
    fuse_reply_attr(req, &status, kAttributeSeconds);
  }
}

timespec time_to_set(int to_set, int set, int set_now, const timespec& value) {
  if (to_set & set_now) return {0, UTIME_NOW};
  return to_set & set ? value : timespec{0, UTIME_OMIT};
}

/// 0 or an errno. Each part of a setattr is a call of its own, as the kernel sends them.
int change_attributes(Inode& inode, const struct stat& value, int to_set,
                      const fuse_file_info* file) {
  const char* path = inode.proc_path().c_str();
  if (to_set & FUSE_SET_ATTR_MODE && chmod(path, value.st_mode) == -1) return errno;
  if (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) {
    const uid_t uid = to_set & FUSE_SET_ATTR_UID ? value.st_uid : static_cast<uid_t>(-1);
    const gid_t gid = to_set & FUSE_SET_ATTR_GID ? value.st_gid : static_cast<gid_t>(-1);
    if (fchownat(inode.path_fd(), "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == -1) {
      return errno;
    }
  }
  if (to_set & FUSE_SET_ATTR_SIZE) {
    inode.will_change();
    const int result =
        file ? ftruncate(file_of(file), value.st_size) : truncate(path, value.st_size);
    if (result == -1) return errno;
  }
  if (to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) {
    inode.will_change();
    const timespec times[2] = {
        time_to_set(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, value.st_atim),
        time_to_set(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, value.st_mtim)};
    if (utimensat(AT_FDCWD, path, times, 0) == -1) return errno;
  }
  return 0;
}

void setattr(fuse_req_t req, fuse_ino_t number, struct stat* value, int to_set,
             fuse_file_info* file) {
  const int error = change_attributes(filesystem(req).inode(number), *value, to_set, file);
  if (error) {
    fuse_reply_err(req, error);
  } else {
    getattr(req, number, file);
  }
}

void readlink(fuse_req_t req, fuse_ino_t number) {
  char target[PATH_MAX + 1];
  const ssize_t length =
      readlinkat(filesystem(req).inode(number).path_fd(), "", target, sizeof target - 1);
  if (length == -1) {
    fuse_reply_err(req, errno);
    return;
  }
  target[length] = '\0';
  fuse_reply_readlink(req, target);
}

// ---- directories ----------------------------------------------------------------------------

void reply_made(fuse_req_t req, int result, fuse_ino_t parent, const char* name) {
  if (result == -1) {
    fuse_reply_err(req, errno);
  } else {
    reply_entry(req, parent, name);
  }
}

void mknod(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
  const int fd = filesystem(req).inode(parent).path_fd();
  reply_made(req, mknodat(fd, name, mode, device), parent, name);
}

void mkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode) {
  reply_made(req, mkdirat(filesystem(req).inode(parent).path_fd(), name, mode), parent, name);
}

void symlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name) {
  const int fd = filesystem(req).inode(parent).path_fd();
  reply_made(req, symlinkat(target, fd, name), parent, name);
}

void link(fuse_req_t req, fuse_ino_t number, fuse_ino_t parent, const char* name) {
  Filesystem& fs = filesystem(req);
  const int result = linkat(AT_FDCWD, fs.inode(number).proc_path().c_str(),
                            fs.inode(parent).path_fd(), name, AT_SYMLINK_FOLLOW);
  reply_made(req, result, parent, name);
}

void unlink(fuse_req_t req, fuse_ino_t parent, const char* name) {
  reply_status(req, unlinkat(filesystem(req).inode(parent).path_fd(), name, 0));
}

void rmdir(fuse_req_t req, fuse_ino_t parent, const char* name) {
  reply_status(req, unlinkat(filesystem(req).inode(parent).path_fd(), name, AT_REMOVEDIR));
}

void rename(fuse_req_t req, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
            const char* new_name, unsigned flags) {
  Filesystem& fs = filesystem(req);
  reply_status(req, renameat2(fs.inode(parent).path_fd(), name, fs.inode(new_parent).path_fd(),
                              new_name, flags));
}

void opendir(fuse_req_t req, fuse_ino_t number, fuse_file_info* file) {
  UniqueFd fd(
      openat(filesystem(req).inode(number).path_fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* stream = fd.valid() ? fdopendir(fd.get()) : nullptr;
  if (!stream) {
    fuse_reply_err(req, errno);
    return;
  }
  fd.release();
  file->fh = reinterpret_cast<uint64_t>(stream);
  if (fuse_reply_open(req, file) == -ENOENT) closedir(stream);  // the opener was interrupted
}

void readdir(fuse_req_t req, fuse_ino_t /*number*/, size_t size, off_t offset,
             fuse_file_info* file) {
  DIR* stream = pointer_from<DIR>(file->fh);
  if (offset != telldir(stream)) seekdir(stream, offset);
  std::vector<char> page(size);
  size_t used = 0;
  while (const dirent* entry = ::readdir(stream)) {
    struct stat status {};
    status.st_ino = entry->d_ino;
    status.st_mode = static_cast<mode_t>(DTTOIF(entry->d_type));
    const size_t needed = fuse_add_direntry(req, page.data() + used, size - used, entry->d_name,
                                            &status, entry->d_off);
    if (needed > size - used) break;
    used += needed;
    offset = entry->d_off;
  }
  // An entry that did not fit was taken from the stream: the next call starts at it.
  seekdir(stream, offset);
  fuse_reply_buf(req, page.data(), used);
}

void releasedir(fuse_req_t req, fuse_ino_t /*number*/, fuse_file_info* file) {
  closedir(pointer_from<DIR>(file->fh));
  fuse_reply_err(req, 0);
}

void fsyncdir(fuse_req_t req, fuse_ino_t /*number*/, int datasync, fuse_file_info* file) {
  const int fd = dirfd(pointer_from<DIR>(file->fh));
  reply_status(req, datasync ? fdatasync(fd) : fsync(fd));
}

void statfs(fuse_req_t req, fuse_ino_t number) {
  struct statvfs status {};
  if (fstatvfs(filesystem(req).inode(number).path_fd(), &status) == -1) {
    fuse_reply_err(req, errno);
  } else {
    fuse_reply_statfs(req, &status);
  }
}

// ---- files ----------------------------------------------------------------------------------

/// Fills what the kernel must know of a file just opened; takes the descriptor over.
void describe_open(Inode& inode, UniqueFd fd, fuse_file_info* file) {
  struct stat status {};
  file->keep_cache = fstat(fd.get(), &status) == 0 && inode.cache_is_current(status);
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 15)
  file->parallel_direct_writes = 1;
#endif
  file->fh = static_cast<uint64_t>(fd.release());
}

/// With the kernel's write-back cache a file opened for writing is read too, to fill pages.
int flags_for_cache(const Filesystem& fs, int flags) {
  if (!fs.options().write_back || (flags & O_ACCMODE) != O_WRONLY) return flags;
  return (flags & ~O_ACCMODE) | O_RDWR;
}

void open(fuse_req_t req, fuse_ino_t number, fuse_file_info* file) {
  Filesystem& fs = filesystem(req);
  Inode& inode = fs.inode(number);
  if (file->flags & O_TRUNC) inode.will_change();
  const int flags = source_flags(flags_for_cache(fs, file->flags)) & ~(O_CREAT | O_EXCL);
  UniqueFd fd(::open(inode.proc_path().c_str(), flags));
  if (!fd.valid()) {
    fuse_reply_err(req, errno);
    return;
  }
  describe_open(inode, std::move(fd), file);
  if (fuse_reply_open(req, file) == -ENOENT) close(file_of(file));  // the opener was interrupted
}

void create(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode,
            fuse_file_info* file) {
  Filesystem& fs = filesystem(req);
  const int flags = source_flags(flags_for_cache(fs, file->flags)) | O_CREAT;
  UniqueFd fd(openat(fs.inode(parent).path_fd(), name, flags, mode));
  if (!fd.valid()) {
    fuse_reply_err(req, errno);
    return;
  }
  fuse_entry_param entry{};
  Inode* const inode = look_up(fs, parent, name, entry);
  if (!inode) {
    fuse_reply_err(req, errno);
    return;
  }
  describe_open(*inode, std::move(fd), file);
  if (fuse_reply_create(req, &entry, file) == -ENOENT) close(file_of(file));
}

void release(fuse_req_t req, fuse_ino_t number, fuse_file_info* file) {
  Filesystem& fs = filesystem(req);
  fs.closed(fs.inode(number));
  close(file_of(file));
  fuse_reply_err(req, 0);
}

/// A request costs the time of the bytes that it moves, not of those it asks for beyond the end.
uint64_t bytes_before_end(int fd, off_t offset, size_t size) {
  struct stat status {};
  if (fstat(fd, &status) == -1 || offset >= status.st_size) return 0;
  return std::min<uint64_t>(size, static_cast<uint64_t>(status.st_size - offset));
}

/// How long the bytes of a request take between this process and the kernel, about 8 GB/s. Those
/// of a real transfer move while the device works; so an answer is begun early enough to end when
/// the device does, and a write has arrived before its bytes were copied in.
uint64_t copy_ns(uint64_t bytes) {
  return bytes / 8;
}

/// Whether a transfer has this byte.
bool has_byte(int64_t at, off_t offset, uint64_t bytes) {
  return at >= offset && at - offset < static_cast<off_t>(bytes);
}

void read(fuse_req_t req, fuse_ino_t number, size_t size, off_t offset, fuse_file_info* file) {
  Filesystem& fs = filesystem(req);
  const int fd = file_of(file);
  const uint64_t bytes = bytes_before_end(fd, offset, size);
  const uint64_t due = fs.answer_at(fs.inode(number), Speed::Direction::kRead, now_ns(), bytes);
  const BufferPool::Lease buffer = fs.buffers().take();
  // The source is read while the emulated device works, so that its own time does not add up.
  const ssize_t got =
      buffer ? pread(fd, buffer.get(), std::min(size, kMaxRequestBytes), offset) : -1;
  const int source_error = !buffer ? ENOMEM : got == -1 ? errno : 0;
  const int error = has_byte(fs.options().bad_at, offset, bytes) ? EIO : source_error;
  sleep_until(due - std::min(due, copy_ns(bytes)));
  if (error) {
    fuse_reply_err(req, error);
  } else {
    fuse_reply_buf(req, reinterpret_cast<const char*>(buffer.get()), static_cast<size_t>(got));
  }
}

/// What a write leaves in the source: its bytes, or a last zero that gives the file its length.
ssize_t store(const Filesystem& fs, int fd, const char* data, size_t size, off_t offset) {
  if (!fs.options().discard || size == 0) return pwrite(fd, data, size, offset);
  const ssize_t written = pwrite(fd, "", 1, offset + static_cast<off_t>(size) - 1);
  return written == 1 ? static_cast<ssize_t>(size) : -1;
}

void write(fuse_req_t req, fuse_ino_t number, const char* data, size_t size, off_t offset,
           fuse_file_info* file) {
  Filesystem& fs = filesystem(req);
  Inode& inode = fs.inode(number);
  const uint64_t arrival = now_ns() - copy_ns(size);
  const uint64_t due = fs.answer_at(inode, Speed::Direction::kWrite, arrival, size);
  inode.will_change();
  const bool is_bad = has_byte(fs.options().bad_write_at, offset, size);
  const ssize_t written = is_bad ? -1 : store(fs, file_of(file), data, size, offset);
  const int source_error = written == -1 ? errno : 0;
  const int error = is_bad ? EIO : source_error;
  sleep_until(due);
  if (error) {
    fuse_reply_err(req, error);
  } else {
    fuse_reply_write(req, static_cast<size_t>(written));
  }
}

void fsync(fuse_req_t req, fuse_ino_t /*number*/, int datasync, fuse_file_info* file) {
  const int result = datasync ? ::fdatasync(file_of(file)) : ::fsync(file_of(file));
  const int error = result == -1 ? errno : 0;
  filesystem(req).wait_data_latency();
  fuse_reply_err(req, error);
}

void fallocate(fuse_req_t req, fuse_ino_t number, int mode, off_t offset, off_t length,
               fuse_file_info* file) {
  filesystem(req).inode(number).will_change();
  reply_status(req, ::fallocate(file_of(file), mode, offset, length));
}

// ---- the session ----------------------------------------------------------------------------

void want(fuse_conn_info* connection, unsigned capability, bool wanted) {
  if (wanted) {
    connection->want |= connection->capable & capability;
  } else {
    connection->want &= ~capability;
  }
}

void init(void* userdata, fuse_conn_info* connection) {
  const Options& options = static_cast<Filesystem*>(userdata)->options();
  connection->max_write = kMaxRequestBytes;
  connection->max_read = kMaxRequestBytes;
  connection->max_readahead = options.max_readahead_kb * 1024;
  connection->max_background = options.max_background;
  // The kernel drops read-ahead, POSIX_FADV_WILLNEED included, above this mark.
  connection->congestion_threshold = options.max_background;
  want(connection, FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS, true);
  want(connection, FUSE_CAP_WRITEBACK_CACHE, options.write_back);
  // `open` tells the kernel whether its pages are current. Invalidation by mtime would also drop
  // what a program has just written, which no parallel file system's client does.
  want(connection, FUSE_CAP_AUTO_INVAL_DATA, false);
  // The kernel clears set-user-id bits on writes: root's own writes here would not.
  want(connection, FUSE_CAP_HANDLE_KILLPRIV, false);
  want(connection, FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE, false);
}

/// The handler, after the latency of a metadata request.
template <auto Handler, typename... Args>
void after_latency(fuse_req_t req, Args... args) {
  filesystem(req).wait_metadata_latency();
  Handler(req, args...);
}

template <auto Handler, typename... Args>
constexpr auto paced(void (*)(fuse_req_t, Args...)) {
  return &after_latency<Handler, Args...>;
}
#define SLOWFS_METADATA(handler) paced<&(handler)>(&(handler))

fuse_lowlevel_ops make_operations() {
  fuse_lowlevel_ops ops{};
  ops.init = init;
  ops.forget = forget;
  ops.forget_multi = forget_multi;
  ops.readdir = readdir;
  ops.releasedir = releasedir;
  ops.release = release;
  ops.read = read;
  ops.write = write;
  ops.fsync = fsync;
  ops.lookup = SLOWFS_METADATA(lookup);
  ops.getattr = SLOWFS_METADATA(getattr);
  ops.setattr = SLOWFS_METADATA(setattr);
  ops.readlink = SLOWFS_METADATA(readlink);
  ops.mknod = SLOWFS_METADATA(mknod);
  ops.mkdir = SLOWFS_METADATA(mkdir);
  ops.symlink = SLOWFS_METADATA(symlink);
  ops.link = SLOWFS_METADATA(link);
  ops.unlink = SLOWFS_METADATA(unlink);
  ops.rmdir = SLOWFS_METADATA(rmdir);
  ops.rename = SLOWFS_METADATA(rename);
  ops.opendir = SLOWFS_METADATA(opendir);
  ops.fsyncdir = SLOWFS_METADATA(fsyncdir);
  ops.statfs = SLOWFS_METADATA(statfs);
  ops.open = SLOWFS_METADATA(open);
  ops.create = SLOWFS_METADATA(create);
  ops.fallocate = SLOWFS_METADATA(fallocate);
  return ops;
}

// What a request takes on its way through FUSE and back, with two threads to wake: 30 to 60 us on
// an idle machine. It is a part of the latency that was asked for, not an addition to it.
constexpr uint64_t kOwnLatencyNs = 40'000;

uint64_t added_latency_ns(uint64_t asked_us) {
  const uint64_t asked_ns = asked_us * 1000;
  return asked_ns - std::min(asked_ns, kOwnLatencyNs);
}

Speed speed_of(const Options& options) {
  return {.read_bytes_per_s = options.read_mb_s * 1e6,
          .write_bytes_per_s = options.write_mb_s * 1e6,
          .latency_ns = added_latency_ns(options.latency_us),
          .slack_ns = options.slack_us * 1000,
          .full_duplex = options.full_duplex,
          .efficiency = Efficiency(options.efficiency)};
}

}  // namespace

void sleep_until(uint64_t deadline_ns) {
  const timespec deadline = {.tv_sec = static_cast<time_t>(deadline_ns / 1'000'000'000u),
                             .tv_nsec = static_cast<long>(deadline_ns % 1'000'000'000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr) == EINTR) {
  }
}

Filesystem::Filesystem(UniqueFd root, const struct stat& status, const Options& options)
    : options_(options),
      speed_(speed_of(options)),
      metadata_latency_ns_(added_latency_ns(options.metadata_latency_us)),
      buffers_(kMaxRequestBytes),
      root_(std::move(root), status) {}

const fuse_lowlevel_ops& Filesystem::operations() {
  static const fuse_lowlevel_ops ops = make_operations();
  return ops;
}

Inode& Filesystem::inode(fuse_ino_t number) noexcept {
  return number == FUSE_ROOT_ID ? root_ : *pointer_from<Inode>(number);
}

fuse_ino_t Filesystem::number(const Inode& inode) const noexcept {
  return &inode == &root_ ? FUSE_ROOT_ID : reinterpret_cast<fuse_ino_t>(&inode);
}

uint64_t Filesystem::answer_at(Inode& inode, Speed::Direction direction, uint64_t arrival_ns,
                               uint64_t bytes) {
  Duplex& budget = options_.per_file ? inode.budget : shared_budget_;
  if (speed_.efficiency.is_even()) {
    return speed_.answer_at(budget, direction, arrival_ns, bytes, 1);
  }
  const unsigned streams = streams_.count(&inode, arrival_ns);
  const uint64_t due = speed_.answer_at(budget, direction, arrival_ns, bytes, streams);
  streams_.answered(&inode, due);
  return due;
}

void Filesystem::closed(const Inode& inode) {
  if (!speed_.efficiency.is_even()) streams_.closed(&inode, now_ns());
}

void Filesystem::wait_metadata_latency() const {
  if (metadata_latency_ns_) sleep_until(now_ns() + metadata_latency_ns_);
}

void Filesystem::wait_data_latency() const {
  if (speed_.latency_ns) sleep_until(now_ns() + speed_.latency_ns);
}

}  // namespace slowfs
