// zlib and gzip data, with bounds: nothing grows beyond what the caller said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cube {

/// Inflates zlib data into exactly all of `into`. Returns what is wrong, or nothing.
[[nodiscard]] std::string inflate_exactly(std::span<const std::byte> deflated,
                                          std::span<std::byte> into);

/// Appends the content of gzip data to `text`. Returns what is wrong, or nothing: also if it is
/// more than `limit` bytes.
[[nodiscard]] std::string gunzip(std::span<const std::byte> zipped, uint64_t limit,
                                 std::string& text);

/// No more zlib data is needed for so many bytes.
[[nodiscard]] uint64_t most_deflated_bytes(uint64_t bytes);

}  // namespace cube
