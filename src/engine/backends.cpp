#include "engine/backends.hpp"

#include <cerrno>
#include <new>

namespace ioweave::engine {
namespace {

std::unique_ptr<Backend> open_kind(const BackendOptions& options, Refusal& refusal) {
  switch (options.kind) {
    case Kind::uring:
      return open_uring(options, refusal);
    case Kind::aio:
      return open_aio(options, refusal);
    case Kind::threads:
      return open_threads(options);
  }
  refusal = {-EINVAL, "the kind of backend is unknown", "choose uring, aio or threads"};
  return nullptr;
}

}  // namespace

std::unique_ptr<Backend> try_open_backend(const BackendOptions& options, Refusal& refusal) {
  if (options.entries == 0) {
    refusal = {-EINVAL, "a backend needs room for at least one operation in flight",
               "set entries to 1 or more"};
    return nullptr;
  }
  try {
    return open_kind(options, refusal);
  } catch (const std::bad_alloc&) {
    refusal = {-ENOMEM, "out of memory while opening a backend", "lower the number of entries"};
    return nullptr;
  }
}

std::unique_ptr<Backend> open_backend(const BackendOptions& options, int& error, std::string& why) {
  Refusal refusal;
  auto backend = try_open_backend(options, refusal);
  error = refusal.error;
  why = backend == nullptr ? refusal.cause + "; " + refusal.remedy : std::string();
  return backend;
}

}  // namespace ioweave::engine
