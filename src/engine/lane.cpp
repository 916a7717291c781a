#include "engine/lane.hpp"

#include <cerrno>
#include <new>

namespace ioweave::engine {
namespace {

std::unique_ptr<Backend> open_kind(const LaneOptions& options, Refusal& refusal) {
  switch (options.kind) {
    case Kind::uring:
      return open_uring(options, refusal);
    case Kind::aio:
      return open_aio(options, refusal);
    case Kind::threads:
      return open_threads(options);
  }
  refusal = {-EINVAL, "the kind of lane is unknown", "choose uring, aio or threads"};
  return nullptr;
}

}  // namespace

std::unique_ptr<Backend> try_open_lane(const LaneOptions& options, Refusal& refusal) {
  if (options.entries == 0) {
    refusal = {-EINVAL, "a lane needs room for at least one operation in flight",
               "set entries to 1 or more"};
    return nullptr;
  }
  try {
    return open_kind(options, refusal);
  } catch (const std::bad_alloc&) {
    refusal = {-ENOMEM, "out of memory while opening a lane", "lower the number of entries"};
    return nullptr;
  }
}

std::unique_ptr<Backend> open_lane(const LaneOptions& options, int& error, std::string& why) {
  Refusal refusal;
  auto lane = try_open_lane(options, refusal);
  error = refusal.error;
  why = lane == nullptr ? refusal.cause + "; " + refusal.remedy : std::string();
  return lane;
}

}  // namespace ioweave::engine
