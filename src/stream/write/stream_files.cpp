// The files of a stream, and who waits for them.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "stream/write/stream_parts.hpp"

namespace ioweave::stream {

// ---- Waiting for what was written

bool WriteStream::FilesGoal::begin(WriteStream& stream, Aftermath& after) noexcept {
  left_ = count_ + 1;  // so that it is not reached before all files were looked at
  for (size_t i = 0; i < count_; ++i) {
    File& file = *files_[i];
    stream.send_gathered(file, after);
    FileWaiter& waiter = waiters_[i];
    waiter.until = stream.next_sequence_;
    waiter.whole = this;
    waiter.move_to(&file.flushing);
    stream.tell_waiters(file, after);
  }
  return --left_ == 0;
}

bool WriteStream::FilesGoal::give_up() noexcept {
  if (left_ == 0) {
    return false;
  }
  for (size_t i = 0; i < count_; ++i) {
    waiters_[i].move_to(nullptr);
  }
  return true;
}

bool WriteStream::FilesWait::begin() noexcept {
  Aftermath after;
  WriteStream& stream = stream_;
  bool is_over = false;
  {
    const std::lock_guard guard(stream.lock_);
    is_over = FilesGoal::begin(stream, after);
  }
  stream.finish(after);  // this wait may be gone
  return is_over;
}

bool WriteStream::FilesWait::withdraw() noexcept {
  const std::lock_guard guard(stream_.lock_);
  return !surely_ && give_up();
}

/// Under the lock: whoever waited for writes that have all ended goes on.
void WriteStream::tell_waiters(File& file, Aftermath& after) noexcept {
  const uint64_t first_outstanding =
      file.outstanding.empty() ? next_sequence_ : file.outstanding.first()->sequence;
  while (FileWaiter* const waiter = file.flushing.first()) {
    if (first_outstanding < waiter->until) {
      break;
    }
    if (waiter->whole->is_durable() && file.error == 0) {
      waiter->move_to(&file.to_sync);
    } else {
      waiter->move_to(nullptr);
      waiter->whole->count_down(after);
    }
  }
  start_sync(file, after);
}

/// One sync for all whose turn it is; those that come while it is under way share the next one.
void WriteStream::start_sync(File& file, Aftermath& after) noexcept {
  if (file.kept_by_sync != nullptr || file.to_sync.empty()) {
    return;
  }
  while (FileWaiter* const waiter = file.to_sync.first()) {
    waiter->move_to(&file.in_sync);
  }
  file.kept_by_sync = file.shared_from_this();
  references_.fetch_add(1, std::memory_order_relaxed);
  ++stats_.syncs;
  after.syncs.push_back(file);
}

void WriteStream::submit_sync(File& file) noexcept {
  file.sync_request = {};
  file.sync_request.op = IOW_OP_FDATASYNC;
  file.sync_request.fd = file.target.cached_fd();
  file.sync_request.flow = options_.flow;
  file.sync_request.user = &file;
  file.sync_request.callback = [](iow_request*, void* user) {
    auto& synced = *static_cast<File*>(user);
    synced.stream.end_sync(synced);
  };
  if (!submit(file.sync_request)) {
    end_sync(file);
  }
}

void WriteStream::end_sync(File& file) noexcept {
  Aftermath after;
  FileRef kept;  // outlives the lock
  {
    const std::lock_guard guard(lock_);
    kept = std::move(file.kept_by_sync);
    if (const int64_t result = file.sync_request.result; result < 0) {
      fail(file, static_cast<int>(result), kNoOffset, next_sequence_++, after);
    }
    while (FileWaiter* const waiter = file.in_sync.first()) {
      waiter->move_to(nullptr);
      waiter->whole->count_down(after);
    }
    tell_waiters(file, after);
  }
  kept = nullptr;  // before who ends it is told: its descriptors must be closed when he returns
  finish(after);
  drop_reference();
}

/// 0; unless `surely`, -EAGAIN: the caller is in a task that must not wait. May throw
/// std::bad_alloc.
int WriteStream::wait_for_files(const std::vector<FileRef>& files, bool durable, bool surely) {
  std::vector<FileWaiter> waiters(files.size());
  FilesWait wait(*this, files.data(), waiters.data(), files.size(), durable, surely);
  return service_.wait_for(wait, -1);
}

/// In whatever task, and without memory: what ends a file must not leave it half-written.
void WriteStream::reach_surely(const FileRef& file, bool durable) noexcept {
  FileWaiter waiter;
  FilesWait wait(*this, &file, &waiter, 1, durable, true);
  static_cast<void>(service_.wait_for(wait, -1));
}

// ---- Files

int WriteStream::create(const std::string& path, const iow_write_file_options& options,
                        std::string& why) {
  const FileRef file = reserve_number();
  if (file == nullptr) {  // found out before a file is emptied
    why = "a write stream has at most " + std::to_string(kMostFiles) + " files at once";
    return -ENFILE;
  }
  int error = -ENOMEM;
  try {
    error = file->target.open(path, options, options_.path, why);
  } catch (const std::bad_alloc&) {
    why.clear();
  }
  const std::lock_guard guard(lock_);
  if (error != 0) {
    files_[file->number] = nullptr;
    return error;
  }
  file->may_go_direct = file->target.direct_fd() >= 0;
  file->append_at = file->target.kept_bytes();
  file->is_ending = false;
  return static_cast<int>(file->number);
}

/// A file that nobody can use yet; null where there are too many.
WriteStream::FileRef WriteStream::reserve_number() {
  auto file = std::make_shared<File>(*this);
  file->is_ending = true;
  const std::lock_guard guard(lock_);
  const auto unused = std::find(files_.begin(), files_.end(), nullptr);
  file->number = static_cast<size_t>(unused - files_.begin());
  if (file->number == kMostFiles) {
    return nullptr;
  }
  if (unused != files_.end()) {
    *unused = file;
  } else {
    files_.push_back(file);
  }
  return file;
}

/// Null if there is none.
WriteStream::FileRef WriteStream::find(int file) const noexcept {
  const auto index = static_cast<size_t>(file);
  return file >= 0 && index < files_.size() ? files_[index] : nullptr;
}

/// The file, or all of them; empty if there is none of that number.
std::vector<WriteStream::FileRef> WriteStream::find_all(int file) const {
  std::vector<FileRef> found;
  const std::lock_guard guard(lock_);
  if (file != IOW_ALL_FILES) {
    if (FileRef one = find(file); one != nullptr) {
      found.push_back(std::move(one));
    }
    return found;
  }
  std::copy_if(files_.begin(), files_.end(), std::back_inserter(found),
               [](const FileRef& one) { return one != nullptr && !one->is_ending; });
  return found;
}

int WriteStream::reach(int file, bool durable) {
  const std::vector<FileRef> files = find_all(file);
  if (files.empty()) {
    return file == IOW_ALL_FILES ? 0 : -EBADF;
  }
  if (const int error = wait_for_files(files, durable, false); error != 0) {
    return error;
  }
  const std::lock_guard guard(lock_);
  return take_failure_of(files, nullptr);
}

WriteStream::FilesAsk::FilesAsk(WriteStream& stream, std::vector<FileRef> files,
                                std::vector<FileWaiter> waiters, bool durable, iow_reached reached,
                                void* user) noexcept
    : FilesGoal(files.data(), waiters.data(), files.size(), durable),
      stream_(stream),
      files_(std::move(files)),  // their memory stays where it is
      waiters_(std::move(waiters)),
      reached_(reached),
      user_(user) {
  stream_.references_.fetch_add(1, std::memory_order_relaxed);
}

int WriteStream::reach_async(int file, bool durable, iow_reached reached, void* user) {
  std::vector<FileRef> files = find_all(file);
  if (files.empty() && file != IOW_ALL_FILES) {
    return -EBADF;
  }
  std::vector<FileWaiter> waiters(files.size());
  auto ask = std::make_unique<FilesAsk>(*this, std::move(files), std::move(waiters), durable,
                                        reached, user);
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    FilesAsk& goal = *ask.release();
    if (goal.begin(*this, after)) {
      goal.reach(after);
    }
  }
  finish(after);
  return 0;
}

int WriteStream::end(int file, bool durable, std::string& why) {
  std::vector<FileRef> files = find_all(file);
  {
    const std::lock_guard guard(lock_);
    untold_.reserve(untold_.size() + files.size());
    const auto ends_already = [](const FileRef& one) {
      return std::exchange(one->is_ending, true);
    };
    files.erase(std::remove_if(files.begin(), files.end(), ends_already), files.end());
  }
  if (files.empty()) {
    return file == IOW_ALL_FILES ? 0 : -EBADF;
  }
  end_files(files, durable);
  File* failed = nullptr;
  int error = 0;
  {
    const std::lock_guard guard(lock_);
    error = take_failure_of(files, &failed);
    for (const FileRef& one : files) {
      files_[one->number] = nullptr;
      if (one->is_idle()) {  // else another thread syncs it still
        one->target.close();
      }
      if (one->error != 0 && !one->is_reported) {
        untold_.push_back(one);
      }
    }
  }
  describe_failure_of(failed, why);
  return error;
}

/// Nobody writes to them any more; what was written has ended afterwards, and is durable if wanted.
void WriteStream::end_files(const std::vector<FileRef>& files, bool durable) noexcept {
  for (const FileRef& file : files) {
    reach_surely(file, false);
    if (const int error = file->target.trim(file->end); error != 0) {
      Aftermath after;  // stays empty: nothing waits any more
      const std::lock_guard guard(lock_);
      fail(*file, error, kNoOffset, next_sequence_++, after);
    }
  }
  if (!durable) {
    return;
  }
  try {
    static_cast<void>(wait_for_files(files, true, true));
  } catch (const std::bad_alloc&) {
    for (const FileRef& file : files) {
      reach_surely(file, true);
    }
  }
}

int WriteStream::close(bool durable, std::string& why) noexcept {
  std::vector<FileRef> files;
  {
    const std::lock_guard guard(lock_);
    closed_ = true;
    files.swap(files_);
    files.erase(std::remove(files.begin(), files.end(), nullptr), files.end());
  }
  end_files(files, durable);
  Aftermath after;
  int error = 0;
  File* failed = nullptr;
  {
    const std::lock_guard guard(lock_);
    error = take_failure_of(untold_.empty() ? files : untold_, &failed);
    while (Callback* const ask = asks_.pop_front()) {
      after.callbacks.push_back(*ask);  // of callbacks: who waits would wait for ever
    }
  }
  finish(after);
  describe_failure_of(failed, why);
  return error;
}

// ---- Failures

/// The error of the file the first time, -ECANCELED afterwards; 0 if it has none.
int WriteStream::take_failure(File& file) noexcept {
  return file.error == 0 || !std::exchange(file.is_reported, true) ? file.error : -ECANCELED;
}

/// The first error that was not reported yet; else -ECANCELED if there was one. `who` has it, or,
/// where all were reported, the first of them.
int WriteStream::take_failure_of(const std::vector<FileRef>& files, File** who) noexcept {
  int error = 0;
  for (const FileRef& file : files) {
    if (file->error == 0 || file->is_excused()) {
      continue;
    }
    const bool is_new = !file->is_reported;
    if (who != nullptr && (is_new || error == 0)) {
      *who = file.get();
    }
    error = take_failure(*file);
    if (is_new) {
      break;
    }
  }
  return error;
}

std::string WriteStream::describe_failure(const File& file) {
  const std::string reason = std::string("': ") + std::strerror(-file.error);
  if (file.error_offset == kNoOffset) {
    return "cannot bring to the device '" + file.target.path() + reason;
  }
  return "cannot write at offset " + std::to_string(file.error_offset) + " of '" +
         file.target.path() + reason;
}

void WriteStream::describe_failure_of(const File* failed, std::string& why) noexcept {
  try {
    why = failed != nullptr ? describe_failure(*failed) : "";
  } catch (const std::bad_alloc&) {
    why.clear();  // the error itself is told
  }
}

int WriteStream::tell_error(int file, std::string& why) const {
  const std::lock_guard guard(lock_);
  int error = 0;
  const auto look_at = [&](const FileRef& one) {
    if (error == 0 && one != nullptr && one->error != 0) {
      error = one->error;
      why = describe_failure(*one);
    }
  };
  if (file == IOW_ALL_FILES) {
    std::for_each(files_.begin(), files_.end(), look_at);
    std::for_each(untold_.begin(), untold_.end(), look_at);
    return error;
  }
  const FileRef one = find(file);
  if (one == nullptr) {
    return -EBADF;
  }
  look_at(one);
  return error;
}

}  // namespace ioweave::stream
