#include "base/machine.hpp"

#include <algorithm>

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/proc_text.hpp"

namespace ioweave {
namespace {

std::string processor_name() {
  // The lines of the first processor are enough; with hundreds of processors the file is long.
  std::string text;
  if (read_proc_text("/proc/cpuinfo", 4096, text) != 0) return {};
  const size_t key = text.find("model name");
  if (key == std::string::npos) return {};
  const size_t start = text.find(": ", key);
  if (start == std::string::npos) return {};
  return text.substr(start + 2, text.find('\n', start) - start - 2);
}

uint32_t allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // This fails beyond 1024 processors; "all that are online" is a good answer then.
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    return static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  }
  return static_cast<uint32_t>(CPU_COUNT(&set));
}

}  // namespace

Machine this_machine() {
  Machine machine;
  utsname names{};
  if (uname(&names) == 0) {
    machine.host = names.nodename;
    machine.kernel = names.release;
    machine.architecture = names.machine;
  }
  machine.processor = processor_name();
  machine.cpus = static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  machine.cpus_allowed = allowed_cpus();
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  machine.memory_bytes =
      static_cast<uint64_t>(std::max(0L, pages)) * static_cast<uint64_t>(std::max(0L, page_bytes));
  return machine;
}

}  // namespace ioweave
