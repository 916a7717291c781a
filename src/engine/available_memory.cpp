#include "engine/available_memory.hpp"

#include <algorithm>
#include <string_view>

#include "engine/cgroup_room.hpp"

namespace ioweave::engine {
namespace {

static_assert(kUnlimitedMemory == kUnlimited);

/// What a version of memory cgroups calls the same three figures.
struct Names {
  std::string_view limit;
  std::string_view used;
  std::string_view reclaimable;  ///< a line of memory.stat: page cache that nobody used lately
};
constexpr Names kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                          "\ntotal_inactive_file "};
constexpr Names kVersion2{"/memory.max", "/memory.current", "\ninactive_file "};

template <const Names& kNames>
uint64_t room_in(const std::string& group) {
  const uint64_t limit = number_after(text_of_file(group + std::string(kNames.limit)), "");
  if (limit == kUnlimited) return kUnlimited;
  const uint64_t used = number_after(text_of_file(group + std::string(kNames.used)), "");
  if (used == kUnlimited) return limit;
  const uint64_t reclaimable =
      number_after(text_of_file(group + "/memory.stat"), kNames.reclaimable);
  const uint64_t in_use = reclaimable != kUnlimited ? used - std::min(used, reclaimable) : used;
  return limit - std::min(limit, in_use);
}

}  // namespace

uint64_t available_in_cgroups(const std::string& membership, const std::string& root) {
  return room_in_cgroups(membership, root, "memory", &room_in<kVersion1>, &room_in<kVersion2>);
}

uint64_t available_memory_bytes() {
  const uint64_t kib = number_after(text_of_file("/proc/meminfo"), "MemAvailable:");
  const uint64_t machine = kib != kUnlimited ? kib << 10 : kUnlimited;
  return std::min(machine,
                  available_in_cgroups(text_of_file("/proc/self/cgroup"), "/sys/fs/cgroup"));
}

}  // namespace ioweave::engine
