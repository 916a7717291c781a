#include "cli/doctor.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/elf_file.hpp"
#include "cli/format.hpp"
#include "cli/io_calls.hpp"
#include "cli/launch.hpp"
#include "cli/locations.hpp"
#include "cli/program.hpp"
#include "cli/raw_calls.hpp"
#include "cli/run_directory.hpp"
#include "cli/task_program.hpp"

namespace ioweave::cli {
namespace {

using engine::Finding;
using engine::Usable;

constexpr const char* kInterposer = "interposer";
constexpr const char* kMpiio = "MPI-IO";
constexpr std::array<std::string_view, 3> kUsableNames{"ok", "degraded", "unusable"};
constexpr size_t kWidth = 100;

bool starts_with_any(std::string_view subject, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words,
                             [&](std::string_view word) { return subject.starts_with(word); });
}

/// Returns true for engines and modes that only some machines have and that are used only on
/// demand, and for MPI-IO and tasks, which few programs have.
bool is_optional(const Finding& finding) {
  return starts_with_any(finding.subject, {"io_uring+", "aio", kMpiio}) ||
         (finding.subject.starts_with(kTasksOf) && finding.usable == Usable::no);
}

/// Returns true if something else does the same work: without io_uring the threads engine, without
/// O_DIRECT the page cache.
bool has_substitute(const Finding& finding) {
  return starts_with_any(finding.subject,
                         {"io_uring", "O_DIRECT", "registered buffers", "page-cache prefetch"});
}

Finding failed(std::string cause, std::string remedy, int error = 0) {
  return {kInterposer, Usable::no, error, {}, std::move(cause), std::move(remedy)};
}

/// Runs this command, which is a harmless dynamic program, with the library in LD_PRELOAD.
LaunchResult run_a_trivial_program(const std::string& library, const RunDirectory& directory) {
  LaunchRequest request;
  // By a shell, which discards its output; the path is an argument and needs no quotes.
  request.command = {"/bin/sh", "-c", "exec \"$0\" --version >/dev/null 2>&1", own_executable()};
  request.added = {"LD_PRELOAD=" + library,
                   std::string(config::kRunDirVariable) + "=" + directory.path()};
  LaunchResult result = launch(request);
  release_signals();
  return result;
}

Finding judge_trial(const LaunchResult& result, const stats::RunReport& report,
                    const std::string& library) {
  if (!result.started || result.outcome.exit_code != 0) {
    return failed("a trivial program fails with " + library + " in LD_PRELOAD (exit " +
                      std::to_string(result.outcome.exit_code) + ")",
                  "run LD_DEBUG=libs LD_PRELOAD=" + library + " /bin/true and report its output",
                  result.error);
  }
  for (const stats::ProcessReport& process : report.processes) {
    if (process.active) return {kInterposer, Usable::yes, 0, library, {}, {}};
  }
  if (!report.processes.empty()) {
    return failed("it does nothing: " + report.processes.front().why,
                  "use a library and a command from the same build");
  }
  return failed("the dynamic loader does not load " + library,
                "check that the file and its folder are readable, and that their file system is "
                "not mounted noexec");
}

/// Returns the mark of a finding, in agreement with verdict().
std::string choose_mark(const Finding& finding) {
  if (finding.usable != Usable::yes && is_optional(finding)) return "not here";
  const bool is_lesser = finding.usable == Usable::no && has_substitute(finding);
  return std::string(
      kUsableNames[static_cast<size_t>(is_lesser ? Usable::degraded : finding.usable)]);
}

std::string labelled(const char* label, const std::string& text) {
  constexpr size_t kIndent = 12;
  if (text.empty()) return {};
  std::string start = "    " + std::string(label);
  start.resize(kIndent, ' ');
  return start + wrapped(text, kWidth, kIndent) + "\n";
}

bool makes_its_own_calls(Followable followable) {
  return followable == Followable::static_program || followable == Followable::go_program;
}

/// Returns a finding for a bare name that is no file here, but a program in PATH.
std::optional<Finding> found_in_path(const std::string& path) {
  struct stat status {};
  if (path.find('/') != std::string::npos || lstat(path.c_str(), &status) == 0) return {};
  const char* const search_path = std::getenv("PATH");
  const Program program = inspect_program(path, search_path != nullptr ? search_path : "");
  if (program.error != 0) return {};
  return Finding{path,
                 Usable::no,
                 ENOENT,
                 {},
                 "there is no such file or directory here, but there is a program of this name in "
                 "PATH",
                 "ioweave doctor " + shown_command({program.path}, kWidth)};
}

/// Returns a finding for a program without the permission to execute it. Its file system is probed
/// nevertheless.
std::optional<Finding> not_yet_executable(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (!read_elf_facts(path).is_program) return {};
  return Finding{"program " + path,
                 Usable::no,
                 EACCES,
                 {},
                 "an ELF program that is not executable",
                 "chmod +x " + shown_command({path}, kWidth)};
}

}  // namespace

std::vector<Finding> examine_interposer() {
  std::string why;
  const std::string library = locate(Location::preload, why);
  if (library.empty()) return {failed(why, "ask whoever installed Ioweave")};
  const std::unique_ptr<RunDirectory> directory = RunDirectory::create(why);
  if (!directory) {
    return {failed("there is no place for a run's directory: " + why,
                   "you: set XDG_RUNTIME_DIR or TMPDIR to a writable folder with free space")};
  }
  const std::string entry = directory->preload_entry(library);
  const int error = directory->write_config(config::RunConfig{});
  if (error != 0 || entry.empty()) {
    return {failed(directory->path() + ": " + std::strerror(-error),
                   "you: free some space there, or set TMPDIR", -error)};
  }
  const LaunchResult result = run_a_trivial_program(entry, *directory);
  stats::RunGatherer gatherer;
  stats::RunReport report;
  directory->gather(gatherer, true, report.remarks);
  std::move(gatherer).finish(report);
  return {judge_trial(result, report, library)};
}

Finding examine_mpiio() {
  struct Known {
    Location location;
    const char* mpi;
  };
  Finding finding{kMpiio, Usable::no, 0, {}, {}, {}};
  for (const auto& [location, mpi] :
       {Known{Location::mpiio_openmpi, "Open MPI: "}, Known{Location::mpiio_mpich, "MPICH: "}}) {
    std::string why;
    const std::string library = locate(location, why);
    if (!library.empty()) finding.usable = Usable::yes;
    finding.detail += (finding.detail.empty() ? "" : "; ") + std::string(mpi) +
                      (library.empty() ? "not built" : library);
  }
  if (finding.usable == Usable::no) {
    finding.cause = "no MPI's headers were found when Ioweave was built";
    finding.remedy = "where an MPI's headers are installed, build and install Ioweave again";
  }
  return finding;
}

bool is_program(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  if ((status.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH)) == 0) return false;
  const ElfFacts::Kind kind = read_elf_facts(path).kind;
  return kind != ElfFacts::Kind::other;
}

Finding examine_program(const std::string& path) {
  const Program program = inspect_file(path);
  Finding finding;
  finding.subject = "program " + path;
  finding.error = program.error;
  if (program.followable == Followable::yes) {
    finding.detail = program.interpreter.empty() ? "it can be observed"
                                                 : "it can be observed, in " + program.interpreter;
    return finding;
  }
  // The prefetcher follows what they read in order from outside.
  finding.usable = makes_its_own_calls(program.followable) ? Usable::degraded : Usable::no;
  finding.cause = explanation(program);
  finding.remedy = remedy(program);
  return finding;
}

std::vector<Finding> examine_path(const std::string& path) {
  if (is_program(path)) {
    std::vector<Finding> findings{examine_program(path)};
    std::optional<std::vector<LoadedFile>> scope = scope_of_program(path);
    if (!scope) {
      if (const Program program = inspect_file(path); makes_its_own_calls(program.followable)) {
        const LoadedFile alone{program.runs(), program.runs(), {}, 0, raw_calls_of(program.runs())};
        findings.push_back(judge_calls(path, {alone}, {}));
      }
      return findings;
    }
    for (LoadedFile& file : *scope) {
      if (!file.is_c_library_or_ours()) file.raw_calls = raw_calls_of(file.path);
    }
    std::string why;
    const std::string library = locate(Location::preload, why);
    if (!library.empty()) {
      findings.push_back(judge_calls(path, *scope, read_elf_exports(library)));
    }
    findings.push_back(judge_tasks(path, *scope));
    return findings;
  }
  std::optional<Finding> elsewhere = found_in_path(path);
  std::vector<Finding> findings = engine::probe(elsewhere ? "" : path);
  if (elsewhere) findings.push_back(std::move(*elsewhere));
  if (std::optional<Finding> finding = not_yet_executable(path)) {
    findings.push_back(std::move(*finding));
  }
  return findings;
}

int verdict(const std::vector<Finding>& findings) {
  int worst = 0;
  for (const Finding& finding : findings) {
    if (finding.usable == Usable::yes || is_optional(finding)) continue;
    const bool unusable = finding.usable == Usable::no && !has_substitute(finding);
    worst = std::max(worst, unusable ? 2 : 1);
  }
  return worst;
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    std::string state = choose_mark(finding);
    state.resize(10, ' ');
    text += state + shown_name(finding.subject, kWidth - 10) + "\n";
    text += labelled("detail", finding.detail);
    text += labelled("cause", finding.cause);
    text += labelled("remedy", finding.remedy);
  }
  constexpr std::array<const char*, 3> kVerdicts{
      "All is well.\n", "Ioweave works here, but some things are missing: see above.\n",
      "Something that you asked about cannot be used: see above.\n"};
  return text + kVerdicts[static_cast<size_t>(verdict(findings))];
}

}  // namespace ioweave::cli
