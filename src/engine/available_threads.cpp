#include "engine/available_threads.hpp"

#include <algorithm>

#include <sys/resource.h>

#include "engine/cgroup_room.hpp"

namespace ioweave::engine {
namespace {

constexpr uint64_t kUsualStackBytes = 8u << 20;

/// Both versions use the same names.
uint64_t pids_in(const std::string& group) {
  const uint64_t limit = number_after(text_of_file(group + "/pids.max"), "");
  if (limit == kUnlimited) return kUnlimited;
  const uint64_t used = number_after(text_of_file(group + "/pids.current"), "");
  return limit - std::min(limit, used != kUnlimited ? used : 0);
}

/// A part of a limit, which others need the rest of.
uint64_t part_of(uint64_t limit, uint64_t parts) noexcept {
  return limit != kUnlimited ? limit / parts : kUnlimited;
}

uint64_t limit_of(int resource) noexcept {
  rlimit limit{};
  const bool is_limited = getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 &&
                          limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? limit.rlim_cur : kUnlimited;
}

uint64_t kernel_limit(const char* name) {
  return number_after(text_of_file(std::string("/proc/sys/") + name), "");
}

}  // namespace

uint64_t available_pids_in_cgroups(const std::string& membership, const std::string& root) {
  return room_in_cgroups(membership, root, "pids", &pids_in, &pids_in);
}

uint64_t available_threads() {
  const uint64_t stack_limit = limit_of(RLIMIT_STACK);
  const uint64_t stack_bytes =
      stack_limit != kUnlimited && stack_limit != 0 ? stack_limit : kUsualStackBytes;
  const uint64_t of_address_space = part_of(part_of(limit_of(RLIMIT_AS), 4), stack_bytes);
  const uint64_t in_cgroups =
      available_pids_in_cgroups(text_of_file("/proc/self/cgroup"), "/sys/fs/cgroup");
  return std::min({part_of(kernel_limit("kernel/threads-max"), 4),
                   part_of(kernel_limit("kernel/pid_max"), 4),
                   part_of(kernel_limit("vm/max_map_count"), 8), of_address_space,
                   part_of(limit_of(RLIMIT_NPROC), 2), part_of(in_cgroups, 2)});
}

}  // namespace ioweave::engine
