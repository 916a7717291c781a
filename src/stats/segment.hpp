#pragma once

// What a program under `ioweave run` shares with the command: one directory for each run (mode
// 0700, on tmpfs if possible), which holds
//
//   config            config::RunConfig, written once by the command, mapped read-only by every
//                     process, and at kRunStateOffset the RunState, mapped read-write
//   PID-N.segment     Segment, one per process image (N counts fork and exec), mapped read-write
//
// Counters are in shared memory. So a process that is killed still leaves its figures, and the
// program itself never writes a byte or opens a descriptor for them at its end. Layouts are fixed
// and versioned. Both sides must come from one build; otherwise the interposer does nothing.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "choice/expectation.hpp"
#include "choice/large_pages.hpp"
#include "choice/way_choice.hpp"
#include "config/run_config.hpp"
#include "stats/series.hpp"

namespace ioweave::stats {

inline constexpr uint64_t kSegmentMagic = 0x3147455357454f49;  // "IOEWSEG1"

// ---- Requests of processes to the command -------------------------------------------------------

/// The command has files open while it prefetches. A call that conflicts with one asks for all to
/// be closed (calls/preload/release.hpp), and waits for the answer while a file is open.
struct RunState {
  std::atomic<uint32_t> asked;       ///< number of requests, over all processes
  std::atomic<uint32_t> listeners;   ///< requests of processes that listen to opens from then on
  std::atomic<uint32_t> answered;    ///< the number of the last request that was answered
  std::atomic<uint32_t> is_open;     ///< 1: a file may be open
  std::atomic<uint32_t> unanswered;  ///< requests in a row without an answer
  uint32_t reserved;
  /// base/clock.hpp now_ns() when a file was last open, and when a file was last open that its file
  /// system would keep under another name if it were removed; 0: never.
  std::atomic<uint64_t> open_ns;
  std::atomic<uint64_t> kept_open_ns;
};
inline constexpr size_t kRunStateOffset = 64 << 10;  ///< a page of its own, whatever the page size
static_assert(sizeof(config::RunConfig) <= kRunStateOffset);
/// The size of the file `config`.
inline constexpr size_t kConfigBytes = kRunStateOffset + sizeof(RunState);

// ---- Counters -----------------------------------------------------------------------------------

/// A counter to which mostly one thread adds, the owner of its record. The owner adds without a
/// locked instruction; all other threads add to `shared`. The value is the sum.
struct BiasedCounter {
  std::atomic<uint64_t> owned;   // one thread writes it; relaxed, since readers need no order
  std::atomic<uint64_t> shared;  // relaxed: a sum on which no other data depends

  void add(uint64_t amount, bool is_owner) noexcept {
    if (is_owner) {
      owned.store(owned.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    } else {
      shared.fetch_add(amount, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] uint64_t value() const noexcept {
    return owned.load(std::memory_order_relaxed) + shared.load(std::memory_order_relaxed);
  }
};

enum class CallClass : uint32_t { read, write, sync, other };
inline constexpr unsigned kCallClasses = 4;
inline constexpr std::array<std::string_view, kCallClasses> kCallClassNames{"read", "write", "sync",
                                                                            "other"};

struct CallCounters {
  BiasedCounter calls;
  BiasedCounter bytes;
  BiasedCounter ticks;  ///< time inside the call, in base/clock.hpp's ticks
  BiasedCounter errors;
};

/// Why a file is not accelerated (it is always served). The first reason stays. The interposer sets
/// those up to `stream`, except `duplicated`, which only older run files have, and `shared_memory`.
enum class Degrade : uint32_t {
  none,
  not_regular,    ///< pipe, socket, terminal, device, directory
  memory_file,    ///< on tmpfs or another file system without a device behind it
  append,         ///< O_APPEND
  direct,         ///< O_DIRECT bypasses the page cache
  duplicated,     ///< inherited by fork
  mapped,         ///< mmap
  stream,         ///< fdopen: the C library itself reads
  random_access,  ///< its reads follow no pattern
  no_gain,        ///< it is small, or its reads come from the page cache already
  read_ahead,     ///< small reads: the kernel's own read-ahead is in time
  no_resources,   ///< table slots ran out: there are more open files or devices than slots
  shared_memory,  ///< the process shares memory for writing, so writes are not held back
  other,          ///< a reason in a run file of a newer Ioweave that is unknown here
};
inline constexpr std::array<std::string_view, 14> kDegradeNames{"none",
                                                                "not a regular file",
                                                                "memory file",
                                                                "O_APPEND",
                                                                "O_DIRECT",
                                                                "shared descriptor",
                                                                "mapped",
                                                                "stdio stream",
                                                                "random access",
                                                                "no gain",
                                                                "kernel read-ahead",
                                                                "no resources",
                                                                "shared memory",
                                                                "other"};

/// A read at an explicit offset, or a seek, which the position of a descriptor does not show.
struct Place {
  std::atomic<uint64_t> offset;
  std::atomic<uint64_t> bytes;  ///< 0: a seek
};

/// One path as one process uses it. Record 0 gathers the files beyond the capacity.
struct FileRecord {
  static constexpr size_t kPathBytes = 256;
  static constexpr uint32_t kPlaces = 8;

  std::atomic<uint32_t> state;    ///< 0 free, 1 being filled, 2 in use (release; readers acquire)
  std::atomic<uint32_t> degrade;  ///< Degrade
  std::atomic<uint64_t> owner;    ///< thread that owns the biased counters (its control block)
  uint64_t device;                ///< st_dev
  uint64_t inode;
  config::RunPolicy policy;
  uint32_t opens;
  std::array<CallCounters, kCallClasses> call;

  std::atomic<uint32_t> places;  ///< reads at an explicit offset and seeks so far, over all threads
  std::atomic<uint32_t> series;  ///< number of its series; 0: that of all files without one
  std::array<Place, kPlaces> place;  ///< the last ones: number n is in n % kPlaces

  char path[kPathBytes];  ///< absolute if that is known; cut on the left with "..."
};

/// Notes a read at an explicit offset, or with `bytes` 0 a seek. It is a hint: all operations are
/// relaxed, and threads may garble or lose one, which costs a wrong guess about the next read.
inline void note_place(FileRecord& file, uint64_t offset, uint64_t bytes) noexcept {
  const uint32_t number = file.places.load(std::memory_order_relaxed);
  Place& place = file.place[number % FileRecord::kPlaces];
  place.offset.store(offset, std::memory_order_relaxed);
  place.bytes.store(bytes, std::memory_order_relaxed);
  file.places.store(number + 1, std::memory_order_relaxed);
}

/// How the calls of one kind on one file go: of one operation and class of sizes.
struct ChoiceRecord {
  std::atomic<uint64_t> key;     ///< of the kind; 0: free
  std::atomic<uint32_t> state;   ///< 1: `choice` is there (release; readers acquire)
  std::atomic<uint32_t> taken;   ///< by the thread that changes `choice`
  std::atomic<choice::Way> way;  ///< of the next call
  choice::Operation operation;
  uint8_t size_class;
  uint32_t file;          ///< number of its FileRecord
  choice::Pieces pieces;  ///< how Way::pieces cuts
  choice::WayChoice choice;
};

/// What became of buffers that were laid in large pages.
struct LargePagesRecord {
  std::atomic<uint32_t> taken;  ///< by the thread that uses `trial`
  choice::LargePages trial;
};

struct Segment {
  static constexpr uint32_t kFiles = 1024;
  static constexpr uint32_t kChoices = 128;  ///< a power of two
  static constexpr uint32_t kSeries = 64;
  /// A file gets a series of its own when so much of it was moved, while there are any.
  static constexpr uint64_t kSeriesBytes = 1u << 20;
  enum class State : uint32_t { running, exited, replaced /* by exec */ };

  uint64_t magic;
  uint32_t version;
  uint32_t bytes;
  std::atomic<State> state;
  int32_t pid;
  int32_t parent_pid;
  int32_t active;     ///< 0: the interposer does nothing; `why` says why
  uint64_t start_ns;  ///< base/clock.hpp now_ns() and now_ticks() of the same moment
  uint64_t start_ticks;
  std::atomic<uint64_t> end_ns;  ///< the last sign of life; 0 while unknown
  std::atomic<uint64_t> end_ticks;
  char program[256];  ///< /proc/self/exe
  char engine[64];    ///< engine in use, or empty if none was needed
  char why[256];      ///< the first downgrade or error, one sentence

  std::atomic<uint64_t> engine_operations;  ///< calls that went through the engine
  std::atomic<uint64_t> choices;            ///< 1: `choice` and `large_pages` are in use
  std::atomic<uint32_t> files;              ///< records in use, record 0 included
  std::atomic<uint32_t> series_in_use;      ///< series 0 included; 0: no transfer was made

  FileRecord file[kFiles];
  FileSeries series[kSeries];  ///< 0: of all files that have none of their own
  ChoiceRecord choice[kChoices];
  LargePagesRecord large_pages;
};

static_assert(std::is_standard_layout_v<Segment>);
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(BiasedCounter) == 16);
static_assert(sizeof(FileRecord) == 688);
static_assert(sizeof(Segment) <= 1u << 20);  // the command's message on `ulimit -f` says 1 MiB

}  // namespace ioweave::stats
