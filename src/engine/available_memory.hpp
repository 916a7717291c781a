#pragma once

// How much memory this process may still use: what the machine has, and what its cgroups allow.
// Page cache counts against the cgroup of whoever brings it in.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ioweave::engine {

/// Keeps open what it reads, on private descriptors: opening a file takes the lowest free number,
/// for however short, from a program that counts on it, so it is opened where the caller chooses.
/// One thread at a time.
class AvailableMemory {
 public:
  static constexpr uint64_t kUnlimited = UINT64_MAX;

  /// Of this process. May throw std::bad_alloc.
  AvailableMemory();
  /// `membership` is a text like that of /proc/self/cgroup (versions 1 and 2), `root` the folder
  /// where cgroups are mounted. A container often sees its own group as that root: paths that do
  /// not exist below it are passed over. Without `meminfo`, a path, the machine has no limit.
  AvailableMemory(const std::string& membership, const std::string& root, const char* meminfo);
  ~AvailableMemory();
  AvailableMemory(const AvailableMemory&) = delete;
  AvailableMemory& operator=(const AvailableMemory&) = delete;

  /// Bytes that can be used without swapping or evicting what is in use: the least of the machine's
  /// MemAvailable and the room in each memory cgroup from the process's own up to the root that had
  /// a limit at construction. kUnlimited where nothing can be read.
  [[nodiscard]] uint64_t bytes() const noexcept;

 private:
  struct Names;
  static const Names kVersion1;
  static const Names kVersion2;

  struct Group {
    int limit = -1;
    int used = -1;
    int statistics = -1;
    const Names* names = nullptr;
  };
  void add_up_from(std::string_view path, const std::string& mount, const Names& names);
  void add(const std::string& folder, const Names& names);
  static uint64_t room_in(const Group& group) noexcept;

  int meminfo_ = -1;
  std::vector<Group> groups_;
};

}  // namespace ioweave::engine
