#pragma once

#include <span>

#include "service/counters.hpp"
#include "service/request.hpp"

namespace ioweave::service {

/// Whom pumps and the queue of tasks tell what became of operations: the service. By whoever drives
/// them. All requests may be gone when a call returns.
class OperationClient {
 public:
  /// These operations ended with their `result`; `counters` are those of the back end.
  virtual void end_operations(std::span<engine::Operation* const> ended,
                              Counters& counters) noexcept = 0;
  /// The back end does not carry the request: another one must.
  virtual void reroute(iow_request& request) noexcept = 0;

 protected:
  ~OperationClient() = default;
};

}  // namespace ioweave::service
