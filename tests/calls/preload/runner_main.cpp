// preload_runner POLICY PROGRAM [ARGUMENT...]: runs a program under the interposer with its
// standard streams untouched, for scripts that compare its behaviour with and without. POLICY
// "none" runs it plainly. With IOWEAVE_RUNNER_REPORT=FILE a line per file and image is appended
// there.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls/preload/run.hpp"

namespace {

using namespace ioweave;

void report(const testing::Finished& finished, FILE* to) {
  for (const testing::Image& image : finished.images) {
    std::fprintf(to, "%s pid %d state %u engine '%s' ops %lu why '%s'\n", image->program,
                 image->pid, static_cast<unsigned>(image->state.load()), image->engine,
                 image->engine_operations.load(), image->why);
    const uint32_t files = std::min(image->files.load(), stats::Segment::kFiles);
    for (uint32_t i = 0; i < files; ++i) {
      const stats::FileRecord& file = image->file[i];
      std::fprintf(to, "  %s:", file.path);
      for (unsigned call = 0; call < stats::kCallClasses; ++call) {
        std::fprintf(to, " %s %lu/%lu/%lu", std::string(stats::kCallClassNames[call]).c_str(),
                     file.call[call].calls.value(), file.call[call].bytes.value(),
                     file.call[call].ticks.value());
      }
      std::fprintf(to, " places %u degrade '%s'\n", file.places.load(),
                   std::string(stats::kDegradeNames[file.degrade.load()]).c_str());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: preload_runner POLICY PROGRAM [ARGUMENT...]\n");
    return 125;
  }
  const std::string policy = argv[1];
  testing::RunOptions options;
  options.capture = false;
  options.interposed = policy != "none";
  const auto* const name =
      std::find(config::kRunPolicyNames.begin(), config::kRunPolicyNames.end(), policy);
  if (options.interposed && name == config::kRunPolicyNames.end()) {
    std::fprintf(stderr, "preload_runner: no policy %s\n", argv[1]);
    return 125;
  }
  if (options.interposed) {
    options.config.policy = static_cast<config::RunPolicy>(name - config::kRunPolicyNames.begin());
  }
  const testing::Finished finished = testing::run(options, {argv + 2, argv + argc});
  if (const char* const path = std::getenv("IOWEAVE_RUNNER_REPORT"); path != nullptr) {
    if (FILE* const file = std::fopen(path, "a"); file != nullptr) {
      report(finished, file);
      std::fclose(file);
    }
  }
  return WIFEXITED(finished.status) ? WEXITSTATUS(finished.status)
                                    : 128 + WTERMSIG(finished.status);
}
