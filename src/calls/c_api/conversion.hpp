#pragma once

// What the sources of the C interface share: how C's structs, enumerations and texts are read and
// given. No exception leaves.

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "base/cancellation_off.hpp"
#include "base/errno_kept.hpp"
#include "calls/report_file.hpp"
#include "ioweave/ioweave.h"
#include "service/service.hpp"

struct iow_service {
  ioweave::service::Service::Owner service;
  ioweave::calls::ReportFile task_report;  ///< as of IOWEAVE_TASK_REPORT when it was opened
};

namespace ioweave::calls {

/// An enumeration as the number that it is in C, where any fits: to read it as an `Enum` would be
/// undefined for one that is out of range.
template <typename Enum>
uint32_t number_of(const Enum& value) noexcept {
  static_assert(sizeof value == sizeof(uint32_t));
  uint32_t number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

/// Hands a sentence to C; nothing where nobody asked or memory is out.
inline void give_text(char** text, const std::string& why) noexcept {
  if (text != nullptr) {
    *text = why.empty() ? nullptr : ::strdup(why.c_str());
  }
}

/// The caller's struct as this version knows it: older and shorter ones are filled up with zeros.
template <typename Options>
bool read_options(const Options* given, Options& options) noexcept {
  options = {};
  if (given == nullptr) {
    return true;
  }
  const size_t bytes = given->size == 0 ? sizeof(Options) : given->size;
  if (bytes < sizeof(given->size)) {
    return false;
  }
  std::memcpy(&options, given, std::min(bytes, sizeof(Options)));
  return true;
}

/// The same, with a sentence if it cannot be; `called` is the name of the struct.
template <typename Options>
bool read_options(const Options* given, Options& options, const char* called, std::string& why) {
  if (read_options(given, options)) {
    return true;
  }
  why = std::string("options.size is not the size of an ") + called;
  return false;
}

/// Runs `body`, which returns an int64_t, and turns memory exhaustion into -ENOMEM.
template <typename Body>
auto guarded(char** text, Body&& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    if (text != nullptr) {
      *text = nullptr;
    }
    return -ENOMEM;
  }
}

inline bool in_range(uint32_t value, uint32_t lowest, uint32_t highest, const char* name,
                     std::string& why) {
  if (value >= lowest && value <= highest) {
    return true;
  }
  why = std::string(name) + " must be " + std::to_string(lowest) + ".." + std::to_string(highest) +
        ", not " + std::to_string(value);
  return false;
}

/// As much of `now` as the caller's struct says that it holds.
template <typename Stats>
int give_stats(Stats* stats, Stats& now) noexcept {
  if (stats == nullptr || stats->size < sizeof(stats->size)) {
    return -EINVAL;
  }
  now.size = std::min<uint32_t>(stats->size, sizeof now);
  std::memcpy(stats, &now, now.size);
  return 0;
}

/// In a forked child, for what takes locks: a thread of the parent may have held them.
inline bool is_inherited(const iow_service* service, char** text) noexcept {
  if (!service->service->is_inherited()) {
    return false;
  }
  if (text != nullptr) {
    *text = ::strdup("this service was opened before fork(2): open one in this process");
  }
  return true;
}

/// Runs `body` on a service: it returns 0 or a number, or -errno and puts a sentence where it has
/// one.
template <typename Body>
int on_service(iow_service* service, char** error_text, const Body& body) noexcept {
  const ErrnoKept kept;
  const CancellationOff uncancelled;  // it may open files
  give_text(error_text, {});
  if (is_inherited(service, error_text)) {
    return -ECANCELED;
  }
  return guarded(error_text, [&]() -> int {
    std::string why;
    const int result = body(*service->service, why);
    if (result < 0) {
      give_text(error_text, why);
    }
    return result;
  });
}

/// Opens something on a service. `called` names it in the sentence on a NULL; `open` sets *handle
/// and returns 0, or returns as for on_service().
template <typename Handle, typename Open>
int open_on(iow_service* service, Handle** handle, const char* called, char** error_text,
            const Open& open) noexcept {
  if (handle == nullptr || service == nullptr) {
    return guarded(error_text, [&] {
      give_text(error_text, std::string("service and ") + called + " must not be NULL");
      return -EINVAL;
    });
  }
  *handle = nullptr;
  return on_service(service, error_text,
                    [&](service::Service& of, std::string& why) { return open(of, *handle, why); });
}

}  // namespace ioweave::calls
