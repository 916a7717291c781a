#pragma once

#include "service/request.hpp"

namespace ioweave::service {

/// Carries out one operation by the plain system call on the calling thread. Bytes, 0 or -errno;
/// neither continued nor repeated. Async-signal-safe.
[[nodiscard]] int64_t perform_inline(const engine::Operation& operation) noexcept;

/// As an engine does it: of a pipe or socket, which has no offsets, the stream is read or written.
[[nodiscard]] int64_t perform_inline_as_engine(const engine::Operation& operation) noexcept;

/// Completes the request, or what is left of it, by such calls; its result is set.
void perform_rest(iow_request& request,
                  int64_t (*perform)(const engine::Operation&) noexcept = &perform_inline) noexcept;

}  // namespace ioweave::service
