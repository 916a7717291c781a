#pragma once

#include <stdexcept>

namespace cube {

/// What is wrong with an archive, an output or a request, as a sentence for the user.
struct CubeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace cube
