#include "cli/program.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/elf_file.hpp"

namespace ioweave::cli {
namespace {

/// How many nested interpreters the kernel follows (fs/exec.c).
constexpr int kMostInterpreters = 5;
constexpr std::string_view kDefaultSearchPath = "/bin:/usr/bin";  // glibc's, where PATH is unset

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 == 0: no slash
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  constexpr std::string_view kBlanks = " \t\r";
  for (size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

/// Returns 0, or the errno that exec would give for this file.
int exec_error(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return errno;
  // access(2) answers for the real user id, exec asks with the effective one.
  if (!S_ISREG(status.st_mode)) return EACCES;
  return faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

/// Finds the first candidate that can be started, as execvp(3) does, which continues after EACCES.
std::string search(std::string_view name, std::string_view search_path, int& error) {
  error = ENOENT;
  if (name.empty()) return {};
  if (name.find('/') != std::string_view::npos) {
    error = exec_error(std::string(name));
    return std::string(name);
  }
  std::string denied;
  for (std::string_view rest = search_path;;) {
    const std::string_view directory = rest.substr(0, rest.find(':'));
    std::string candidate = directory.empty() ? "." : std::string(directory);
    candidate.append("/").append(name);
    const int result = exec_error(candidate);
    if (result == 0) {
      error = 0;
      return candidate;
    }
    if (result == EACCES && denied.empty()) denied = candidate;
    if (directory.size() == rest.size()) break;
    rest.remove_prefix(directory.size() + 1);
  }
  if (!denied.empty()) error = EACCES;
  return denied;
}

/// Returns what env(1) in a script's first line starts: the first word that is neither an option
/// nor an assignment.
std::string program_of_env(const std::vector<std::string>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i].starts_with("-") || words[i].find('=') != std::string::npos) continue;
    return words[i];
  }
  return {};
}

Followable judge_rights(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return Followable::yes;
  const bool other_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid();
  const bool other_group =
      (status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && status.st_gid != getegid();
  if (other_user || other_group) return Followable::setuid;
  // For root, file capabilities change nothing, and the loader heeds LD_PRELOAD.
  const bool has_capabilities =
      getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  return has_capabilities ? Followable::capabilities : Followable::yes;
}

Followable judge_elf(const std::string& path, const ElfFacts& facts) {
  if (facts.is_go) return Followable::go_program;
  if (facts.loader.empty()) {
    // The dynamic loader itself has no loader, but heeds LD_PRELOAD when it is started directly.
    const bool is_loader = facts.is_shared && base_name(path).starts_with("ld-linux");
    return is_loader ? Followable::yes : Followable::static_program;
  }
  // glibc's loaders are called ld-linux*.so.* and, on a few machines, ld64.so.*.
  const std::string_view loader = base_name(facts.loader);
  const bool is_glibc = loader.starts_with("ld-linux") || loader.starts_with("ld64.so");
  return is_glibc ? judge_rights(path) : Followable::other_c_library;
}

Followable judge(const std::string& path, const ElfFacts& facts) {
  switch (facts.kind) {
    case ElfFacts::Kind::elf:
      return judge_elf(path, facts);
    case ElfFacts::Kind::foreign_elf:
      return Followable::other_class;
    case ElfFacts::Kind::unreadable:  // it may be executable nevertheless
      return judge_rights(path);
    case ElfFacts::Kind::other:
    case ElfFacts::Kind::script:
      break;
  }
  return Followable::unknown;
}

/// Returns the path of what a script's first line starts; what env(1) starts is looked up.
std::string interpreter_of(const std::string& line, std::string_view search_path, int& error) {
  const std::vector<std::string> words = words_of(line);
  if (words.empty()) return {};
  const std::string behind_env =
      base_name(words[0]) == "env" ? program_of_env(words) : std::string{};
  if (!behind_env.empty()) return search(behind_env, search_path, error);
  error = exec_error(words[0]);
  return words[0];
}

std::string shown(const Program& program) {
  if (program.interpreter.empty()) return program.path;
  return program.interpreter + ", which runs " + program.path + ",";
}

}  // namespace

Program inspect_program(std::string_view name, std::string_view search_path) {
  if (search_path.empty()) search_path = kDefaultSearchPath;
  Program program;
  program.path = search(name, search_path, program.error);
  if (program.error != 0) {
    const bool missing = program.error == ENOENT || program.error == ENOTDIR;
    program.followable = missing ? Followable::missing : Followable::not_executable;
    return program;
  }
  ElfFacts facts = read_elf_facts(program.path);
  for (int depth = 0; facts.kind == ElfFacts::Kind::script && depth < kMostInterpreters; ++depth) {
    int error = 0;
    program.interpreter = interpreter_of(facts.script_line, search_path, error);
    if (program.interpreter.empty() || error != 0) {
      program.followable = Followable::unknown;
      return program;
    }
    facts = read_elf_facts(program.interpreter);
  }
  program.followable = judge(program.runs(), facts);
  return program;
}

Program inspect_file(const std::string& path) {
  return inspect_program(path.find('/') == std::string::npos ? "./" + path : path, "");
}

std::string explanation(const Program& program) {
  const std::string subject = shown(program);
  switch (program.followable) {
    case Followable::yes:
      return {};
    case Followable::static_program:
      return subject + " is statically linked, so no loader can load Ioweave into it";
    case Followable::go_program:
      return subject + " is a Go program, which makes its system calls without the C library";
    case Followable::setuid:
      return subject + " is setuid or setgid: the loader ignores LD_PRELOAD";
    case Followable::capabilities:
      return subject + " has file capabilities: the loader ignores LD_PRELOAD";
    case Followable::other_class:
      return subject + " is built for another processor or word size than this Ioweave";
    case Followable::other_c_library:
      return subject + " uses another C library than glibc (musl?)";
    case Followable::not_executable:
      return program.path + " cannot be executed: " + std::strerror(program.error);
    case Followable::missing:
      return "the program does not exist";
    case Followable::unknown:
      return subject + " is neither an ELF program nor a script with a usable '#!' line";
  }
  return {};
}

std::string remedy(const Program& program) {
  switch (program.followable) {
    case Followable::static_program:
      return "reads in order need nothing, since they are prefetched anyway; for the rest, link it "
             "dynamically, or have its authors call the library (ioweave.h)";
    case Followable::setuid:
    case Followable::capabilities:
      return "run it as the user that it changes to, or ask the administrator for a copy without "
             "the extra rights";
    case Followable::other_class:
    case Followable::other_c_library:
      return "use a build of the program for this machine and glibc, or build Ioweave for it";
    case Followable::not_executable:
      return "check the file's permissions (chmod +x) and that its file system is not mounted "
             "noexec";
    case Followable::missing:
      return "check the name, or give a path with a slash";
    case Followable::go_program:
      return "the Go part needs nothing: its reads in order are prefetched anyway, and programs in "
             "C that it starts are observed";
    case Followable::yes:
    case Followable::unknown:
      break;
  }
  return {};
}

bool preload_would_disturb(Followable followable) noexcept {
  return followable == Followable::other_class || followable == Followable::other_c_library;
}

bool is_loadable_library(const std::string& path, std::string& why) {
  const ElfFacts facts = read_elf_facts(path);
  switch (facts.kind) {
    case ElfFacts::Kind::unreadable:
      why = std::strerror(errno);
      return false;
    case ElfFacts::Kind::foreign_elf:
      why = "it is built for another processor or word size";
      return false;
    case ElfFacts::Kind::other:
    case ElfFacts::Kind::script:
      why = "it is not a shared library";
      return false;
    case ElfFacts::Kind::elf:
      break;
  }
  if (!facts.is_shared) why = "it is not a shared library";
  return facts.is_shared;
}

}  // namespace ioweave::cli
