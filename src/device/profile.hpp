#pragma once

// The profile of a device: what each way of doing I/O moves on it, by kind of load. `ioweave bench`
// measures it and keeps it as a JSON text, "ioweave-device-profile/1".

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ioweave::device {

/// A way in which a program hands its transfers to the kernel.
enum class IoWay : uint8_t {
  psync,   ///< pread(2) and pwrite(2)
  uring,   ///< io_uring
  sqpoll,  ///< io_uring, a thread of the kernel polls for submissions
  iopoll   ///< io_uring, completions are polled for at the device
};
inline constexpr std::array<IoWay, 4> kIoWays{IoWay::psync, IoWay::uring, IoWay::sqpoll,
                                              IoWay::iopoll};
/// "psync", "io_uring", "io_uring+sqpoll" or "io_uring+iopoll".
[[nodiscard]] std::string_view way_name(IoWay way) noexcept;

/// Transfers of one kind, made in one way.
struct Load {
  IoWay way = IoWay::psync;
  bool direct = false;        ///< O_DIRECT, else through the page cache
  bool random = false;        ///< each block of the file once, in random order; else in order
  unsigned read_percent = 0;  ///< of the transfers; the others are writes
  uint64_t block_bytes = 0;   ///< of one transfer
  unsigned depth = 1;         ///< transfers under way at once

  auto operator<=>(const Load&) const = default;
};

/// One measurement of a load.
struct LoadSample {
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  double seconds = 0;
  double cpu_seconds = 0;  ///< of all threads that did it, the kernel's included

  [[nodiscard]] uint64_t bytes() const noexcept { return read_bytes + written_bytes; }
};

struct LoadResult {
  Load load;
  std::vector<LoadSample> samples;
  std::string failure;  ///< why there are no (more) samples; empty: none is missing

  /// Medians over the samples; 0 without any. All per second are of 10^6 bytes.
  [[nodiscard]] double mb_per_s() const;
  [[nodiscard]] double read_mb_per_s() const;
  [[nodiscard]] double write_mb_per_s() const;
  [[nodiscard]] double cpu_us_per_transfer() const;
  /// The difference of the greatest and the least throughput, as a part of the median.
  [[nodiscard]] double spread() const;
};

/// A way that cannot be gone here.
struct UnusableWay {
  IoWay way = IoWay::psync;
  bool direct = false;  ///< not with O_DIRECT; else not through the page cache
  std::string why;
};

struct Profile {
  std::string date;  ///< UTC
  std::string host;
  std::string kernel;
  uint32_t cpus = 0;       ///< those that the measurement could use
  std::string path;        ///< the folder or file, absolute, without links
  std::string mount_path;  ///< of its file system
  std::string file_system;
  std::string by;  ///< what made the transfers: "fio-3.33", "ioweave 0.1.0"
  uint64_t file_bytes = 0;
  uint64_t block_bytes = 0;  ///< of the loads that compare something else than blocks
  double seconds = 0;        ///< most time of a sample
  std::vector<UnusableWay> unusable;
  std::vector<LoadResult> results;
};

/// Returns what was measured of a load made in this way; null where there are no samples.
[[nodiscard]] const LoadResult* measured_of(const Profile& profile, Load load, IoWay way) noexcept;

/// Returns the result of a load, or null.
[[nodiscard]] const LoadResult* result_of(const Profile& profile, const Load& load) noexcept;

[[nodiscard]] std::string profile_json(const Profile& profile);

/// Reads a text of profile_json(). Returns nothing, with the mistake in `why`, if it is not one.
[[nodiscard]] std::optional<Profile> parse_profile(std::string_view text, std::string& why);

/// Reads a file of such a text. Returns 0, -errno, or -EBADMSG with the mistake in `why`.
[[nodiscard]] int read_profile(const std::string& path, Profile& profile, std::string& why);

}  // namespace ioweave::device
