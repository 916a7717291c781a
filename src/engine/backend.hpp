#pragma once

// The contract between the service and whatever moves the bytes: a *backend*. One owner thread
// submits, one thread at a time reaps, anybody wakes or cancels. No callback runs inside a backend:
// reap only collects results.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <sched.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace ioweave::engine {

enum class Op : uint8_t {
  nop,
  read,    ///< buffer, length
  write,   ///< buffer, length
  readv,   ///< vectors, vector_count
  writev,  ///< vectors, vector_count
  fsync,
  fdatasync,
  prefetch,    ///< bring [offset, offset + length) into the page cache; ends when it is there
  write_back,  ///< begin to write [offset, offset + length) of the page cache; length 0: to the end
};

/// Offset meaning "the descriptor's own position, and move it", as in preadv2(2). On a stream
/// (pipe, socket), which has no positions, every offset >= 0 is ignored.
inline constexpr int64_t kCurrentPosition = -1;

/// The most one submission moves, as in the kernel (MAX_RW_COUNT): more is a short transfer. A
/// backend that polls may move less.
inline constexpr uint64_t kMaxTransferBytes = 0x7ffff000;

/// One system call's worth of work, embedded in the service's request. The submitter owns it until
/// the completion has been reaped. The backend reads the first group and uses the second freely.
struct Operation {
  Op op = Op::nop;
  bool hand_over = false;     ///< to a kernel thread, where the backend would try without one first
  bool whole = false;         ///< not in parts: a backend that could carry one only refuses it
  uint16_t fixed_buffer = 0;  ///< slot of the service's buffer table that holds `buffer`; 0: none
  uint16_t fixed_file = 0;    ///< slot of the service's file table that holds `fd`; 0: none
  int32_t fd = -1;
  int32_t descriptor_flags = -1;  ///< F_GETFL of `fd`, where the submitter has asked; -1: not yet
  uint32_t vector_count = 0;      ///< of readv and writev, at most IOV_MAX
  int64_t offset = 0;             ///< bytes from the start of the file, or kCurrentPosition
  uint64_t length = 0;            ///< bytes, of read, write and prefetch; cut at kMaxTransferBytes
  void* buffer = nullptr;         ///< bytes; written to by read only
  const iovec* vectors = nullptr;

  Operation* next = nullptr;  ///< the backend's own list, and the service's between stations
  int64_t result = 0;         ///< bytes or -errno, valid once completed or reaped
};

enum class Submitted : uint8_t {
  queued,       ///< will be reaped after flush()
  completed,    ///< done at once: `result` is set, it will not be reaped
  busy,         ///< no room now: reap, then try again. The operation is untouched
  unsupported,  ///< this backend cannot do it on this descriptor: use another one
};

/// How reap() behaves.
struct Reap {
  uint32_t min_completions = 0;  ///< sleep until this many are there; 0: never sleep
  int64_t timeout_ns = -1;       ///< gives up sleeping after this long; -1: never
  bool flush = false;            ///< by the owner only: submit what is queued in the same call
};

/// Buffers and descriptors that are registered with each ring once instead of being looked up per
/// operation. Slot 0 is never used. Shared by all backends of a service; backends follow `version`.
class FixedTable;

enum class Kind : uint8_t { uring, aio, threads };
enum class UringMode : uint8_t { plain, sqpoll, iopoll };

/// How an engine is called in reports: "io_uring", "io_uring+sqpoll", "io_uring+iopoll", "aio" or
/// "threads".
[[nodiscard]] constexpr std::string_view backend_name(Kind kind, UringMode mode) noexcept {
  switch (kind) {
    case Kind::uring:
      return mode == UringMode::sqpoll   ? "io_uring+sqpoll"
             : mode == UringMode::iopoll ? "io_uring+iopoll"
                                         : "io_uring";
    case Kind::aio:
      return "aio";
    case Kind::threads:
      return "threads";
  }
  return "";
}

struct BackendOptions {
  Kind kind = Kind::uring;
  UringMode mode = UringMode::plain;
  uint32_t entries = 256;     ///< most operations in flight; a power of two is not required
  bool single_owner = false;  ///< the owner is also the only reaper, ever (DEFER_TASKRUN)
  uint32_t threads = 4;       ///< Kind::threads: the most worker threads of this backend
  const FixedTable* fixed = nullptr;
  /// Processors for the kernel's workers of a backend whose owner has opened it; null: any.
  const cpu_set_t* processors = nullptr;
};

class Backend {
 public:
  /// Any thread, once no other uses the backend and nothing is in flight: what still is may be
  /// given up while the kernel goes on writing into its buffers. Kind::threads waits for it.
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  /// One of backend_name(): what this backend really is.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// Owner thread. Queues one operation; at most `entries` are in flight, so the completion queue
  /// cannot overflow. Never sleeps.
  [[nodiscard]] virtual Submitted submit(Operation& operation) noexcept = 0;

  /// Owner thread. Hands everything queued to the kernel or the workers. 0 or -errno of a fault
  /// that is not any operation's own (the operations stay queued and a later flush retries them).
  [[nodiscard]] virtual int flush() noexcept = 0;

  /// One thread at a time, not necessarily the owner unless single_owner. Fills `out` with
  /// completed operations whose `result` is set and returns how many; 0 after a timeout, wake() or
  /// signal. -errno only where the backend itself is broken. A backend of a single owner may submit
  /// what is queued even without `flush`.
  [[nodiscard]] virtual int reap(std::span<Operation*> out, const Reap& how) noexcept = 0;

  /// Any thread, also from several. A reap() that sleeps, or the next one that would, returns.
  virtual void wake() noexcept = 0;

  /// Any thread. Asks that an operation in flight be given up: it is reaped in any case, with
  /// -ECANCELED where that succeeded. 0, -ENOENT (not in flight here, or not flushed yet) or
  /// -EALREADY (too late). Where only the owner may cancel, 0 means that it has been asked to.
  [[nodiscard]] virtual int cancel(Operation& operation) noexcept = 0;

  /// Any thread. -errno of the first registration of a fixed buffer or file that was refused here
  /// (memlock, an old kernel), 0 where none was. Operations that name such a slot work all the
  /// same, only not faster.
  [[nodiscard]] virtual int fixed_error() const noexcept { return 0; }

  /// In the child after fork(2), where only async-signal-safe calls are allowed: gives up kernel
  /// objects shared with the parent without disturbing it. Nothing but destruction may follow;
  /// destruction then frees memory only.
  virtual void abandon() noexcept = 0;

 protected:
  Backend() = default;
};

/// Opens a backend. On failure: null, -errno in `error` and in `why` a sentence that names the
/// cause and who can mend it (io_uring_disabled, seccomp's EPERM against ENOSYS, memlock, limits).
[[nodiscard]] std::unique_ptr<Backend> open_backend(const BackendOptions& options, int& error,
                                                    std::string& why);

}  // namespace ioweave::engine
