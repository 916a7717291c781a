#include "calls/preload/run.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ioweave::testing {
namespace {

namespace fs = std::filesystem;

std::vector<Image> read_segments(const std::string& directory) {
  std::vector<Image> images;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".segment") {
      continue;
    }
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    void* const mapped =
        mmap(nullptr, sizeof(stats::Segment), PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED) {
      images.emplace_back(static_cast<const stats::Segment*>(mapped),
                          [mapped](const void*) { munmap(mapped, sizeof(stats::Segment)); });
    }
  }
  return images;
}

/// Reads both pipes until their ends.
void collect(int out, int err, Finished& finished) {
  pollfd ends[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  std::string* const texts[2] = {&finished.out, &finished.err};
  int open_ends = 2;
  while (open_ends > 0) {
    poll(ends, 2, -1);
    for (size_t i = 0; i < 2; ++i) {
      char buffer[65536];
      if (ends[i].fd < 0 || ends[i].revents == 0) {
        continue;
      }
      const ssize_t length = read(ends[i].fd, buffer, sizeof buffer);
      if (length > 0) {
        texts[i]->append(buffer, static_cast<size_t>(length));
      } else {
        ends[i].fd = -1;
        --open_ends;
      }
    }
  }
  close(out);
  close(err);
}

[[noreturn]] void become(const RunOptions& options, const std::string& directory,
                         const std::vector<std::string>& command) {
  if (options.interposed) {
    setenv(config::kRunDirVariable, directory.c_str(), 1);
    setenv("LD_PRELOAD", IOWEAVE_PRELOAD_LIBRARY, 1);
  }
  for (const std::string& variable : options.environment) {
    putenv(const_cast<char*>(variable.c_str()));
  }
  if (!options.work_directory.empty() && chdir(options.work_directory.c_str()) != 0) {
    _exit(125);
  }
  if (options.prepare && !options.prepare()) {
    _exit(125);
  }
  std::vector<char*> argv;
  for (const std::string& argument : command) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

}  // namespace

bool Finished::exited_with(int code) const {
  return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

const stats::Segment* Finished::image(const std::string& program_suffix) const {
  for (const Image& each : images) {
    if (ends_with(each->program, program_suffix)) {
      return each.get();
    }
  }
  return nullptr;
}

TemporaryDirectory::TemporaryDirectory(bool in_memory) {
  std::string name =
      in_memory ? "/dev/shm/ioweave-test-XXXXXX" : IOWEAVE_TEST_SCRATCH "/preload-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("mkdtemp " + name + ": " + strerror(errno));
  }
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

RunOptions with_policy(config::RunPolicy policy, engine::Kind engine) {
  RunOptions options;
  options.config.policy = policy;
  options.config.large_page_bytes = config::RunConfig::kMostLargePageBytes;
  options.config.engine = static_cast<uint32_t>(engine);
  return options;
}

void add_rule(RunOptions& options, const std::string& glob, config::RunPolicy policy) {
  config::FileRule& rule = options.config.rule[options.config.rules++];
  strncpy(rule.glob, glob.c_str(), sizeof rule.glob - 1);
  rule.policy = policy;
}

void write_config(const TemporaryDirectory& run_directory, const config::RunConfig& config) {
  std::ofstream file(run_directory / config::kConfigName, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&config), sizeof config);
  file.seekp(stats::kRunStateOffset);
  const char state[sizeof(stats::RunState)] = {};
  file.write(state, sizeof state);
}

Finished run(const RunOptions& options, const std::vector<std::string>& command) {
  const TemporaryDirectory directory(true);
  write_config(directory, options.config);
  int out[2];
  int err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe2");
  }
  const pid_t child = fork();
  if (child == 0) {
    if (options.capture) {
      dup2(out[1], 1);
      dup2(err[1], 2);
    }
    become(options, directory.path(), command);
  }
  close(out[1]);
  close(err[1]);
  Finished finished;
  collect(out[0], err[0], finished);
  waitpid(child, &finished.status, 0);
  finished.images = read_segments(directory.path());
  return finished;
}

Finished run_shell(const RunOptions& options, const std::string& script) {
  return run(options, {"/bin/sh", "-c", script});
}

const stats::FileRecord* record_of(const stats::Segment& image, const std::string& path_suffix) {
  const uint32_t files = std::min(image.files.load(), stats::Segment::kFiles);
  for (uint32_t i = 0; i < files; ++i) {
    if (image.file[i].state.load() == 2 && ends_with(image.file[i].path, path_suffix)) {
      return &image.file[i];
    }
  }
  return nullptr;
}

const stats::FileRecord* record_of(const Finished& finished, const std::string& path_suffix) {
  for (const Image& image : finished.images) {
    if (const auto* record = record_of(*image, path_suffix); record != nullptr) {
      return record;
    }
  }
  return nullptr;
}

uint64_t calls(const stats::FileRecord& record, stats::CallClass call) {
  return record.call[static_cast<unsigned>(call)].calls.value();
}

uint64_t bytes(const stats::FileRecord& record, stats::CallClass call) {
  return record.call[static_cast<unsigned>(call)].bytes.value();
}

void write_pattern(const std::string& path, uint64_t bytes, uint32_t seed) {
  std::ofstream file(path, std::ios::binary);
  std::mt19937_64 random(seed);
  std::vector<uint64_t> block((1u << 20) / sizeof(uint64_t));
  for (uint64_t& word : block) {
    word = random();
  }
  for (uint64_t done = 0; done < bytes;) {
    block[0] = done ^ seed;  // blocks differ
    const uint64_t part = std::min<uint64_t>(bytes - done, block.size() * sizeof(uint64_t));
    file.write(reinterpret_cast<const char*>(block.data()), static_cast<std::streamsize>(part));
    done += part;
  }
}

double cached_share(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  fstat(fd, &status);
  const auto bytes = static_cast<size_t>(status.st_size);
  void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) {
    return -1;
  }
  std::vector<unsigned char> resident((bytes + 4095) / 4096);
  mincore(mapped, bytes, resident.data());
  munmap(mapped, bytes);
  const auto cached = std::count_if(resident.begin(), resident.end(),
                                    [](unsigned char page) { return (page & 1u) != 0; });
  return static_cast<double>(cached) / static_cast<double>(resident.size());
}

bool drop_from_cache(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  fdatasync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
  const double left = cached_share(path);
  return left >= 0 && left < 0.05;
}

}  // namespace ioweave::testing
