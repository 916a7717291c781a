#include "engine/backends.hpp"
#include "engine/probe.hpp"
#include "engine/system_facts.hpp"

namespace ioweave::engine {
namespace {

void append_sentence(std::string& text, std::string_view sentence) {
  if (!text.empty()) text += "; ";
  text += sentence;
}

bool opens(const BackendOptions& options, std::string& why) {
  int error = 0;
  std::string reason;
  if (open_backend(options, error, reason) != nullptr) return true;
  append_sentence(why, std::string(backend_name(options.kind, options.mode)) + ": " + reason);
  return false;
}

}  // namespace

BackendOptions best_backend(const BackendOptions& wanted, std::string& why) {
  why.clear();
  BackendOptions plain = wanted;
  plain.kind = Kind::uring;
  plain.mode = UringMode::plain;
  BackendOptions threads = plain;
  threads.kind = Kind::threads;
  const bool wants_sqpoll = wanted.kind == Kind::uring && wanted.mode == UringMode::sqpoll;
  if (wants_sqpoll && online_cores() < kCoresForSqpoll) {
    append_sentence(why, "io_uring+sqpoll: " + std::to_string(online_cores()) +
                             " cores are too few to give one to the kernel's polling thread");
  } else if (opens(wanted, why)) {
    return wanted;
  }
  const bool was_plain = wanted.kind == Kind::uring && wanted.mode == UringMode::plain;
  if (!was_plain && opens(plain, why)) return plain;
  return threads;
}

}  // namespace ioweave::engine
