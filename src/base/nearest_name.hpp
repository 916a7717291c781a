#pragma once

#include <span>
#include <string_view>

namespace ioweave {

/// The name of `known` closest to `name` in edit distance, or an empty view where none is within
/// a third of its length (at least two edits) and keeps some of it: a suggestion that is no help is
/// not made.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace ioweave
