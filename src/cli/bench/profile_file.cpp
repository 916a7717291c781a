#include "cli/bench/profile_file.hpp"

#include <cstring>

#include "cli/format.hpp"

namespace ioweave::cli {

bool load_profile(const std::string& path, device::Profile& profile, std::string& why) {
  std::string mistake;
  const int error = device::read_profile(path, profile, mistake);
  if (error == 0) return true;
  why = quoted_name(path) + " ";
  why += mistake.empty() ? std::string("cannot be read: ") + std::strerror(-error)
                         : "is no profile of a device: " + mistake +
                               "; make one with ioweave bench --json=FILE";
  return false;
}

}  // namespace ioweave::cli
