// cube_remap: the re-mapper of the Cube study on asynchronous I/O: computes results and writes each
// while it computes the next.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "options.hpp"
#include "remap.hpp"
#include "report.hpp"

namespace {

constexpr int kUsageExit = 2;

void run(const cube::Options& options) {
  std::optional<cube::ReportFile> report_file;
  if (options.json) report_file.emplace(*options.json);
  const cube::Report report = cube::remap(options.remap);
  for (const std::string& note : report.notes) {
    std::fprintf(stderr, "cube_remap: note: %s\n", note.c_str());
  }
  if (report_file) report_file->write(options.remap, report);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const cube::Options options = cube::parse_options(argc, argv);
    if (options.help) {
      std::fputs(cube::help_text().c_str(), stdout);
    } else {
      run(options);
    }
    return EXIT_SUCCESS;
  } catch (const cube::UsageError& error) {
    if (*error.what()) std::fprintf(stderr, "cube_remap: %s\n", error.what());
    std::fputs("Try 'cube_remap --help' for options and examples.\n", stderr);
    return kUsageExit;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cube_remap: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
