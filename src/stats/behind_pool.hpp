#pragma once

// Writes that a process has made and that are held back (policy `behind`): the file PID-N.behind in
// the run's directory, beside the image's segment (segment.hpp).
//
// How it works. A file is divided into blocks. A block of the pool holds what was written of one
// block of a file: bytes, and the ranges of them that are valid. So small writes become large ones,
// whatever their order. The threads of the process write blocks to their files.
//
// The pool is a file that the command maps nothing of, and reads when the process has ended. A
// process that is killed has written what is in its pool, as far as it could know. So the command
// writes what is left (cli/behind_rest.hpp). For that, each block is consistent at every moment:
// bytes come first, then the set of ranges that is not current, then the number of the current one.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace ioweave::stats {

inline constexpr uint64_t kBehindMagic = 0x31444e4948454249;  // "IBEHIND1"
inline constexpr std::string_view kBehindSuffix = ".behind";

/// Valid bytes of a block, in order, apart from each other.
struct BehindRanges {
  static constexpr uint32_t kMost = 127;
  struct Range {
    uint32_t begin;
    uint32_t end;
  };

  uint32_t count;
  uint32_t reserved;
  Range range[kMost];

  /// Adds a range, begin < end, and joins what it touches. Returns false, and changes nothing, if
  /// there were too many then.
  [[nodiscard]] bool add(Range added) noexcept {
    uint32_t first = 0;
    while (first < count && range[first].end < added.begin) ++first;
    uint32_t behind = first;
    while (behind < count && range[behind].begin <= added.end) {
      added.begin = std::min(added.begin, range[behind].begin);
      added.end = std::max(added.end, range[behind].end);
      ++behind;
    }
    if (behind == first) {
      if (count == kMost) return false;
      std::copy_backward(range + first, range + count, range + count + 1);
      ++count;
    } else {
      std::copy(range + behind, range + count, range + first + 1);
      count -= behind - first - 1;
    }
    range[first] = added;
    return true;
  }
};

struct BehindBlock {
  enum class State : uint32_t {
    free,
    filling,  ///< takes more
    waiting,  ///< to be written; may still take more
    writing,
  };

  std::atomic<State> state;
  uint32_t file;       ///< number in BehindPool::file
  uint64_t offset;     ///< in the file; a multiple of BehindPool::kBlockBytes
  uint64_t order;      ///< of two blocks of one place the later one has the higher number
  uint64_t begun_ns;   ///< base/clock.hpp now_ns() of the first write
  uint32_t is_closed;  ///< it takes no more, for it has too many ranges
  std::atomic<uint32_t> current;  ///< which of `ranges` counts; release when it is complete
  std::array<BehindRanges, 2> ranges;
};

struct BehindFile {
  uint64_t device;  ///< st_dev
  uint64_t inode;
  int64_t birth_ns;  ///< of the file, since the epoch; 0: not known
  std::atomic<int64_t>
      changed_ns;   ///< its mtime after the last write of this process; 0: not known
  char path[4096];  ///< as /proc tells it; empty: too long
};

struct BehindPool {
  static constexpr uint32_t kFiles = 64;
  static constexpr uint32_t kBlocks = 64;
  static constexpr uint64_t kBlockBytes = 1u << 20;
  static constexpr size_t kDataOffset = 1u << 20;  ///< of the first block's bytes in the pool
  static constexpr size_t kBytes = kDataOffset + kBlocks * kBlockBytes;

  uint64_t magic;
  uint32_t version;  ///< config::kLayoutVersion
  int32_t pid;
  uint64_t start_time;  ///< of the process, field 22 of /proc/PID/stat; 0: not known

  // Figures for the report.
  std::atomic<uint64_t> calls;          ///< writes of the program that were held back
  std::atomic<uint64_t> bytes;          ///< of them
  std::atomic<uint64_t> writes;         ///< that were made of them
  std::atomic<uint64_t> written_bytes;  ///< by these
  std::atomic<uint64_t> waited_ns;      ///< by the program, for room and for all to be written
  std::atomic<uint64_t> errors;         ///< writes that failed

  BehindFile file[kFiles];
  BehindBlock block[kBlocks];
};

static_assert(std::is_standard_layout_v<BehindPool>);
static_assert(sizeof(BehindPool) <= BehindPool::kDataOffset);
static_assert(std::atomic<BehindBlock::State>::is_always_lock_free);

}  // namespace ioweave::stats
