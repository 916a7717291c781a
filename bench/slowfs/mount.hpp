#pragma once

#include <string>

#include "inode_table.hpp"
#include "options.hpp"

namespace slowfs {

/// Mounts, says so, and serves until the mount is gone. A first SIGTERM, SIGINT or SIGHUP takes
/// the mount out of the tree and serves what is still open; a second one ends at once. Throws
/// std::runtime_error with a message for the user. Must be called before any thread is started.
void mount_and_serve(const Options& options);

/// Unmounts what `mount_and_serve` has mounted at `mountpoint`; throws std::runtime_error if
/// nothing is, or if it is in use.
void unmount(const std::string& mountpoint);

}  // namespace slowfs
