// A stand-in for libioweave_preload.so: leaves a fabricated segment when it is loaded and does
// nothing else, so that tests of the command do not depend on what the real one decides to do. It
// acts only in the program named by FAKE_PRELOAD_PROGRAM (the end of its path), or in every one. Of
// small files it names FAKE_PRELOAD_FILES.

#include <cstdlib>
#include <filesystem>
#include <string>

#include <unistd.h>

#include "base/clock.hpp"
#include "stats/segment_maker.hpp"

namespace {

using namespace ioweave;
using namespace ioweave::stats;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Ten seconds are fabricated: the clocks say that they passed in a real millisecond.
void leave_segment(const std::string& directory, const std::string& program) {
  const auto segment = test::make_segment(getpid());
  segment->parent_pid = getppid();
  test::set_text(segment->program, program);
  test::set_text(segment->engine, "io_uring");
  if (variable("FAKE_PRELOAD_STATE") == "running") {
    segment->state = Segment::State::running;
    segment->end_ns = 0;
    segment->end_ticks = 0;
    segment->start_ns = now_ns();
    segment->start_ticks = now_ticks();
  }
  FileRecord& input = test::add_file(*segment, "/data/input.bin");
  test::add_calls(input, CallClass::read, 1024, 1u << 30, 0.5);
  FileRecord& output = test::add_file(*segment, "/data/output.bin");
  test::add_calls(output, CallClass::write, 16, 1u << 20, 0.25);
  output.degrade = static_cast<uint32_t>(Degrade::append);
  for (int i = std::atoi(variable("FAKE_PRELOAD_FILES").c_str()); i > 0; --i) {
    test::add_calls(test::add_file(*segment, "/small/" + std::to_string(i)), CallClass::read, 1,
                    100, 0.00001);
  }
  FileRecord& pipe = test::add_file(*segment, "pipe:[7]");
  test::add_calls(pipe, CallClass::read, 1, 10, 9);
  pipe.degrade = static_cast<uint32_t>(Degrade::not_regular);
  test::write_segment(*segment, directory + "/" + std::to_string(getpid()) + "-0.segment");
}

__attribute__((constructor)) void loaded() {
  const std::string directory = variable(config::kRunDirVariable);
  std::error_code ignored;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  if (!directory.empty() && program.ends_with(variable("FAKE_PRELOAD_PROGRAM"))) {
    leave_segment(directory, program);
  }
}

}  // namespace
