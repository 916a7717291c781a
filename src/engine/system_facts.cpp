#include "engine/system_facts.hpp"

#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>

#include "engine/raw_syscall.hpp"

namespace ioweave::engine {

std::string kernel_release() {
  utsname name{};
  return ::uname(&name) == 0 ? name.release : "unknown";
}

bool kernel_at_least(int major, int minor) {
  int have_major = 0;
  int have_minor = 0;
  if (std::sscanf(kernel_release().c_str(), "%d.%d", &have_major, &have_minor) != 2) return false;
  return have_major > major || (have_major == major && have_minor >= minor);
}

int io_uring_disabled() {
  const std::string text = read_small_file("/proc/sys/kernel/io_uring_disabled");
  return text.empty() ? -1 : std::atoi(text.c_str());
}

bool seccomp_filtered() {
  const std::string status = read_small_file("/proc/self/status");
  return status.find("Seccomp:\t2") != std::string::npos;
}

uint64_t large_page_bytes() {
  const std::string enabled = read_small_file("/sys/kernel/mm/transparent_hugepage/enabled");
  if (enabled.empty() || enabled.find("[never]") != std::string::npos) return 0;
  const std::string bytes = read_small_file("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
  return std::strtoull(bytes.c_str(), nullptr, 10);
}

std::string memlock_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return "unlimited";
  }
  return in_bytes(limit.rlim_cur);
}

std::string in_bytes(unsigned long long bytes) {
  static constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB"};
  size_t unit = 0;
  while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + kUnits[unit];
}

std::string read_small_file(const char* path) {
  const long fd = raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return {};
  char text[4096];
  const long length = raw_syscall(SYS_read, fd, text, sizeof text);
  raw_syscall(SYS_close, fd);
  std::string content(text, length > 0 ? static_cast<size_t>(length) : 0);
  while (!content.empty() && content.back() == '\n') content.pop_back();
  return content;
}

std::string queue_setting(dev_t device, const char* name) {
  // A partition has it one level up.
  for (const char* place : {"queue", "../queue"}) {
    char path[128];
    std::snprintf(path, sizeof path, "/sys/dev/block/%u:%u/%s/%s", major(device), minor(device),
                  place, name);
    if (std::string value = read_small_file(path); !value.empty()) return value;
  }
  return {};
}

unsigned online_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<unsigned>(CPU_COUNT(&set));
}

}  // namespace ioweave::engine
