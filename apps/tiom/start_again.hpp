#pragma once

#include <string>

namespace tiom {

/// Sees to it that this process has an ALPI runtime, in front of the C library: nOS-V takes the
/// place of functions such as pthread_create(3), and refuses to run where it was loaded behind
/// them. Where the process has none, the program starts again with the library in front of
/// LD_PRELOAD, once, and this does not return; the variable is then what it was before. To be
/// called before anything else is done, by the only thread. Throws std::runtime_error with the way
/// out.
void bring_alpi(const std::string& named, char** argv);

}  // namespace tiom
