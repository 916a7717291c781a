#include "service/pump.hpp"

#include <array>
#include <cerrno>

#include "base/assert.hpp"
#include "base/futex.hpp"
#include "base/signals_masked.hpp"
#include "service/driving_here.hpp"

namespace ioweave::service {
namespace {

uint64_t bytes_to_move(iow_request& request) noexcept {
  const bool moves_none = request.op == IOW_OP_PREFETCH || request.op == IOW_OP_WRITE_BACK;
  return moves_none ? 0 : journey_of(request).total_bytes;
}

}  // namespace

Pump::Pump(const engine::BackendOptions& options, OpenBackend open_backend, OperationClient& client)
    : options_(options), open_backend_(open_backend), client_(client) {}

void Pump::stop() noexcept {
  if (!started_) {
    return;
  }
  started_ = false;
  if (driven_) {
    driven_ = false;
    return;
  }
  stop_.store(true, std::memory_order_seq_cst);
  wake_if_asleep();
  pthread_join(thread_, nullptr);
}

int Pump::start(std::string& why) {
  if (start_error_ != 0) {
    why = start_why_;
    return start_error_;
  }
  if (started_) {
    return 0;
  }
  {
    const SignalsMasked masked;
    if (const int error = pthread_create(&thread_, nullptr, &Pump::thread_main, this); error != 0) {
      start_error_ = -error;
      start_why_ = kNoThread;
      why = start_why_;
      return start_error_;
    }
  }
  while (phase_.load(std::memory_order_acquire) == static_cast<uint32_t>(Phase::starting)) {
    futex_wait(phase_, static_cast<uint32_t>(Phase::starting));
  }
  if (phase_.load(std::memory_order_acquire) == static_cast<uint32_t>(Phase::failed)) {
    pthread_join(thread_, nullptr);
    IOW_ASSERT(start_error_ != 0);
    why = start_why_;
    return start_error_;
  }
  started_ = true;
  return 0;
}

int Pump::start_driven(std::string& why) {
  if (started_) {
    return 0;
  }
  engine::BackendOptions shared = options_;
  shared.single_owner = false;  // whoever holds driving_ is the owner for so long
  int error = 0;
  backend_ = open_backend_(shared, error, why);
  if (backend_ == nullptr) {
    return error;
  }
  driven_ = true;
  started_ = true;
  return 0;
}

void Pump::post(iow_request& request) noexcept {
  unfinished_.fetch_add(1, std::memory_order_seq_cst);
  journey_of(request).station.store(Station::posted, std::memory_order_relaxed);
  inbox_.push(request);
  if (driven_) {
    drive_submission();
  } else {
    wake_if_asleep();
  }
}

/// Submits what is in the inbox, unless somebody drives the pump: he looks again before he leaves.
void Pump::drive_submission() noexcept {
  while (!inbox_.empty() && !driving_.exchange(true, std::memory_order_seq_cst)) {
    const DrivingHere here;
    inbox_.move_to(backlog_);
    submit_backlog();
    static_cast<void>(backend_->flush());  // what is refused stays queued for the next flush
    // seq_cst against push(): either we see what was pushed meanwhile, or its pusher gets the lock.
    driving_.store(false, std::memory_order_seq_cst);
  }
}

unsigned Pump::drive() noexcept {
  unsigned ended = 0;
  if (!driving_.exchange(true, std::memory_order_acquire)) {
    ended = drive_once();
    driving_.store(false, std::memory_order_seq_cst);
    drive_submission();  // what was pushed while we were at it
  }
  return ended;
}

/// The driver: one round that does not sleep.
unsigned Pump::drive_once() noexcept {
  const DrivingHere here;
  inbox_.move_to(backlog_);
  submit_backlog();
  return reap(false);
}

int Pump::cancel(engine::Operation& operation) noexcept {
  return started_ ? backend_->cancel(operation) : -ENOENT;
}

void Pump::abandon() noexcept {
  started_ = false;  // the thread does not exist in the child
  if (backend_ != nullptr) {
    backend_->abandon();
  }
}

void* Pump::thread_main(void* self) {
  pthread_setname_np(pthread_self(), "ioweave-pump");
  static_cast<Pump*>(self)->run();
  return nullptr;
}

void Pump::run() noexcept {
  if (options_.processors != nullptr) {  // best effort; threads that this one starts inherit it
    static_cast<void>(sched_setaffinity(0, sizeof *options_.processors, options_.processors));
  }
  backend_ = open_backend_(options_, start_error_, start_why_);
  const Phase phase = backend_ != nullptr ? Phase::running : Phase::failed;
  phase_.store(static_cast<uint32_t>(phase), std::memory_order_release);  // pairs with start()
  futex_wake(phase_);
  if (phase == Phase::failed) {
    return;
  }
  const DrivingHere here;
  while (true) {
    inbox_.move_to(backlog_);
    submit_backlog();
    if (stop_.load(std::memory_order_seq_cst) && in_flight_ == 0 && backlog_.empty() &&
        inbox_.empty()) {
      return;
    }
    static_cast<void>(reap(true));
  }
}

void Pump::submit_backlog() noexcept {
  while (!backlog_.empty()) {
    iow_request& request = backlog_.pop();
    if (!give_to_backend(request)) {
      backlog_.push_front(request);
      return;
    }
  }
}

/// False where no more may be in flight.
bool Pump::give_to_backend(iow_request& request) noexcept {
  Journey& journey = journey_of(request);
  const uint64_t bytes = bytes_to_move(request);
  const bool has_room = in_flight_ == 0 || bytes_in_flight_ + bytes <= kMostBytesInFlight;
  // seq_cst against cancel(): either it finds it in flight, or we see that it is not wanted.
  journey.station.store(has_room ? Station::in_flight : Station::posted, std::memory_order_seq_cst);
  engine::Operation* const one[] = {&journey.operation};
  if (journey.cancel_wanted.load(std::memory_order_seq_cst)) {
    journey.operation.result = -ECANCELED;
    hand_over(one);
    return true;
  }
  if (!has_room) {
    return false;
  }
  switch (backend_->submit(journey.operation)) {
    case engine::Submitted::queued:
      ++in_flight_;
      bytes_in_flight_ += bytes;
      return true;
    case engine::Submitted::completed:
      hand_over(one);
      return true;
    case engine::Submitted::unsupported:
      client_.reroute(request);
      unfinished_.fetch_sub(1, std::memory_order_seq_cst);
      return true;
    case engine::Submitted::busy:
      journey.station.store(Station::posted, std::memory_order_seq_cst);
      break;
  }
  return false;
}

/// The requests may be gone afterwards.
void Pump::hand_over(std::span<engine::Operation* const> ended) noexcept {
  client_.end_operations(ended, counters);
  unfinished_.fetch_sub(static_cast<uint32_t>(ended.size()), std::memory_order_seq_cst);
}

/// How many operations ended.
unsigned Pump::reap(bool may_sleep) noexcept {
  std::array<engine::Operation*, kReapBatch> done;
  // seq_cst against post(): either the poster sees that we sleep, or we see what it posted.
  asleep_.store(true, std::memory_order_seq_cst);
  // A back end that is busy with nothing in flight has nothing to wake us with: ask it again.
  const bool refused = !backlog_.empty() && in_flight_ == 0;
  const bool idle =
      may_sleep && inbox_.empty() && !stop_.load(std::memory_order_seq_cst) && !refused;
  const int reaped = backend_->reap(done, {.min_completions = idle ? 1u : 0u, .flush = true});
  asleep_.store(false, std::memory_order_relaxed);
  IOW_ASSERT(reaped >= 0);
  const auto ended = std::span(done).first(static_cast<size_t>(reaped));
  in_flight_ -= static_cast<uint32_t>(reaped);
  for (engine::Operation* const operation : ended) {
    bytes_in_flight_ -= bytes_to_move(request_of(*operation));
  }
  hand_over(ended);
  return static_cast<unsigned>(reaped);
}

void Pump::wake_if_asleep() noexcept {
  if (asleep_.load(std::memory_order_seq_cst) && asleep_.exchange(false)) {
    backend_->wake();
  }
}

}  // namespace ioweave::service
