#pragma once

#include <string>
#include <string_view>

namespace ioweave {

/// Appends `text` as a string of JSON, with its quotes. What is no UTF-8 becomes U+FFFD: a reader
/// of JSON would refuse all of it for one such byte.
void append_json_string(std::string& out, std::string_view text);

}  // namespace ioweave
