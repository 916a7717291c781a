#include "calls/preload/engine_calls.hpp"

#include <atomic>
#include <cerrno>
#include <new>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/page_bytes.hpp"
#include "calls/libc/file_size_limit.hpp"
#include "calls/libc/signal_context.hpp"
#include "calls/preload/process.hpp"
#include "engine/backends.hpp"
#include "engine/probe.hpp"
#include "engine/raw_syscall.hpp"

namespace ioweave::calls {
namespace {

using engine::Kind;
using engine::Op;
using engine::raw_syscall;
using engine::UringMode;

enum class Phase : uint32_t { closed, opening, open, failed };

std::atomic<Phase> phase{Phase::closed};

// What lanes are made of, written before `phase` says open.
engine::BackendOptions backend_options;
pthread_key_t lane_key;

/// What this thread is to the engine: the first call on a thread makes its lane.
enum class ThreadPhase : uint8_t { fresh, ready, without };
thread_local constinit ThreadPhase thread_phase __attribute__((tls_model("initial-exec"))) =
    ThreadPhase::fresh;
thread_local constinit CallLane* own_lane __attribute__((tls_model("initial-exec"))) = nullptr;

bool is_write(Op op) noexcept {
  return op == Op::write || op == Op::writev;
}

void count_operation() noexcept {
  if (stats::Segment* const segment = process.segment(); segment != nullptr) {
    segment->engine_operations.fetch_add(1, std::memory_order_relaxed);
  }
}

// ---- Opening ------------------------------------------------------------------------------------

void end_of_thread(void* lane) noexcept {
  thread_phase = ThreadPhase::without;  // destructors that run after this one may still transfer
  own_lane = nullptr;
  static_cast<CallLane*>(lane)->close();
}

void keep_lane(CallLane* lane) noexcept {
  thread_phase = ThreadPhase::without;
  if (lane == nullptr) {
    return;
  }
  if (pthread_setspecific(lane_key, lane) != 0) {
    lane->close();
    return;
  }
  own_lane = lane;
  thread_phase = ThreadPhase::ready;
}

/// A lane for this thread; null where its calls stay plain.
CallLane* open_backend() noexcept {
  return backend_options.kind == Kind::uring ? CallLane::open(backend_options.mode) : nullptr;
}

/// The first lane of the process, which shows what there is here.
CallLane* choose(std::string& why) {
  if (backend_options.kind == Kind::aio) {
    // The kernel drops its reference to the file after it has told of the end, on whatever
    // processor that was: a lock of a file that is closed meanwhile goes some microseconds late.
    why = "native AIO holds on to a file for a moment after the transfer: calls stay plain";
    backend_options.kind = Kind::threads;
    backend_options.mode = UringMode::plain;
  }
  if (backend_options.kind == Kind::threads) {
    return nullptr;
  }
  if (backend_options.mode == UringMode::sqpoll && backend_options.kind == Kind::uring) {
    why = "the thread that polls a submission queue would keep the program's descriptors: plain";
    backend_options.mode = UringMode::plain;
  }
  if (CallLane* const lane = open_backend(); lane != nullptr) {
    return lane;
  }
  backend_options = engine::best_backend(backend_options, why);
  CallLane* const lane = open_backend();
  if (lane == nullptr && backend_options.kind != Kind::threads) {
    why =
        "an io_uring would take a descriptor of the program, which needs Linux 5.18 to be avoided";
    backend_options.kind = Kind::threads;
  }
  if (backend_options.kind == Kind::threads) {
    backend_options.mode = UringMode::plain;
  }
  return lane;
}

bool open_engine() noexcept {
  Phase closed = Phase::closed;
  if (!phase.compare_exchange_strong(closed, Phase::opening, std::memory_order_acq_rel)) {
    return false;
  }
  const config::RunConfig& config = process.config();
  backend_options.kind = static_cast<Kind>(config.engine);
  backend_options.mode = static_cast<UringMode>(config.engine_mode);
  if (pthread_key_create(&lane_key, &end_of_thread) != 0) {
    process.explain("no thread-specific key is left: calls stay plain");
    phase.store(Phase::failed, std::memory_order_release);
    return false;
  }
  CallLane* lane = nullptr;
  try {
    std::string why;
    lane = choose(why);
    if (!why.empty()) {
      process.explain(why.c_str());
    }
  } catch (const std::bad_alloc&) {
    process.explain("out of memory");
    phase.store(Phase::failed, std::memory_order_release);
    return false;
  }
  process.name_engine(backend_name(backend_options.kind, backend_options.mode).data());
  phase.store(Phase::open, std::memory_order_release);  // pairs with ready()
  keep_lane(lane);
  return true;
}

/// Whether the engine is open and this thread has come to know its lane, which may be none.
bool ready() noexcept {
  if (thread_phase != ThreadPhase::fresh) [[likely]] {
    return phase.load(std::memory_order_acquire) == Phase::open;
  }
  const Phase now = phase.load(std::memory_order_acquire);
  if (now == Phase::failed || now == Phase::opening || may_be_in_signal_handler()) {
    return false;
  }
  const int saved = errno;
  const SignalsHeld held;
  const bool open = now == Phase::open || open_engine();
  if (open && thread_phase == ThreadPhase::fresh) {
    keep_lane(open_backend());
  }
  errno = saved;
  return open;
}

// ---- Whether the lane may do it -----------------------------------------------------------------

/// Whether a process of the run listens to what becomes of files. The kernel tells listeners of a
/// transfer by io_uring even where it failed.
bool has_listeners() noexcept {
  const stats::RunState* const state = process.run_state();
  return state != nullptr && state->listeners.load(std::memory_order_relaxed) != 0;
}

/// Whether all of a buffer can be read. A write from one that cannot ends where it cannot, but in
/// pieces what lies behind would be written as well. Linux 5.14; before, it is not known.
bool is_readable(const Transfer& transfer) noexcept {
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ
  const uint64_t page = page_bytes();
  const auto begin = reinterpret_cast<uint64_t>(transfer.buffer) / page * page;
  const uint64_t end = reinterpret_cast<uint64_t>(transfer.buffer) + transfer.bytes;
  return raw_syscall(SYS_madvise, begin, end - begin, kPopulateRead) == 0;
}

bool still_is(const stats::FileRecord& file, int fd, uint64_t& size) noexcept {
  struct stat status {};
  if (raw_syscall(SYS_fstat, fd, &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_dev != file.device || status.st_ino != file.inode) {
    return false;
  }
  size = static_cast<uint64_t>(status.st_size);
  return true;
}

/// Transfers, or preparations, that are not the program's own calls.
std::atomic<uint32_t> in_flight{0};

}  // namespace

bool still_is(const stats::FileRecord& file, int fd) noexcept {
  uint64_t size = 0;
  return still_is(file, fd, size);
}

bool is_still_direct(const stats::FileRecord& file, int fd, uint64_t& size) noexcept {
  const long flags = raw_syscall(SYS_fcntl, fd, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0 && still_is(file, fd, size);
}

bool carry_out(const Transfer& transfer, const stats::FileRecord& file, choice::Pieces pieces,
               int64_t& result) {
  if (!ready()) {
    return false;
  }
  if (own_lane == nullptr) {
    if (backend_options.kind == Kind::threads) {
      count_operation();
    }
    return false;
  }
  if (transfer.offset < 0 || process.is_visitor() || has_listeners()) {
    return false;
  }
  const bool is_single = transfer.op == Op::read || transfer.op == Op::write;
  if (is_single && transfer.bytes > engine::kMaxTransferBytes) {
    return false;  // cut by the kernel, once it has looked at all of the memory
  }
  uint64_t size = 0;
  if (!is_still_direct(file, transfer.fd, size) ||
      (is_write(transfer.op) && file_size_is_limited())) {
    return false;
  }
  if (is_single && pieces.bytes > 0 && is_write(transfer.op) && !is_readable(transfer)) {
    return false;
  }
  pthread_testcancel();  // the call it stands for is a cancellation point
  // The buffer is perhaps on this stack: no handler may jump away over it.
  const SignalsHeld held;
  const TransferUnderWay under_way;
  const bool carried = under_way.may_go() &&
                       own_lane->carry(transfer, is_single ? pieces : choice::kWhole, held, result);
  if (carried) {
    count_operation();
  }
  return carried;
}

// Pairs with wait_for_transfers(): it sees this one, or this sees that the program confines itself.
TransferUnderWay::TransferUnderWay() noexcept {
  in_flight.fetch_add(1, std::memory_order_seq_cst);
  may_go_ = !process.left_alone(std::memory_order_seq_cst);
}

TransferUnderWay::~TransferUnderWay() {
  in_flight.fetch_sub(1, std::memory_order_release);
}

void wait_for_transfers() noexcept {
  if (process.is_unnoticed_child()) {
    return;  // whoever was transferring is a thread of the parent's: the number never falls
  }
  constexpr timespec kMoment{0, 200'000};
  while (in_flight.load(std::memory_order_seq_cst) != 0) {
    raw_syscall(SYS_nanosleep, &kMoment, nullptr);
  }
}

void forget_engine() noexcept {
  in_flight.store(0, std::memory_order_relaxed);  // those of the parent
  phase.store(Phase::failed, std::memory_order_relaxed);
}

}  // namespace ioweave::calls
