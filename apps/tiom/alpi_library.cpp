#include "alpi_library.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <link.h>

namespace tiom {
namespace {

/// What the meter itself calls; the rest is libioweave's affair.
constexpr std::array kFunctions{"alpi_task_spawn", "alpi_cpu_count", "alpi_error_string"};
constexpr const char* kWayOut =
    "; set NOSV_PREFIX to where nOS-V is installed, or NANOS6_PREFIX to where Nanos6 is, or name "
    "an "
    "ALPI library with --alpi-library";

std::string file_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

/// As it is named, but from the root: a link in its way may be there for a reason.
std::string absolute(const std::string& file) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(file, error);
  return error ? file : path.string();
}

bool same_file(const std::string& one, const std::string& other) {
  std::error_code error;
  return one == other || std::filesystem::equivalent(one, other, error);
}

/// What a child process says of a library: two files, or an error.
struct Finding {
  std::string file;
  std::string definer;
  std::string error;
};

Finding load(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const error = dlerror();
    return {"", "", error != nullptr ? error : library + " cannot be loaded"};
  }
  for (const char* const function : kFunctions) {
    if (dlsym(handle, function) == nullptr) {
      return {"", "", library + " is no ALPI runtime: it lacks " + function};
    }
  }
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return {"", "", library + ": no link map"};
  return {absolute(map->l_name), absolute(file_of(dlsym(handle, kFunctions[0]))), ""};
}

/// In the child: each text with the zero that ends it.
[[noreturn]] void tell(int fd, const Finding& finding) {
  for (const std::string* const text : {&finding.file, &finding.definer, &finding.error}) {
    const char* next = text->c_str();
    for (size_t left = text->size() + 1; left > 0;) {
      const ssize_t written = write(fd, next, left);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) _exit(1);
      next += written;
      left -= static_cast<size_t>(written);
    }
  }
  _exit(0);  // what the library has for the end of a process is not to run
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
}

/// What `answer`, the opposite of tell(), says; or, where it is cut short, what became of the
/// child.
Finding finding_of(const std::string& library, const std::string& answer, int status) {
  std::array<std::string, 3> texts;
  size_t start = 0;
  for (std::string& text : texts) {
    const size_t end = answer.find('\0', start);
    if (end == std::string::npos) {
      const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      return {"", "",
              library + " ends a process that loads it" +
                  (signal != 0 ? " (signal " + std::to_string(signal) + ")" : "")};
    }
    text = answer.substr(start, end - start);
    start = end + 1;
  }
  return {texts[0], texts[1], texts[2]};
}

Finding try_library(const std::string& library) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return {"", "", std::string("pipe: ") + std::strerror(errno)};
  }
  const pid_t child = fork();
  if (child == 0) tell(ends[1], load(library));
  const int fork_error = errno;
  close(ends[1]);
  const std::string answer = child > 0 ? read_all(ends[0]) : "";
  close(ends[0]);
  if (child < 0) return {"", "", std::string("fork: ") + std::strerror(fork_error)};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return finding_of(library, answer, status);
}

struct Candidates {
  std::string source;
  std::vector<std::string> libraries;
};

/// What was named, and nothing else then.
Candidates candidates(const std::string& named) {
  if (!named.empty()) return {"--alpi-library", {named}};
  for (const auto& [variable, library] :
       {std::pair{"NOSV_PREFIX", "libnosv.so"}, std::pair{"NANOS6_PREFIX", "libnanos6.so"}}) {
    const char* const prefix = std::getenv(variable);
    if (prefix != nullptr && *prefix != '\0') {
      return {variable,
              {std::string(prefix) + "/lib/" + library, std::string(prefix) + "/lib64/" + library}};
    }
  }
  return {"the loader", {"libnosv.so.0", "libnosv.so", "libnodes.so", "libnanos6.so"}};
}

AlpiPlace search(const std::string& named) {
  const Candidates wanted = candidates(named);
  std::string missing;
  std::string broken;
  for (const std::string& library : wanted.libraries) {
    const Finding found = try_library(library);
    if (found.error.empty()) return {false, found.file, found.definer, wanted.source};
    // That a library is nowhere needs no more words than its name.
    const bool is_missing =
        found.error == library + ": cannot open shared object file: " + std::strerror(ENOENT);
    std::string& list = is_missing ? missing : broken;
    list += (list.empty() ? "" : is_missing ? ", " : "; ") + (is_missing ? library : found.error);
  }
  std::string text = "no ALPI runtime was found by " + wanted.source + ": ";
  if (!missing.empty()) text += "there is no " + missing;
  text += (missing.empty() || broken.empty() ? "" : "; ") + broken;
  throw std::runtime_error(text + kWayOut);
}

}  // namespace

std::string alpi_in_process() {
  for (const char* const function : kFunctions) {
    if (dlsym(RTLD_DEFAULT, function) == nullptr) return "";
  }
  return file_of(dlsym(RTLD_DEFAULT, kFunctions[0]));
}

AlpiPlace locate_alpi(const std::string& named) {
  const std::string present = alpi_in_process();
  if (present.empty()) return search(named);
  if (!named.empty() && !same_file(search(named).definer, present)) {
    throw std::runtime_error("--alpi-library " + named + ": this process has the ALPI runtime " +
                             present +
                             " already, which was preloaded or linked; leave out one of the two");
  }
  return {true, present, present, ""};
}

}  // namespace tiom
