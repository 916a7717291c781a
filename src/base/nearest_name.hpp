#pragma once

#include <span>
#include <string_view>

namespace ioweave {

/// Returns the name of `known` closest to `name` in edit distance. Returns an empty view if no name
/// is within a third of its length (at least two edits) and keeps some of it, so that a suggestion
/// is always helpful.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace ioweave
