#pragma once

// A planned read, its slices, and the file that it is of.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ioweave/ioweave.h"
#include "service/wait.hpp"
#include "stream/plan/file_state.hpp"
#include "stream/write/linked_list.hpp"

namespace ioweave::stream {

/// Memory of pages, given back to the system at the end.
class PageMemory {
 public:
  PageMemory() = default;
  /// Empty without memory.
  PageMemory(uint64_t bytes, bool huge_pages) noexcept;
  ~PageMemory();
  PageMemory(PageMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PageMemory& operator=(PageMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

/// Memory that the program has, with what was read into it.
struct LeasedMemory {
  PageMemory memory;
  uint64_t room = 0;  ///< bytes of the budget that it has
  uint32_t born = 0;  ///< in this generation of forks
};

struct Entry;

/// A thread or task that waits for a slice, or for the end of several.
class SliceWait : public service::Wait {
 public:
  SliceWait* previous = nullptr;
  SliceWait* next = nullptr;
};

/// A part of an entry: one transfer.
struct Slice {
  enum class State : uint8_t {
    waiting,    ///< to be read
    under_way,  ///< submitted, or about to be
    read,       ///< `got` bytes are there
    missing,    ///< failed, or given up: whoever wants the bytes reads them
  };
  Entry* entry = nullptr;
  uint64_t begin = 0;  ///< within the entry
  uint64_t bytes = 0;
  uint64_t got = 0;
  uint32_t weight = 1;  ///< transfers that have ended when it has: it, and advised ones before it
  uint64_t submitted_ns = 0;
  State state = State::waiting;
  bool is_submitted = false;  ///< so that the gate knows it
  bool is_own = false;        ///< read by the caller who leases it
  bool is_wanted = false;     ///< somebody waits for it: it must not wait for anybody
  LinkedList<SliceWait> waits;
  Slice* next = nullptr;  ///< in a list of what is to be submitted
  Slice* previous = nullptr;
  Slice* next_unwanted = nullptr;  ///< in a chain of what is to be taken back
  iow_request request{};
};

struct File;
class Plan;

/// Guarded by the plan's lock, but for what a transfer is reading into.
struct Entry {
  File* file = nullptr;
  int fd = -1;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t number = 0;  ///< its place in the plan
  uint64_t room = 0;    ///< bytes of the budget that it has
  PageMemory memory;    ///< from its beginning to its end
  std::vector<Slice> slices;
  size_t next_slice = 0;      ///< the first that may be waiting
  uint32_t under_way = 0;     ///< slices
  uint32_t pins = 0;          ///< readers that copy from it
  uint64_t taken = 0;         ///< bytes that were read by the program
  uint64_t ahead = 0;         ///< bytes that were read ahead
  uint64_t begun_at = 0;      ///< how many reads of the program's had ended then
  FileStamp stamp;            ///< of the file, before the first slice was submitted
  bool is_listed = false;     ///< among those that wait
  bool has_passed = false;    ///< the program seems to have passed it by
  bool wants_advice = false;  ///< it is to be
  bool is_advised = false;  ///< the kernel reads it into the page cache; there is no memory for it
  bool is_dropped = false;  ///< in no list: it ends with the last transfer and reader
  Entry* next = nullptr;    ///< in the plan's list of those that wait, or of those begun
  Entry* previous = nullptr;

  [[nodiscard]] bool is_begun() const noexcept { return is_advised || !slices.empty(); }
  [[nodiscard]] uint64_t end() const noexcept { return offset + bytes; }
};

struct File {
  File(Plan* of, FileId with_id) noexcept : plan(of), id(with_id) {}
  Plan* const plan;
  const FileId id;
  std::multimap<uint64_t, Entry*> entries;  ///< by offset; of one offset in the plan's order
  uint64_t longest = 0;                     ///< bytes of the longest entry there ever was
  uint64_t users = 0;                       ///< entries that exist, dropped ones included
  bool was_asked = false;                   ///< whether it is on FUSE
  bool is_on_fuse = false;                  ///< it is
  uint64_t under_way = 0;                   ///< slices, and entries that are being prepared
  /// The last write of the plan's own left the file so: its times are its own doing.
  bool is_own_stamp = false;
  FileStamp own_stamp;
};

}  // namespace ioweave::stream
