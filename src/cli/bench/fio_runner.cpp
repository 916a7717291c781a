// How it works: each sample is a run of fio with one job, a thread of it, on the file that we have
// open, by its path below /proc. It prints JSON into a file in memory. fio counts only the
// processor time of the thread that submits, so that of the whole process is taken (wait4(2)), less
// what a run takes that makes one transfer.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <spawn.h>

#include "base/cpu_time.hpp"
#include "cli/bench/load_runner.hpp"
#include "cli/format.hpp"

namespace ioweave::cli {
namespace {

using device::IoWay;
using device::Load;
using device::LoadSample;
using nlohmann::json;

constexpr size_t kShownError = 300;

/// What a program printed, and how it ended.
struct Ended {
  int error = 0;  ///< errno where it could not be started
  int status = 0;
  rusage usage{};
  std::string out;
  std::string err;
};

std::string text_in(const Descriptor& file) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return {};
  std::string text(static_cast<size_t>(status.st_size), '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

Ended run_fio(const std::vector<std::string>& options) {
  Ended ended;
  std::vector<std::string> words{"fio"};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const Descriptor out(memfd_create("out", MFD_CLOEXEC));
  const Descriptor err(memfd_create("err", MFD_CLOEXEC));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.get(), STDERR_FILENO);
  pid_t child = -1;
  ended.error = posix_spawnp(&child, "fio", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (ended.error != 0) return ended;
  while (wait4(child, &ended.status, 0, &ended.usage) < 0 && errno == EINTR) {
  }
  ended.out = text_in(out);
  ended.err = text_in(err);
  return ended;
}

/// One line of what a failed fio said.
std::string complaint_of(const Ended& ended) {
  if (ended.error != 0) return std::string("cannot start fio: ") + std::strerror(ended.error);
  std::string text = ended.err.empty() ? ended.out.substr(0, ended.out.find('{')) : ended.err;
  text = without_controls(text.substr(0, text.find('\n'))).substr(0, kShownError);
  if (WIFSIGNALED(ended.status)) {
    text = "fio was ended by signal " + std::to_string(WTERMSIG(ended.status)) +
           (text.empty() ? "" : ": " + text);
  }
  return text.empty() ? "fio failed without saying why" : text;
}

std::vector<std::string> options_of(const BenchFile& file, const Load& load) {
  const bool reads = load.read_percent == 100;
  const bool mixed = !reads && load.read_percent != 0;
  const std::string pattern = load.random ? "rand" : "";
  std::vector<std::string> options{
      "--name=load", "--thread", "--filename=" + file.path(), "--allow_file_create=0",
      "--size=" + std::to_string(file.bytes() / load.block_bytes * load.block_bytes),
      "--bs=" + std::to_string(load.block_bytes),
      "--rw=" + pattern +
          (mixed   ? "rw"
           : reads ? "read"
                   : "write"),
      load.direct ? "--direct=1" : "--direct=0", "--randrepeat=0",
      // Work of its own with each transfer, which belongs to no way of doing I/O: it would ask for
      // the time twice, and change the bytes that it writes.
      "--gtod_reduce=1", "--scramble_buffers=0",
      "--invalidate=0",  // the file has been dropped from the page cache before
      "--output-format=json"};
  if (mixed) options.push_back("--rwmixread=" + std::to_string(load.read_percent));
  if (reads) options.emplace_back("--readonly");
  if (load.way == IoWay::psync) {
    options.emplace_back("--ioengine=psync");
    return options;
  }
  options.emplace_back("--ioengine=io_uring");
  options.push_back("--iodepth=" + std::to_string(load.depth));
  if (load.way == IoWay::sqpoll) options.emplace_back("--sqthread_poll=1");
  if (load.way == IoWay::iopoll) options.emplace_back("--hipri=1");
  return options;
}

/// Takes the figures of fio's JSON; false where it holds none.
bool take_figures(const std::string& text, LoadSample& sample) {
  const size_t begin = text.find('{');  // notes may come before it
  if (begin == std::string::npos) return false;
  const json report =
      json::parse(text.begin() + static_cast<ptrdiff_t>(begin), text.end(), nullptr, false);
  try {
    const json& job = report.at("jobs").at(0);
    const json& read = job.at("read");
    const json& write = job.at("write");
    sample.read_bytes = read.at("io_bytes").get<uint64_t>();
    sample.written_bytes = write.at("io_bytes").get<uint64_t>();
    const double runtime_ms =
        std::max(read.at("runtime").get<double>(), write.at("runtime").get<double>());
    sample.seconds = std::max(runtime_ms, 1.0) / 1e3;
    return job.at("error").get<int>() == 0 && sample.bytes() > 0;
  } catch (const json::exception&) {
    return false;
  }
}

class FioRunner final : public LoadRunner {
 public:
  explicit FioRunner(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] std::string name() const override { return name_; }

  bool run(const BenchFile& file, const Load& load, double seconds, LoadSample& sample,
           std::string& why) override {
    std::vector<std::string> options = options_of(file, load);
    options.push_back("--runtime=" + std::to_string(static_cast<uint64_t>(seconds * 1e6)) + "us");
    const Ended ended = run_fio(options);
    if (ended.error != 0 || !WIFEXITED(ended.status) || WEXITSTATUS(ended.status) != 0 ||
        !take_figures(ended.out, sample)) {
      why = complaint_of(ended);
      return false;
    }
    sample.cpu_seconds = std::max(cpu_seconds_of(ended.usage) - starting_s(file), 0.0);
    return true;
  }

 private:
  /// What fio takes besides transfers, measured once.
  double starting_s(const BenchFile& file) {
    if (starting_s_ >= 0) return starting_s_;
    std::vector<std::string> options = options_of(file, {IoWay::psync, false, false, 100, 4096, 1});
    options.emplace_back("--number_ios=1");
    starting_s_ = cpu_seconds_of(run_fio(options).usage);
    return starting_s_;
  }

  const std::string name_;
  double starting_s_ = -1;
};

}  // namespace

std::unique_ptr<LoadRunner> make_fio_runner(std::string& why) {
  const Ended ended = run_fio({"--version"});
  const std::string version = ended.out.substr(0, ended.out.find('\n'));
  if (ended.error == 0 && WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 0 &&
      version.starts_with("fio-")) {
    return std::make_unique<FioRunner>(without_controls(version));
  }
  why = ended.error == ENOENT ? "fio is not installed" : complaint_of(ended);
  return nullptr;
}

}  // namespace ioweave::cli
