#pragma once

// What `ioweave run` hands to the processes of a run: its resolved settings, in the file `config`
// of the run's directory (stats/segment.hpp). The layout is fixed and versioned. Both sides must
// come from one build; otherwise the interposer does nothing.

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "choice/expectation.hpp"

namespace ioweave::config {

inline constexpr uint64_t kConfigMagic = 0x31464e4f43574f49;  // "IOWCONF1"
/// The version of all layouts that a run shares with its processes.
inline constexpr uint32_t kLayoutVersion = 10;

/// The environment variable that names the run directory. Without it the interposer does nothing.
inline constexpr const char* kRunDirVariable = "IOWEAVE_RUN_DIR";
/// Variable that names another interposer to the command, for tests and packagers.
inline constexpr const char* kPreloadVariable = "IOWEAVE_PRELOAD_PATH";

inline constexpr const char* kConfigName = "config";

/// What the interposer does with the calls on a file.
enum class RunPolicy : uint32_t {
  off,        ///< observe only
  sync,       ///< every read and write goes through the engine ("int" in the interceptor paper)
  writes,     ///< only writes go through the engine ("sel_int")
  overlap,    ///< calls stay as they are; the next reads are brought into the page cache meanwhile
  behind,     ///< writes are held back, and written later, together with others
  automatic,  ///< "auto": as overlap, and calls past the page cache go the way that is fastest
};
inline constexpr std::array<std::string_view, 6> kRunPolicyNames{"off",     "sync",   "writes",
                                                                 "overlap", "behind", "auto"};

/// Returns true if what is read next is brought into the page cache, and what will be synced is
/// written early.
[[nodiscard]] constexpr bool overlaps(RunPolicy policy) noexcept {
  return policy == RunPolicy::overlap || policy == RunPolicy::automatic;
}

/// Whether the command has the kernel write what was written, before the program asks for it.
enum class EarlyWriteback : uint32_t {
  automatic,  ///< where files of the folder have been synced before, and it was measured to pay
  always,
  never,
};
inline constexpr std::array<std::string_view, 3> kEarlyWritebackNames{"auto", "always", "never"};

struct FileRule {
  char glob[240];  ///< shell pattern of the absolute path: * does not cross '/', ** does
  RunPolicy policy;
  uint32_t reserved;
};

struct RunConfig {
  static constexpr uint32_t kMaxRules = 64;

  uint64_t magic = kConfigMagic;
  uint32_t version = kLayoutVersion;
  uint32_t bytes = sizeof(RunConfig);

  RunPolicy policy = RunPolicy::automatic;  ///< for files that no rule matches
  uint32_t engine = 0;                      ///< engine::Kind, where the engine moves the bytes
  uint32_t engine_mode = 0;                 ///< engine::UringMode
  EarlyWriteback early_writeback = EarlyWriteback::automatic;
  uint32_t rules = 0;                       ///< how many of `rule` are in use
  uint64_t pid_namespace = 0;               ///< the command's: inode of /proc/self/ns/pid
  uint32_t holds_direct_writes = 0;         ///< 1: `auto` may hold writes past the page cache back
  uint32_t logs_reads = 0;                  ///< 1: processes note their reads one by one
  uint64_t lookahead_bytes = 128u << 20;    ///< most ahead of a reader, unless one read is larger
  uint64_t max_lookahead_bytes = 1u << 30;  ///< most bytes ahead over all files of the run
  static constexpr uint64_t kMostLargePageBytes = 2 << 20;
  uint64_t large_page_bytes = 0;  ///< of this machine, at most kMostLargePageBytes; 0: use none
  FileRule rule[kMaxRules] = {};  ///< the first rule that matches wins
  static constexpr uint32_t kMaxDevices = 8;
  choice::Expectation expectation[kMaxDevices] = {};  ///< of devices with a profile
};

/// Returns true if `wanted` is true of a policy that some files of the run may have.
template <class Wanted>
[[nodiscard]] bool any_policy(const RunConfig& config, Wanted wanted) noexcept {
  for (uint32_t i = 0; i < config.rules; ++i) {
    if (wanted(config.rule[i].policy)) return true;
  }
  return wanted(config.policy);
}

/// Returns true if some files of the run may have this policy.
[[nodiscard]] inline bool uses(const RunConfig& config, RunPolicy policy) noexcept {
  return any_policy(config, [policy](RunPolicy each) { return each == policy; });
}

/// Returns true if something may be overlapped in the run.
[[nodiscard]] inline bool may_overlap(const RunConfig& config) noexcept {
  return any_policy(config, overlaps);
}

/// Returns true if writes of some files of the run may be held back.
[[nodiscard]] inline bool may_hold_writes(const RunConfig& config) noexcept {
  return uses(config, RunPolicy::behind) ||
         (config.holds_direct_writes != 0 && uses(config, RunPolicy::automatic));
}

static_assert(std::is_standard_layout_v<RunConfig> && sizeof(FileRule) == 248);

}  // namespace ioweave::config
