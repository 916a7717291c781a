// ioweave-slowfs: a FUSE file system with set latency and bandwidth. See README.md.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "mount.hpp"
#include "options.hpp"

namespace {

constexpr int kUsageExit = 2;

void run(const slowfs::Options& options) {
  switch (options.action) {
    case slowfs::Options::Action::kHelp:
      std::fputs(slowfs::help_text().c_str(), stdout);
      break;
    case slowfs::Options::Action::kUnmount:
      slowfs::unmount(options.mountpoint);
      break;
    case slowfs::Options::Action::kMount:
      slowfs::mount_and_serve(options);
      break;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(slowfs::parse_options(argc, argv));
    return EXIT_SUCCESS;
  } catch (const slowfs::UsageError& error) {
    if (*error.what()) std::fprintf(stderr, "ioweave-slowfs: %s\n", error.what());
    std::fputs("Try 'ioweave-slowfs --help' for options and examples.\n", stderr);
    return kUsageExit;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ioweave-slowfs: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
