#pragma once

// How fast a file can be read: from its device with several reads at once, and from the page cache;
// and how fast memory is copied. The file is only read, and the page cache left as it is.

#include <optional>
#include <string>

namespace ioweave::device {

/// Reads from the device (O_DIRECT) with four reads of 1 MiB under way, for half a second or until
/// the file ends. Returns bytes per second. If that took a fifth of a second or more, the first
/// tenth does not count: limits of control groups save up credit while nothing is read. Nothing if
/// the file cannot be opened so, or is smaller than 16 MiB.
[[nodiscard]] std::optional<double> device_read_rate(const std::string& path);

/// Reads what of the first 64 MiB lies in the page cache. Returns seconds per byte; nothing if less
/// than 4 MiB lie there.
[[nodiscard]] std::optional<double> cached_read_time(const std::string& path);

/// Returns the seconds per byte that it takes to copy memory which no cache holds.
[[nodiscard]] double copy_time();

}  // namespace ioweave::device
