#include "start_again.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "alpi_library.hpp"

namespace tiom {
namespace {

constexpr const char* kPreload = "LD_PRELOAD";
/// "PID ENTRY": what this process has put in front of LD_PRELOAD. An exec keeps the number, so
/// somebody else's mark is known as such.
constexpr const char* kMark = "IOWEAVE_TIOM_PRELOADED";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

void set(const char* name, const std::string& value) {
  if (setenv(name, value.c_str(), 1) != 0) {
    throw std::runtime_error(std::string("cannot set ") + name + ": " + std::strerror(errno));
  }
}

/// LD_PRELOAD without what was put in front: processes that this one starts want none of it.
void restore_preload(const std::string& entry) {
  const std::string list = variable(kPreload);
  if (list == entry) {
    unsetenv(kPreload);
  } else if (list.starts_with(entry + ":")) {
    set(kPreload, list.substr(entry.size() + 1));
  }
}

/// What was preloaded by the start before this one, or "". The environment is as before it then.
std::string take_mark() {
  const std::string mark = variable(kMark);
  const std::string own = std::to_string(getpid()) + " ";
  if (!mark.starts_with(own)) return "";
  std::string entry = mark.substr(own.size());
  unsetenv(kMark);
  restore_preload(entry);
  prctl(PR_SET_NAME, "ioweave-tiom");  // the kernel has named it after /proc/self/exe
  return entry;
}

/// The library, and behind it the one that it has ALPI from: the loader would put that behind the C
/// library.
std::string preload_entry(const AlpiPlace& place) {
  for (const std::string& file : {place.file, place.definer}) {
    if (file.find_first_of(" :$") == std::string::npos) continue;
    throw std::runtime_error("the ALPI runtime " + file +
                             " cannot be preloaded: LD_PRELOAD expresses no path with blanks, ':' "
                             "or '$'; name it with --alpi-library by a link without these");
  }
  return place.file == place.definer ? place.file : place.file + ":" + place.definer;
}

[[noreturn]] void start_again(const AlpiPlace& place, char** argv) {
  const std::string entry = preload_entry(place);
  if (getauxval(AT_SECURE) != 0) {
    throw std::runtime_error(
        "the ALPI runtime " + place.file +
        " has to be preloaded, and the loader preloads nothing into a program that is setuid or "
        "setgid or has file capabilities; run an ioweave-tiom without these");
  }
  const std::string before = variable(kPreload);
  set(kMark, std::to_string(getpid()) + " " + entry);
  set(kPreload, before.empty() ? entry : entry + ":" + before);
  execv("/proc/self/exe", argv);
  throw std::runtime_error("ioweave-tiom cannot start itself again by /proc/self/exe (" +
                           std::string(std::strerror(errno)) +
                           "); start it with LD_PRELOAD=" + entry + " to have the ALPI runtime");
}

}  // namespace

void bring_alpi(const std::string& named, char** argv) {
  const std::string preloaded = take_mark();
  if (preloaded.empty()) {
    const AlpiPlace place = locate_alpi(named);
    if (!place.in_process) start_again(place, argv);
  } else if (alpi_in_process().empty()) {
    throw std::runtime_error(
        "preloading the ALPI runtime " + preloaded +
        " had no effect; the loader has said above why, or try LD_DEBUG=libs LD_PRELOAD=" +
        preloaded + " /bin/true");
  }
}

}  // namespace tiom
