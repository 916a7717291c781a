#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <unistd.h>

#include "cli/commands.hpp"
#include "cli/locations.hpp"
#include "cli/output.hpp"

namespace ioweave::cli {

/// Replaces this process by ioweave-tiom, which parses its own options and has its own exit codes.
int tiom_command(Arguments arguments) {
  std::string why;
  std::string program = locate(Location::tiom, why);
  if (program.empty()) {
    complain("tiom: " + why);
    return kFailed;
  }
  std::vector<char*> words{program.data()};
  for (const char* const argument : arguments) words.push_back(const_cast<char*>(argument));
  words.push_back(nullptr);
  execv(program.c_str(), words.data());
  complain("tiom: cannot start " + program + ": " + std::strerror(errno));
  return kFailed;
}

}  // namespace ioweave::cli
