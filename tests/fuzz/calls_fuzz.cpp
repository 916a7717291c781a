// Any bytes as the calls of a program: it must do under `ioweave run` what it does without it. Each
// 16 bytes decide a step of tests/differential/generated, which this target runs plainly and under
// Ioweave, as processes of their own. What the fuzzer gets to know of them is which answers each
// call has given.
//
// IOWEAVE_BUILD is the folder of a release build (default: build/release), IOWEAVE_FUZZ_OPTIONS
// what stands between `ioweave run` and the program (default: --policy sync). A file that differs
// is shown, and shrunk, by tests/differential/compare.py BUILD --generate --bytes FILE.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <spawn.h>

#include "differential/generated/fuzz.h"

namespace {

namespace fs = std::filesystem;

/// libFuzzer takes these for counters of edges.
__attribute__((section("__libfuzzer_extra_counters"))) uint8_t answers[kFeatures];

constexpr size_t kRecordBytes = 16;
constexpr size_t kMostSteps = 2000;

std::string setting(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("calls_fuzz." + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

/// What a run leaves: how it ended, what it printed, its files.
struct Outcome {
  int status = 0;
  std::string output;
  std::map<std::string, std::string> files;

  bool operator==(const Outcome&) const = default;
};

int run_in(const fs::path& folder, const std::vector<std::string>& words, const fs::path& output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  pid_t child = 0;
  int status = -1;
  if (posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ) != 0 ||
      ::waitpid(child, &status, 0) != child) {
    std::perror(arguments[0]);
    std::_Exit(2);
  }
  posix_spawn_file_actions_destroy(&actions);
  return status;
}

Outcome run(const Folder& folder, std::vector<std::string> words) {
  static const fs::path build = fs::absolute(setting("IOWEAVE_BUILD", "build/release"));
  const fs::path work = folder.path() / "work";
  const fs::path state = folder.path() / "state";
  const fs::path output = folder.path() / "output";
  fs::create_directory(work);
  if (!words.empty()) {
    words.insert(words.begin(), {build / "src/cli/ioweave", "run", "-q"});
    words.emplace_back("--");
  }
  words.insert(words.end(), {build / "tests/differential/differential_fuzz", "0", "0", "--bytes",
                             folder.path() / "input", "--state", state});
  Outcome outcome{run_in(work, words, output), bytes_of(output), {}};
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(work)) {
    outcome.files[entry.path()] = entry.is_regular_file() ? bytes_of(entry.path()) : "";
  }
  struct shared seen {};
  std::ifstream(state, std::ios::binary).read(reinterpret_cast<char*>(&seen), sizeof seen);
  for (size_t i = 0; i < kFeatures; ++i) {
    answers[i] = seen.features[i];
  }
  fs::remove_all(work);
  fs::remove(state);
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  if (size < 2 * kRecordBytes || size > kMostSteps * kRecordBytes) {
    return 0;
  }
  std::ofstream(folder.path() / "input", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  std::istringstream options(setting("IOWEAVE_FUZZ_OPTIONS", "--policy sync"));
  const std::vector<std::string> words{std::istream_iterator<std::string>(options), {}};
  const Outcome woven = run(folder, words);
  const Outcome plain = run(folder, {});
  // What differs from itself is the fault of the program.
  if (woven != plain && run(folder, {}) == plain && run(folder, words) != plain) {
    std::fprintf(stderr, "plain:\n%s\nioweave run:\n%s\n", plain.output.c_str(),
                 woven.output.c_str());
    std::abort();
  }
  return 0;
}
