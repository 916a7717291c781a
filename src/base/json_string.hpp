#pragma once

#include <string>
#include <string_view>

namespace ioweave {

/// Appends `text` as a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD, since
/// readers of JSON refuse a whole text for one such byte.
void append_json_string(std::string& out, std::string_view text);

/// Whether append_json_string() loses nothing of `text`.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

}  // namespace ioweave
