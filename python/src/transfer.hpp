#pragma once

// A transfer in flight, and how its end reaches Python.
//
// A transfer ends on a thread of the core's, which never takes the GIL: it would wait for Python
// code, and during the end of the interpreter for ever. What it does is plain C++ without a lock:
// it stores the result, wakes threads that sleep in result(), and hands the futures of event loops
// to the inbox of each loop, which an eventfd wakes once however many arrive. What holds references
// to Python objects (a buffer, a future) is let go of by a thread with the GIL: whoever takes the
// result, or the next one that passes through here (Remains).

#include <atomic>
#include <memory>
#include <optional>

#include "file.hpp"
#include "ioweave/ioweave.h"
#include "module.hpp"

namespace ioweave::python {

/// What holds Python objects and has ended without the GIL.
class Remains {
 public:
  Remains() = default;
  virtual ~Remains() = default;
  Remains(const Remains&) = delete;
  Remains& operator=(const Remains&) = delete;

  /// From any thread: somebody with the GIL will let go of it.
  static void leave(Remains& remains) noexcept;
  /// With the GIL: lets go of all that was left, which may run code of the program.
  static void let_go_of_all();

 protected:
  /// With the GIL, once.
  virtual void let_go() = 0;

  /// Of the one list it is on: a transfer's, an inbox, what was left.
  Remains* next_ = nullptr;
};

class Inbox;

/// A future of an event loop, to be told of the end of a transfer or of the wait for a lease.
class Waiter final : public Remains {
 public:
  Waiter(std::shared_ptr<Inbox> inbox, nb::object future)
      : inbox_(std::move(inbox)), future_(std::move(future)) {}

 private:
  friend class Inbox;
  friend class Ending;
  void let_go() override { delete this; }
  [[nodiscard]] Waiter* next() const { return static_cast<Waiter*>(next_); }

  std::shared_ptr<Inbox> inbox_;
  nb::object future_;
};

/// Where the futures of an event loop arrive. Lock-free.
class Inbox {
 public:
  /// Throws OSError.
  Inbox();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// From any thread.
  static void deliver(Waiter& waiter) noexcept;
  /// With the GIL: the futures that arrived, in order.
  nb::list take();
  /// Readable while something may have arrived.
  [[nodiscard]] int fileno() const { return eventfd_; }

 private:
  int eventfd_;
  std::atomic<Waiter*> newest_ = nullptr;
};

/// What Python holds of an inbox. Waiters in flight hold it as well, so that it outlives its loop.
struct Arrivals {
  std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
};

/// An end that threads and event loops wait for. It comes once, from any thread, which needs no
/// GIL. The other methods are for threads with the GIL (or without one, on interpreters that have
/// none).
class Ending {
 public:
  Ending();

  /// It has ended: wakes all who wait.
  void set() noexcept;
  [[nodiscard]] bool done() const noexcept;
  /// Sleeps without the GIL. Throws TimeoutError with `still`, what a signal handler raised, or in
  /// a forked child, where nothing ends, OSError ECANCELED with `name`.
  void sleep(std::optional<double> timeout_seconds, const char* still, const FileName& name);
  /// False where nothing will arrive because sleep() does not sleep.
  bool expect(const std::shared_ptr<Inbox>& inbox, nb::object future);

 private:
  std::atomic<uint32_t> state_;
  std::atomic<Waiter*> waiters_ = nullptr;
  const uint32_t process_;  ///< who began it, see process_generation()
};

/// What Python can wait for or await.
struct Awaited {
  virtual ~Awaited() = default;
  [[nodiscard]] virtual Ending& ending() const noexcept = 0;
};

/// Two own it: its handle in Python, and the core while it is in flight. Methods are for threads
/// with the GIL (or without one, on interpreters that have none), any number of them.
class Transfer final : public Remains {
 public:
  ~Transfer() override;

  // Submitted; they throw as Descriptor's calls do. The caller owes each a drop().
  static Transfer& pread(Descriptor& file, int64_t bytes, int64_t offset);
  static Transfer& pread_into(Descriptor& file, nb::handle buffer, int64_t offset);
  static Transfer& pwrite(Descriptor& file, nb::handle buffer, int64_t offset);
  static Transfer& fsync(Descriptor& file, bool data_only);

  [[nodiscard]] bool done() const noexcept { return ending_.done(); }
  /// Bytes moved, or the bytes object, or None after a sync. Sleeps without the GIL. Throws
  /// OSError, TimeoutError, or what a signal handler raised.
  nb::object result(std::optional<double> timeout_seconds);
  /// Whether the core was still able to ask for it. The end comes in any case.
  bool cancel();
  [[nodiscard]] Ending& ending() noexcept { return ending_; }
  /// The handle is gone.
  void drop() noexcept;

 private:
  Transfer(Descriptor& file, iow_op op);
  void use_view(const Py_buffer& view, int64_t offset);
  void submit(Descriptor& file);
  static void on_end(iow_request* request, void* user) noexcept;
  bool went_on(int64_t moved) noexcept;
  void end(int64_t result) noexcept;
  void settle();
  void let_go() override;

  iow_request request_{};
  uint64_t moved_before_ = 0;  ///< by the parts of a write that went before
  int64_t result_ = 0;
  Ending ending_;
  std::atomic<int> owners_ = 1;

  const FileName name_;
  iow_service* const service_;
  std::shared_ptr<Users> use_;  ///< of the file, until the end

  nb::ft_mutex settling_;
  nb::object file_kept_;  ///< until the end was seen, and so is the view
  Py_buffer view_{};
  nb::object bytes_;  ///< what pread() reads into
};

/// Changes with each fork: what an older process submitted does not end in this one.
uint32_t process_generation() noexcept;

/// What has to be so before the first transfer: fork handlers, and that the interpreter waits for
/// transfers before it ends.
void prepare_transfers();

}  // namespace ioweave::python
