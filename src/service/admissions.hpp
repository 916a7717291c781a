#pragma once

// I/O that somebody does with another library (HDF5, MPI-IO, a database) takes its turn at the gate
// as requests do: he asks, does it, and says that it has ended. The contracts of iow_admit() and
// its like.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "gate/gate.hpp"
#include "service/local.hpp"

namespace ioweave::service {

/// Thread-safe.
class Admissions final : public gate::Executor {
 public:
  /// Told that an operation is admitted, by its number.
  using Admitted = void (*)(int64_t operation, void* user);

  explicit Admissions(gate::Gate& gate) noexcept : gate_(gate) {}

  /// Sets `number` to that of the operation, above 0, to -ENOMEM, or to -ECANCELED after close().
  /// Returns true where `admitted` is not called: the operation may start, or there is none. Else
  /// it is called once, perhaps already by another thread.
  [[nodiscard]] bool ask(uint32_t flow, uint64_t bytes, Admitted admitted, void* user,
                         int64_t& number) noexcept;
  /// 0; -ENOENT: there is none of that number; -EBUSY: it waits.
  int finish(int64_t operation, int64_t result) noexcept;
  /// 0: it waited, and `admitted` will not be called; -EALREADY: it is admitted, or there is none.
  int withdraw(int64_t operation) noexcept;

  /// Forgets all operations. Nobody is told any more.
  void close() noexcept;

  void start(void* operation) noexcept override;

 private:
  struct Operation {
    int64_t number = 0;
    Admitted admitted = nullptr;
    void* user = nullptr;
    gate::OperationId id = gate::Gate::kNone;
    std::atomic<bool> is_admitted{false};
  };

  [[nodiscard]] std::shared_ptr<Operation> find(int64_t number) const;

  gate::Gate& gate_;
  const uint32_t born_ = fork_generation();
  std::atomic<bool> closing_{false};  ///< set under the lock
  mutable std::mutex lock_;           // not held while the gate is asked
  int64_t next_ = 1;
  std::unordered_map<int64_t, std::shared_ptr<Operation>> operations_;
};

}  // namespace ioweave::service
