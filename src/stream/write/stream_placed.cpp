// Writes whose file somebody else chooses: the items of a spread.

#include <cerrno>
#include <utility>

#include "base/clock.hpp"
#include "stream/write/stream_parts.hpp"

namespace ioweave::stream {

WriteStream::Owner WriteStream::share() noexcept {
  references_.fetch_add(1, std::memory_order_relaxed);
  return Owner(this);
}

void WriteStream::give_file(int file, WritePlacer& placer) noexcept {
  const std::lock_guard guard(lock_);
  find(file)->placer = &placer;
}

/// A file that takes the bytes: 0 and `file`, or -errno.
int WriteStream::choose_file(WritePlacer& placer, uint64_t bytes, FileRef& file) noexcept {
  while (true) {
    const int number = placer.choose(bytes);
    if (number < 0) {
      return number;
    }
    file = find(number);
    if (closed_ || file == nullptr || file->placer != &placer || file->is_ending) {
      return -EBADF;
    }
    if (file->error == 0) {
      return 0;
    }
    if (!placer.leave(number)) {
      return take_failure(*file);
    }
    file->is_left = true;
  }
}

/// As hand_over(). Where the buffer is under way afterwards, it has a file.
int WriteStream::hand_over_placed(Buffer& buffer, WritePlacer& placer, uint64_t bytes,
                                  uint64_t& tag, Aftermath& after) noexcept {
  FileRef file;
  tag = WritePlacer::kNew;
  int64_t offset = bytes > options_.buffer_bytes ? -EINVAL : choose_file(placer, bytes, file);
  if (offset == 0) {
    offset = placer.place(static_cast<int>(file->number), bytes, tag);
  }
  if (offset < 0 || bytes == 0) {
    if (offset >= 0) {
      placer.note_end(tag, 0);
    } else if (file != nullptr && file->error != 0) {
      stats_.dropped_bytes += bytes;
    }
    give_back(buffer, after);
    return offset < 0 ? static_cast<int>(offset) : 0;
  }
  accept(*file, bytes, offset, true);
  buffer.placer = &placer;
  buffer.tag = tag;
  buffer.file = std::move(file);
  buffer.bytes = bytes;
  buffer.offset = offset;
  put_in_line(buffer, nullptr, after);
  return 0;
}

/// A buffer that its file failed to take goes to another one, if its placer wants that. Who calls
/// this starts writes afterwards.
bool WriteStream::place_again(Buffer& buffer) noexcept {
  FileRef file;
  if (closed_ || !buffer.placer->leave(static_cast<int>(buffer.file->number))) {
    return false;
  }
  buffer.file->is_left = true;
  if (choose_file(*buffer.placer, buffer.bytes, file) != 0) {
    return false;
  }
  const int64_t offset =
      buffer.placer->place(static_cast<int>(file->number), buffer.bytes, buffer.tag);
  if (offset < 0) {
    return false;
  }
  accept(*file, buffer.bytes, offset, true);
  stats_.dropped_bytes -= buffer.bytes;  // it was counted when its file failed
  buffer.file = std::move(file);
  buffer.offset = offset;
  line_up(buffer);
  return true;
}

int WriteStream::write_placed(Buffer& buffer, WritePlacer& placer, uint64_t bytes,
                              uint64_t& tag) noexcept {
  const uint64_t begin = now_ns();
  buffer.data = buffer.memory;
  int error = 0;
  if (buffer.is_spare && !service::DrivingHere::any()) {
    BufferWait wait(*this, buffer, bytes, [&](Aftermath& after) {
      return hand_over_placed(buffer, placer, bytes, tag, after);
    });
    static_cast<void>(service_.wait_for(wait, -1));
    error = wait.error();
  } else {
    Aftermath after;
    {
      const std::lock_guard guard(lock_);
      error = hand_over_placed(buffer, placer, bytes, tag, after);
    }
    finish(after);
  }
  count_call(now_ns() - begin, false);
  drop_reference();  // of the lease: the last one of a stream that is closed
  return error;
}

void WriteStream::wait_placed(const WritePlacer& placer, const std::vector<int>& numbers) noexcept {
  // A write that fails moves to a file that may have been waited for already.
  for (bool is_idle = false; !is_idle;) {
    for (const int number : numbers) {
      FileRef file;
      under_lock([&] { file = find(number); });
      if (file != nullptr && file->placer == &placer) {
        reach_surely(file, false);
      }
    }
    under_lock([&] { is_idle = placer.is_idle(); });
  }
}

int WriteStream::end_placed(const WritePlacer& placer, const std::vector<int>& numbers,
                            bool durable, std::vector<FileEnd>& ends) {
  std::vector<FileRef> files;
  ends.resize(numbers.size());
  wait_placed(placer, numbers);
  {
    const std::lock_guard guard(lock_);
    for (const int number : numbers) {
      files.push_back(find(number));
      const File* const file = files.back().get();
      if (closed_ || file == nullptr || file->placer != &placer || file->is_ending) {
        return -EBADF;
      }
    }
    for (const FileRef& file : files) {
      file->is_ending = true;
    }
  }
  end_files(files, durable);
  for (size_t i = 0; i < files.size(); ++i) {
    const File& file = *files[i];  // nobody else has it any more
    if (file.error == 0) {
      continue;
    }
    ends[i] = {file.error, file.is_reported, file.is_in_doubt, describe_failure(file)};
    if (durable && !file.is_in_doubt) {
      // end_files() leaves out what has failed, but its other writes are to be durable, too.
      const service::Call sync{
          engine::Op::fdatasync, file.target.cached_fd(), nullptr, 0, 0, false};
      ends[i].is_in_doubt = service_.transfer(sync) != 0;
    }
  }
  const std::lock_guard guard(lock_);
  for (const FileRef& file : files) {
    files_[file->number] = nullptr;
    if (file->is_idle()) {  // else another thread syncs it still
      file->target.close();
    }
  }
  return 0;
}

}  // namespace ioweave::stream
