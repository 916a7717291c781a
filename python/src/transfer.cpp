#include "transfer.hpp"

#include <cerrno>
#include <mutex>
#include <utility>

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/futex.hpp"
#include "file.hpp"
#include "gil.hpp"

namespace ioweave::python {
namespace {

// What Ending::state_ holds.
constexpr uint32_t kInFlight = 0;
constexpr uint32_t kSleptOn = 1;  ///< in flight, and a thread sleeps on it
constexpr uint32_t kEnded = 2;

std::atomic<Remains*> g_remains = nullptr;
std::atomic<uint32_t> g_in_flight = 0;
std::atomic<bool> g_interpreter_ends = false;
std::atomic<uint32_t> g_generation = 0;  ///< of processes: changes with each fork

/// Marks the end of a list of waiters for good.
Waiter* const kNoMoreWaiters = reinterpret_cast<Waiter*>(alignof(Waiter));

void in_child_after_fork() noexcept {
  g_generation.fetch_add(1, std::memory_order_relaxed);
  g_in_flight.store(0, std::memory_order_relaxed);
}

void one_less_in_flight() noexcept {
  const std::atomic<uint32_t>& word = g_in_flight;
  if (g_in_flight.fetch_sub(1, std::memory_order_acq_rel) == 1 &&
      g_interpreter_ends.load(std::memory_order_seq_cst)) {
    futex_wake(word);
  }
}

/// At the end of the interpreter: what was submitted is completed.
void finish() {
  g_interpreter_ends.store(true, std::memory_order_seq_cst);
  while (const uint32_t left = g_in_flight.load(std::memory_order_acquire)) {
    {
      const WithoutGil released;
      futex_wait(g_in_flight, left);
    }
    if (PyErr_CheckSignals() != 0) {
      throw nb::python_error();
    }
  }
  Remains::let_go_of_all();
}

/// -1 for None and for what is beyond all clocks.
int64_t nanoseconds(std::optional<double> seconds) {
  if (!seconds || !(*seconds < 9e9)) {
    return -1;
  }
  return *seconds > 0 ? static_cast<int64_t>(*seconds * 1e9) : 0;
}

}  // namespace

uint32_t process_generation() noexcept {
  return g_generation.load(std::memory_order_relaxed);
}

void prepare_transfers() {
  if (const int error = pthread_atfork(nullptr, nullptr, &in_child_after_fork); error != 0) {
    raise_os_error(error, {});
  }
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&finish));
}

// ---- Remains -----------------------------------------------------------------------------------

void Remains::leave(Remains& remains) noexcept {
  remains.next_ = g_remains.load(std::memory_order_relaxed);
  // Release pairs with let_go_of_all().
  while (!g_remains.compare_exchange_weak(remains.next_, &remains, std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
}

void Remains::let_go_of_all() {
  if (g_remains.load(std::memory_order_relaxed) == nullptr) {
    return;
  }
  Remains* list = g_remains.exchange(nullptr, std::memory_order_acquire);
  while (list != nullptr) {
    std::exchange(list, list->next_)->let_go();
  }
}

// ---- Inbox -------------------------------------------------------------------------------------

Inbox::Inbox() : eventfd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (eventfd_ < 0) {
    raise_os_error(errno, {});
  }
}

/// On any thread: the last transfer of a loop that is gone may be what held it.
Inbox::~Inbox() {
  Waiter* list = newest_.load(std::memory_order_acquire);
  while (list != nullptr) {
    Remains::leave(*std::exchange(list, list->next()));
  }
  ::close(eventfd_);
}

void Inbox::deliver(Waiter& waiter) noexcept {
  // What is in the inbox does not hold it, or it would hold itself where no loop empties it.
  const std::shared_ptr<Inbox> inbox = std::move(waiter.inbox_);
  Waiter* before = inbox->newest_.load(std::memory_order_relaxed);
  do {
    waiter.next_ = before;
    // Release pairs with take().
  } while (!inbox->newest_.compare_exchange_weak(before, &waiter, std::memory_order_release,
                                                 std::memory_order_relaxed));
  if (before == nullptr) {
    const uint64_t one = 1;
    static_cast<void>(!::write(inbox->eventfd_, &one, sizeof one));  // it cannot be full
  }
}

nb::list Inbox::take() {
  // First: what arrives after the list was taken finds it empty and signals again.
  uint64_t signals = 0;
  static_cast<void>(!::read(eventfd_, &signals, sizeof signals));
  Waiter* newest = newest_.exchange(nullptr, std::memory_order_acquire);
  Waiter* oldest = nullptr;
  while (newest != nullptr) {
    Waiter* const next = newest->next();
    newest->next_ = oldest;
    oldest = newest;
    newest = next;
  }
  nb::list futures;
  while (oldest != nullptr) {
    const std::unique_ptr<Waiter> waiter(std::exchange(oldest, oldest->next()));
    futures.append(waiter->future_);
  }
  Remains::let_go_of_all();
  return futures;
}

// ---- Ending ------------------------------------------------------------------------------------

Ending::Ending() : state_(kInFlight), process_(process_generation()) {}

bool Ending::done() const noexcept {
  return state_.load(std::memory_order_acquire) == kEnded;
}

void Ending::set() noexcept {
  // Release pairs with done().
  if (state_.exchange(kEnded, std::memory_order_acq_rel) == kSleptOn) {
    futex_wake(state_);
  }
  // Acquire pairs with expect().
  Waiter* waiter = waiters_.exchange(kNoMoreWaiters, std::memory_order_acq_rel);
  while (waiter != nullptr) {
    Inbox::deliver(*std::exchange(waiter, waiter->next()));
  }
}

bool Ending::expect(const std::shared_ptr<Inbox>& inbox, nb::object future) {
  if (process_ != process_generation()) {
    return false;  // nothing ends here; sleep() says so
  }
  auto waiter = std::make_unique<Waiter>(inbox, std::move(future));
  Waiter* before = waiters_.load(std::memory_order_relaxed);
  do {
    if (before == kNoMoreWaiters) {
      return false;
    }
    waiter->next_ = before;
    // Release pairs with set().
  } while (!waiters_.compare_exchange_weak(before, waiter.get(), std::memory_order_release,
                                           std::memory_order_relaxed));
  static_cast<void>(waiter.release());
  return true;
}

void Ending::sleep(std::optional<double> timeout_seconds, const char* still, const FileName& name) {
  if (done()) {
    return;
  }
  if (process_ != process_generation()) {
    raise_os_error(ECANCELED, name);
  }
  const Deadline deadline(nanoseconds(timeout_seconds));
  do {
    uint32_t seen = kInFlight;
    if (state_.compare_exchange_strong(seen, kSleptOn) || seen == kSleptOn) {
      const WithoutGil released;
      futex_wait(state_, kSleptOn, deadline.left_ns());
    }
    if (PyErr_CheckSignals() != 0) {
      throw nb::python_error();
    }
    if (!done() && deadline.passed()) {
      PyErr_SetString(PyExc_TimeoutError, still);
      throw nb::python_error();
    }
  } while (!done());
}

// ---- Transfer ----------------------------------------------------------------------------------

Transfer::Transfer(Descriptor& file, iow_op op)
    : name_(file.name()), service_(file.service()), file_kept_(nb::find(file)) {
  request_.op = static_cast<uint8_t>(op);
  request_.callback = &Transfer::on_end;
  request_.user = this;
}

Transfer::~Transfer() {
  bytes_.reset();  // nobody wants to know how long it is
  settle();
}

Transfer& Transfer::pread(Descriptor& file, int64_t bytes, int64_t offset) {
  check_offset(offset);
  std::unique_ptr<Transfer> transfer(new Transfer(file, IOW_OP_READ));
  transfer->bytes_ = new_bytes(bytes);
  transfer->request_.buffer = PyBytes_AsString(transfer->bytes_.ptr());
  transfer->request_.bytes = static_cast<uint64_t>(bytes);
  transfer->request_.offset = offset;
  transfer->submit(file);
  return *transfer.release();
}

Transfer& Transfer::pread_into(Descriptor& file, nb::handle buffer, int64_t offset) {
  std::unique_ptr<Transfer> transfer(new Transfer(file, IOW_OP_READ));
  transfer->use_view(buffer_of(buffer, "apread_into", true), offset);
  transfer->submit(file);
  return *transfer.release();
}

Transfer& Transfer::pwrite(Descriptor& file, nb::handle buffer, int64_t offset) {
  std::unique_ptr<Transfer> transfer(new Transfer(file, IOW_OP_WRITE));
  transfer->use_view(buffer_of(buffer, "apwrite", false), offset);
  transfer->submit(file);
  return *transfer.release();
}

Transfer& Transfer::fsync(Descriptor& file, bool data_only) {
  std::unique_ptr<Transfer> transfer(
      new Transfer(file, data_only ? IOW_OP_FDATASYNC : IOW_OP_FSYNC));
  transfer->submit(file);
  return *transfer.release();
}

void Transfer::use_view(const Py_buffer& view, int64_t offset) {
  view_ = view;
  check_offset(offset);
  request_.buffer = view.buf;
  request_.bytes = static_cast<uint64_t>(view.len);
  request_.offset = offset;
}

/// Throws where nothing was submitted: the caller still owns it alone then.
void Transfer::submit(Descriptor& file) {
  use_ = file.begin_use();
  request_.fd = file.fd();
  request_.flow = file.flow();
  owners_.store(2, std::memory_order_relaxed);
  g_in_flight.fetch_add(1, std::memory_order_seq_cst);  // against finish()
  int error = 0;
  const bool too_late = g_interpreter_ends.load(std::memory_order_seq_cst);
  if (!too_late) {
    iow_request* const one = &request_;
    error = iow_submit(service_, &one, 1);
  }
  if (too_late || error < 0) {
    one_less_in_flight();
    owners_.store(1, std::memory_order_relaxed);
    use_->end();
    if (too_late) {
      throw std::runtime_error("no transfer can be submitted: the interpreter is ending");
    }
    raise_os_error(-error, name_);
  }
}

/// On a thread of the core's, or inside submit() in a forked child.
void Transfer::on_end(iow_request* request, void* user) noexcept {
  Transfer& transfer = *static_cast<Transfer*>(user);
  const int64_t result = request->result;
  if (request->op == IOW_OP_WRITE && result >= 0 && transfer.went_on(result)) {
    return;
  }
  transfer.end(result < 0 ? result : result + static_cast<int64_t>(transfer.moved_before_));
}

/// A write that ended short met an error that only the next one tells: submits the rest. False
/// where there is none.
bool Transfer::went_on(int64_t moved) noexcept {
  if (static_cast<uint64_t>(moved) == request_.bytes) {
    return false;
  }
  if (moved == 0) {
    end(-EIO);  // neither progress nor an error: to go on would be for ever
    return true;
  }
  moved_before_ += static_cast<uint64_t>(moved);
  request_.buffer = static_cast<std::byte*>(request_.buffer) + moved;
  request_.bytes -= static_cast<uint64_t>(moved);
  request_.offset += moved;
  iow_request* const one = &request_;
  if (const int error = iow_submit(service_, &one, 1); error < 0) {
    end(error);
  }
  return true;
}

void Transfer::end(int64_t result) noexcept {
  result_ = result;
  ending_.set();
  use_->end();
  Remains::leave(*this);
  one_less_in_flight();  // last: finish() lets go of what was left before
}

/// What the core owned.
void Transfer::let_go() {
  settle();
  drop();
}

void Transfer::drop() noexcept {
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete this;
  }
}

bool Transfer::cancel() {
  const nb::ft_lock_guard guard(settling_);
  return !done() && iow_cancel(service_, &request_) == 0;
}

nb::object Transfer::result(std::optional<double> timeout_seconds) {
  ending_.sleep(timeout_seconds, "the transfer has not ended; it stays in flight", name_);
  settle();
  if (result_ < 0) {
    raise_os_error(static_cast<int>(-result_), name_);
  }
  if (bytes_) {
    return bytes_;
  }
  const bool moves = request_.op == IOW_OP_READ || request_.op == IOW_OP_WRITE;
  return moves ? nb::object(nb::int_(result_)) : nb::none();
}

/// After the end, or where nothing was submitted: lets go of what the core used.
void Transfer::settle() {
  nb::object file;
  Py_buffer view{};
  {
    const nb::ft_lock_guard guard(settling_);
    if (file_kept_ && bytes_ && result_ >= 0) {
      bytes_ = shortened(std::move(bytes_), result_);
    }
    file = std::move(file_kept_);
    view = std::exchange(view_, Py_buffer{});
  }
  // Outside of the lock: this may run code of the program.
  if (view.obj != nullptr) {
    PyBuffer_Release(&view);
  }
}

}  // namespace ioweave::python
