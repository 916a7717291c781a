#pragma once

namespace ioweave::calls {

/// Tests define this to have every call go an unusual way, where it can.
#if defined(IOWEAVE_ALWAYS_CARRY)
inline constexpr bool kIsAlwaysUnusual = true;
#else
inline constexpr bool kIsAlwaysUnusual = false;
#endif

}  // namespace ioweave::calls
