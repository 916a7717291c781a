#include <string>

#include "cli/commands.hpp"
#include "cli/locations.hpp"
#include "cli/output.hpp"

namespace ioweave::cli {
namespace {

/// Prints one location on a line. If it does not exist, complains and returns false.
bool print_location(Location location) {
  std::string why;
  const std::string path = locate(location, why);
  if (path.empty()) {
    complain("path: " + why);
    return false;
  }
  print(path + "\n");
  return true;
}

}  // namespace

int path_command(Arguments arguments) {
  PathOptions options;
  if (const auto code = parse_path(arguments, options)) return *code;
  bool all_found = true;
  if (options.preload) all_found &= print_location(Location::preload);
  if (options.cmake) all_found &= print_location(Location::cmake);
  if (options.pkgconfig) all_found &= print_location(Location::pkgconfig);
  return all_found ? 0 : 1;
}

}  // namespace ioweave::cli
