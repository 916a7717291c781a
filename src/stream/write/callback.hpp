#pragma once

#include "stream/write/linked_list.hpp"

namespace ioweave::stream {

/// A callback of the program's that is due once a stream's lock is free.
class Callback {
 public:
  Callback() = default;
  virtual ~Callback() = default;
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  /// Calls it, once.
  virtual void run() noexcept = 0;

  Callback* previous = nullptr;
  Callback* next = nullptr;
};

/// Runs callbacks and frees them, without any lock. Those of a thread run one after the other: what
/// one of them sets off waits until it has returned, or many that fail would nest without end.
void call_back(LinkedList<Callback>& due) noexcept;

}  // namespace ioweave::stream
