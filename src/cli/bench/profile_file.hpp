#pragma once

#include <string>

#include "device/profile.hpp"

namespace ioweave::cli {

/// Reads what `ioweave bench --json` wrote. Returns false with a sentence that names the file.
[[nodiscard]] bool load_profile(const std::string& path, device::Profile& profile,
                                std::string& why);

}  // namespace ioweave::cli
