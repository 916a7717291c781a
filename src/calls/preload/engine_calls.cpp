#include "calls/preload/engine_calls.hpp"

#include <atomic>
#include <cerrno>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "calls/file_size_limit.hpp"
#include "calls/preload/process.hpp"
#include "calls/preload/real.hpp"
#include "calls/preload/signal_context.hpp"
#include "ioweave/ioweave.h"
#include "service/service.hpp"

namespace ioweave::calls {
namespace {

enum class Phase : uint32_t { closed, opening, open, failed };

constexpr uint32_t kQueueDepth = 8;  // a thread has one operation in flight

std::atomic<Phase> phase{Phase::closed};
service::Service* engine_service = nullptr;  // never destroyed: threads use it until the very end

/// What the lane of a calling thread carries in the engine that was opened. Anything else would be
/// handed to threads of the service. To the kernel those are not the caller (credentials, limits
/// and filters are a thread's own), they keep a process alive whose main thread called
/// pthread_exit, and they gain nothing for a caller that waits.
enum class Carries : uint8_t {
  all,      ///< io_uring
  direct,   ///< native AIO, io_uring that polls the device: O_DIRECT at an offset
  nothing,  ///< threads: there is one, the caller
};
std::atomic<const char*> engine_name{nullptr};        // as reported
std::atomic<Carries> lane_carries{Carries::nothing};  // a hint: the engine carries all somehow

/// What this thread is to the engine: the first call on a thread makes its lane, which allocates.
enum class ThreadPhase : uint8_t { fresh, ready, inside };
thread_local constinit ThreadPhase thread_phase __attribute__((tls_model("initial-exec"))) =
    ThreadPhase::fresh;

Carries carried_by(std::string_view engine) noexcept {
  if (engine == lane_name(engine::Kind::threads, engine::UringMode::plain)) {
    return Carries::nothing;
  }
  return engine == lane_name(engine::Kind::uring, engine::UringMode::iopoll) ||
                 engine == lane_name(engine::Kind::aio, engine::UringMode::plain)
             ? Carries::direct
             : Carries::all;
}

/// By the lane of the calling thread; else by the calling thread itself.
bool goes_to_lane(const Transfer& transfer) noexcept {
  const Carries carries = lane_carries.load(std::memory_order_relaxed);
  if (carries != Carries::direct) {
    return carries == Carries::all;
  }
  if (transfer.offset == engine::kCurrentPosition) {
    return false;
  }
  const int saved = errno;
  const int flags = real::fcntl(transfer.fd, F_GETFL, nullptr);
  errno = saved;
  return flags >= 0 && (flags & O_DIRECT) != 0;
}

void count_operation() noexcept {
  if (stats::Segment* const segment = process.segment(); segment != nullptr) {
    segment->engine_operations.fetch_add(1, std::memory_order_relaxed);
  }
}

/// What the engine is, as far as the program's calls have shown. Says what is new only.
void note_engine() noexcept {
  const char* const name = engine_service->engine_name();
  if (engine_name.exchange(name, std::memory_order_relaxed) != name) {
    lane_carries.store(carried_by(name), std::memory_order_relaxed);
    process.name_engine(name);
  }
  if (const char* const why = engine_service->fallback_reason(); *why != '\0') {
    process.explain(why);
  }
}

bool open_engine() noexcept {
  Phase closed = Phase::closed;
  if (!phase.compare_exchange_strong(closed, Phase::opening, std::memory_order_acq_rel)) {
    return false;
  }
  if (file_size_is_limited()) {
    process.explain("the file size limit (ulimit -f) keeps writes on plain calls");
    phase.store(Phase::failed, std::memory_order_release);
    return false;
  }
  const stats::RunConfig& config = process.config();
  std::string why;
  int error = 0;
  std::unique_ptr<service::Service> opened;
  try {
    opened = service::Service::open({.engine = static_cast<engine::Kind>(config.engine),
                                     .mode = static_cast<engine::UringMode>(config.engine_mode),
                                     .queue_depth = kQueueDepth,
                                     .threads = 1,
                                     .own_threads = false},
                                    error, why);
  } catch (const std::bad_alloc&) {
    // As with any other failure the calls stay plain.
  }
  if (opened == nullptr) {
    process.explain(why.empty() ? "out of memory" : why.c_str());
    phase.store(Phase::failed, std::memory_order_release);
    return false;
  }
  engine_service = opened.release();
  note_engine();
  phase.store(Phase::open, std::memory_order_release);  // pairs with ready()
  return true;
}

bool ready() noexcept {
  if (thread_phase == ThreadPhase::ready) [[likely]] {
    return phase.load(std::memory_order_acquire) == Phase::open;
  }
  const Phase now = phase.load(std::memory_order_acquire);
  if (thread_phase == ThreadPhase::inside || now == Phase::failed || now == Phase::opening ||
      may_be_in_signal_handler()) {
    return false;
  }
  const SignalsHeld held;
  return now == Phase::open || open_engine();
}

iow_op op_of(engine::Op op) noexcept {
  switch (op) {
    case engine::Op::read:
      return IOW_OP_READ;
    case engine::Op::write:
      return IOW_OP_WRITE;
    case engine::Op::readv:
      return IOW_OP_READV;
    case engine::Op::writev:
      return IOW_OP_WRITEV;
    case engine::Op::fsync:
      return IOW_OP_FSYNC;
    case engine::Op::fdatasync:
      return IOW_OP_FDATASYNC;
    default:
      return IOW_OP_NOP;
  }
}

/// io_uring leaves the descriptor's position where it was if a transfer moves some bytes and then
/// meets an error (space that ends), although it reports those bytes (Linux 6.18).
class PositionKeeper {
 public:
  explicit PositionKeeper(const Transfer& transfer) noexcept
      : fd_(transfer.fd), before_(transfer.offset == engine::kCurrentPosition ? position() : -1) {}

  void moved(int64_t bytes) const noexcept {
    if (before_ >= 0 && bytes > 0 && position() == before_) {
      real::lseek(fd_, before_ + bytes, SEEK_SET);
    }
  }

 private:
  /// -1 where there is none; errno stays.
  [[nodiscard]] off_t position() const noexcept {
    const int saved = errno;
    const off_t now = real::lseek(fd_, 0, SEEK_CUR);
    errno = saved;
    return now;
  }

  const int fd_;
  const off_t before_;
};

}  // namespace

bool carry_out(const Transfer& transfer, int64_t& result) {
  pthread_testcancel();  // the call it stands for is a cancellation point
  // What a lane does not carry needs none: asked first where it can be.
  const bool through_lane =
      engine_is_open() ? goes_to_lane(transfer) && ready() : ready() && goes_to_lane(transfer);
  if (!through_lane) {
    if (engine_is_open() && lane_carries.load(std::memory_order_relaxed) == Carries::nothing) {
      count_operation();
    }
    return false;
  }
  iow_request request{};
  request.op = static_cast<uint8_t>(op_of(transfer.op));
  request.flags = IOW_EXACT;
  request.fd = transfer.fd;
  request.buffer = transfer.buffer;
  request.bytes = transfer.bytes;
  request.offset = transfer.offset;
  // The request and perhaps the buffer are on this stack: no handler may jump away over them.
  const SignalsHeld held;
  thread_phase = ThreadPhase::inside;
  const PositionKeeper position(transfer);
  iow_request* const one = &request;
  const bool submitted = engine_service->submit({&one, 1}) == 1;
  if (submitted) {
    (void)engine_service->wait(request, -1);
  }
  thread_phase = ThreadPhase::ready;
  if (!submitted) {
    return false;
  }
  result = request.result;
  position.moved(result);
  if (engine_service->engine_name() != engine_name.load(std::memory_order_relaxed)) {
    note_engine();  // the device has refused to be polled
  }
  count_operation();
  return true;
}

bool engine_is_open() noexcept {
  return phase.load(std::memory_order_acquire) == Phase::open;  // pairs with open_engine()
}

void forget_engine() noexcept {
  phase.store(Phase::failed, std::memory_order_relaxed);
}

}  // namespace ioweave::calls
