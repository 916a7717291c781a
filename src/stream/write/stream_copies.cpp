// Bytes that lie elsewhere: copied into buffers of the stream, small ones gathered.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "stream/write/stream_parts.hpp"

namespace ioweave::stream {
namespace {

/// Where copies begin within a buffer, so that whole pages of the file are whole pages of memory.
uint64_t begin_in_page(int64_t offset) noexcept {
  return static_cast<uint64_t>(offset) & (kPageBytes - 1);
}

}  // namespace

int WriteStream::copy(int number, const std::byte* data, uint64_t bytes, int64_t offset) noexcept {
  FileRef file;
  Outstanding place;
  Buffer* gathered = nullptr;
  LinkedList<Buffer> reserved;
  Aftermath after;
  int error = 0;
  {
    const std::lock_guard guard(lock_);
    const bool is_append = offset == kAppend;
    file = find(number);
    error = check(file, bytes, offset);
    if (error == 0 && options_.overflow == IOW_OVERFLOW_FAIL) {
      error = reserve(*file, bytes, offset, reserved, after);
    }
    if (error == 0 && bytes != 0) {
      accept(*file, bytes, offset, is_append);
      if (file->gathered != nullptr) {
        gathered = stop_gathering(*file);
        if (gathered->offset + static_cast<int64_t>(gathered->bytes) != offset) {
          put_in_line(*std::exchange(gathered, nullptr), nullptr, after);
        }
      }
      place.sequence = next_sequence_++;
      file->outstanding.push_back(place);
    }
  }
  finish(after);
  if (error != 0 || bytes == 0) {
    return error;
  }
  error = fill_buffers(file, place, gathered, data, bytes, offset, reserved);
  Aftermath at_the_end;
  {
    const std::lock_guard guard(lock_);
    file->outstanding.remove(place);
    tell_waiters(*file, at_the_end);
  }
  file = nullptr;
  finish(at_the_end);
  return error;
}

/// Takes all buffers that the bytes need besides what is gathered. -EAGAIN: there are not enough,
/// and none is taken; -ENOBUFS: there never will be.
int WriteStream::reserve(const File& file, uint64_t bytes, int64_t offset,
                         LinkedList<Buffer>& reserved, Aftermath& after) noexcept {
  const Buffer* const gathered = file.gathered;
  if (gathered != nullptr && gathered->offset + static_cast<int64_t>(gathered->bytes) == offset) {
    const uint64_t room = room_in(*gathered);
    bytes -= std::min(bytes, room);
    offset += static_cast<int64_t>(room);
  }
  const uint64_t span = bytes == 0 ? 0 : bytes + begin_in_page(offset);
  const uint64_t needed = (span + options_.buffer_bytes - 1) / options_.buffer_bytes;
  if (needed > options_.buffers) {
    return -ENOBUFS;
  }
  if (needed > free_count_) {
    send_oldest_gathered(after);
    return -EAGAIN;
  }
  for (uint64_t i = 0; i < needed; ++i) {
    reserved.push_back(*take_free(false));
  }
  return 0;
}

/// The next buffer for a copy; null: it must go on without one.
WriteStream::Buffer* WriteStream::take_to_fill(LinkedList<Buffer>& reserved) noexcept {
  Buffer* buffer = reserved.pop_front();
  if (buffer == nullptr && options_.overflow != IOW_OVERFLOW_SYNCHRONOUS) {
    static_cast<void>(wait_for_buffer(buffer, -1));
  } else if (buffer == nullptr) {
    Aftermath after;
    {
      const std::lock_guard guard(lock_);
      buffer = take_free(false);
      if (buffer == nullptr) {
        send_oldest_gathered(after);  // or there might never be one
      }
    }
    finish(after);
  }
  return buffer;
}

/// The bytes were accepted, so nothing but a failure of the file keeps them from being written.
int WriteStream::fill_buffers(const FileRef& file, Outstanding& copy, Buffer* buffer,
                              const std::byte* data, uint64_t bytes, int64_t offset,
                              LinkedList<Buffer>& reserved) noexcept {
  while (true) {
    if (buffer == nullptr) {
      buffer = take_to_fill(reserved);
      if (buffer == nullptr) {
        return write_here(*file, data, bytes, offset);
      }
      buffer->data = buffer->memory + begin_in_page(offset);
      buffer->file = file;
      buffer->offset = offset;
      buffer->bytes = 0;
    }
    const uint64_t piece = std::min(bytes, room_in(*buffer));
    std::memcpy(buffer->data + buffer->bytes, data, piece);
    buffer->bytes += piece;
    data += piece;
    bytes -= piece;
    offset += static_cast<int64_t>(piece);
    Aftermath after;
    int error = 0;
    {
      const std::lock_guard guard(lock_);
      // Somebody may wait for a buffer, or for this file: then there is no time to gather.
      const bool is_wanted = room_in(*buffer) == 0 || file->gathered != nullptr ||
                             file->error != 0 || !file->flushing.empty() || !asks_.empty();
      if (is_wanted) {
        put_in_line(*buffer, &copy, after);
      } else {
        file->gathered = buffer;
        gathering_.push_back(*buffer);
      }
      error = file->error != 0 ? take_failure(*file) : 0;
      if (error != 0) {
        stats_.dropped_bytes += bytes;
        while (Buffer* const rest = reserved.pop_front()) {
          give_back(*rest, after);
        }
      }
    }
    finish(after);
    buffer = nullptr;
    if (error != 0 || bytes == 0) {
      return error;
    }
  }
}

uint64_t WriteStream::room_in(const Buffer& buffer) const noexcept {
  return options_.buffer_bytes - static_cast<uint64_t>(buffer.data - buffer.memory) - buffer.bytes;
}

/// Without a buffer, by the calling thread.
int WriteStream::write_here(File& file, const std::byte* data, uint64_t bytes,
                            int64_t offset) noexcept {
  uint64_t done = 0;
  int error = 0;
  // Where it cannot wait for its turn, in a task that must not wait, it goes without.
  const int64_t admission = options_.flow != 0 ? service_.admit(options_.flow, bytes) : 0;
  while (done < bytes && error == 0) {
    const service::Call call{engine::Op::write,
                             file.target.cached_fd(),
                             const_cast<std::byte*>(data + done),
                             bytes - done,
                             offset + static_cast<int64_t>(done),
                             false};
    const int64_t moved = service_.transfer(call);
    done += moved > 0 ? static_cast<uint64_t>(moved) : 0;
    error = moved > 0 ? 0 : moved < 0 ? static_cast<int>(moved) : -EIO;
  }
  if (done >= kPageBytes) {  // its result is no matter: a sync will tell
    static_cast<void>(service_.transfer(
        {engine::Op::write_back, file.target.cached_fd(), nullptr, done, offset, false}));
  }
  if (admission > 0) {
    static_cast<void>(service_.finish(admission, error != 0 ? error : static_cast<int64_t>(done)));
  }
  Aftermath after;
  {
    const std::lock_guard guard(lock_);
    stats_.written_bytes += done;
    if (error != 0) {
      stats_.dropped_bytes += bytes - done;
      fail(file, error, offset + static_cast<int64_t>(done), next_sequence_++, after);
      tell_waiters(file, after);
      error = take_failure(file);
    }
  }
  finish(after);
  return error;
}

/// There is a buffer that copies to the file have begun to fill.
WriteStream::Buffer* WriteStream::stop_gathering(File& file) noexcept {
  Buffer* const buffer = std::exchange(file.gathered, nullptr);
  gathering_.remove(*buffer);
  return buffer;
}

void WriteStream::send_gathered(File& file, Aftermath& after) noexcept {
  if (file.gathered != nullptr) {
    put_in_line(*stop_gathering(file), nullptr, after);
  }
}

/// Somebody needs a buffer: what is gathered must not keep one for ever.
void WriteStream::send_oldest_gathered(Aftermath& after) noexcept {
  if (const Buffer* const oldest = gathering_.first(); oldest != nullptr) {
    send_gathered(*oldest->file, after);
  }
}

}  // namespace ioweave::stream
