#pragma once

// The reads of a process image, one by one, for `ioweave run --record` and `--replay`: the file
// PID-N.reads in the run's directory, beside the image's segment (segment.hpp).
//
// How it works. The log is a ring. A thread that has read something takes a number, fills in the
// slot of that number, and publishes it by the number itself. The command reads the slots in order
// and says in `taken` how far it has come. If the command is so slow that the ring is full, reads
// are counted as lost: the program never waits. The file is as long as the ring, and sparse: only
// slots that were used take memory.
//
// A process that is killed between taking a number and publishing it leaves a slot that is never
// published. The command passes over it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace ioweave::stats {

inline constexpr uint64_t kReadLogMagic = 0x31474f4c44455249;  // "IREDLOG1"
inline constexpr std::string_view kReadLogSuffix = ".reads";

/// One read that moved bytes.
struct LoggedRead {
  /// The read's number, from 1 on. Release when all else is stored; 0, or the number of an earlier
  /// round: not published yet.
  std::atomic<uint64_t> number;
  std::atomic<uint64_t> offset;
  std::atomic<uint64_t> ticks;  ///< base/clock.hpp now_ticks() behind the read
  std::atomic<uint32_t> file;   ///< number of the record in the segment
  std::atomic<uint32_t> bytes;
};

struct ReadLog {
  static constexpr uint64_t kReads = 1u << 19;  // a power of two
  /// Slots that stay free, for threads that see room at the same time.
  static constexpr uint64_t kSlack = 1024;

  uint64_t magic;
  uint32_t version;  ///< config::kLayoutVersion
  uint32_t reserved;
  // Cache lines of their own: threads of the program write the first, the command the second.
  uint64_t padding[6];
  std::atomic<uint64_t> begun;  ///< numbers that were taken
  std::atomic<uint64_t> lost;   ///< reads that found no room
  uint64_t padding_behind_begun[6];
  std::atomic<uint64_t> taken;  ///< reads that the command has seen; it writes this
  uint64_t padding_behind_taken[7];
  LoggedRead read[kReads];
};

static_assert(std::is_standard_layout_v<ReadLog>);
static_assert(sizeof(LoggedRead) == 32 && offsetof(ReadLog, begun) == 64 &&
              offsetof(ReadLog, taken) == 128 && offsetof(ReadLog, read) == 192);

}  // namespace ioweave::stats
