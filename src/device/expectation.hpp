#pragma once

// What the profile of a device promises of each way that a call can go (choice/).

#include <cstdint>

#include "choice/expectation.hpp"
#include "device/profile.hpp"

namespace ioweave::device {

/// Returns the expectation for calls with O_DIRECT on the device with this st_dev. `engine`: how
/// the engine makes its transfers. What was not measured stays unknown.
[[nodiscard]] choice::Expectation expectation_of(const Profile& profile, uint64_t number,
                                                 IoWay engine);

}  // namespace ioweave::device
