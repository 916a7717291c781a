#pragma once

// One transfer of the program at a time through io_uring, in one operation or in several, for the
// thread that opened the lane, with no descriptor in the program's table.
//
// How it works. The ring is registered with its thread and entered by its index there
// (IORING_ENTER_REGISTERED_RING), so that nothing the program does to its descriptors can reach it,
// and its limit on them is its own. From Linux 6.5 on a ring need never have a number; from 5.18 on
// its number is closed as soon as it is registered; before that there is no ring for programs.
//
// Nothing reaches the kernel's own workers (RWF_NOWAIT): a worker is a thread of the program, looks
// descriptors up in a table that the program may have left (unshare(2)), acts in the namespaces and
// cgroup it was born in, and lets go of a file when it likes. What would take one is an error here.
//
// A lane that the kernel refuses anything says so and leaves the call to the program: a plain call
// is always right.

#include <cstdint>

#include <sys/types.h>

#include "choice/expectation.hpp"
#include "engine/backend.hpp"

struct io_uring_sqe;
struct io_uring_cqe;
struct io_uring_params;

namespace ioweave::calls {

class SignalsHeld;

/// One call of the program. A vectored call has `vectors` and their number in `bytes`.
struct Transfer {
  engine::Op op;
  int fd;
  void* buffer;  ///< or const iovec*
  size_t bytes;
  int64_t offset;  ///< -1: the descriptor's position
};

/// One thread: the one that opened it, which alone may use it. A forked child must not.
class CallLane {
 public:
  /// Null where the kernel has nothing of the kind for us. May change errno.
  [[nodiscard]] static CallLane* open(engine::UringMode mode) noexcept;
  /// Before the thread ends.
  void close() noexcept;

  /// Carries out a transfer at an offset, past the page cache, and waits for its end. False where
  /// it was not done, ended in an error or early: then the program's own call has the right answer,
  /// and the right side effects (a signal, an answer of EAGAIN that only io_uring gives).
  /// One of a single buffer may be cut into pieces.
  [[nodiscard]] bool carry(const Transfer& transfer, choice::Pieces pieces, const SignalsHeld& held,
                           int64_t& result) noexcept;

 private:
  bool open_ring(engine::UringMode mode) noexcept;
  int set_up_unnumbered(unsigned flags) noexcept;
  int set_up_registered(unsigned flags) noexcept;
  /// How a thread waits for operations of its own.
  struct Waiting {
    bool is_long = false;  // signals that end the process are let in
    uint64_t mask = 0;     // of the signals that are held then
  };
  [[nodiscard]] bool carry_operations(const Transfer& transfer, choice::Pieces pieces,
                                      const SignalsHeld& held, int64_t& result) noexcept;
  void queue(const Transfer& transfer) noexcept;
  [[nodiscard]] unsigned enter_and_wait(unsigned fresh, Waiting& waiting,
                                        const SignalsHeld& held) noexcept;
  void use_queues(void* rings, void* entries, const io_uring_params& parameters) noexcept;
  [[nodiscard]] bool take_completion(uint64_t& bytes, int64_t& result) noexcept;
  long enter(unsigned submit, unsigned flags, const void* argument) const noexcept;
  [[nodiscard]] bool is_shared_memory_of_another_process() const noexcept;

  bool usable_;
  pid_t pid_;       // of a ring whose memory a forked child would share; else 0
  unsigned index_;  // of the ring among those registered with the thread
  unsigned* sq_head_;
  unsigned* sq_tail_;
  unsigned* cq_head_;
  unsigned* cq_tail_;
  unsigned sq_mask_;
  unsigned cq_mask_;
  io_uring_sqe* entries_;
  io_uring_cqe* completions_;
  void* mapped_rings_;  // of a numbered ring
  size_t mapped_ring_bytes_;
  size_t mapped_entry_bytes_;
};

}  // namespace ioweave::calls
