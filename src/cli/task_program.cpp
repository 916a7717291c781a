#include "cli/task_program.hpp"

#include <algorithm>

#include "cli/format.hpp"

namespace ioweave::cli {
namespace {

using engine::Finding;
using engine::Usable;

enum class Kind : uint8_t { nosv, alpi, tbb, openmp };

struct Runtime {
  std::string_view library;  ///< the beginning of its file name
  std::string_view name;
  Kind kind;
};

constexpr std::array kRuntimes{
    Runtime{"libnosv.so", "nOS-V", Kind::nosv},    Runtime{"libnodes", "NODES", Kind::alpi},
    Runtime{"libnanos6", "Nanos6", Kind::alpi},    Runtime{"libtbb.so", "oneTBB", Kind::tbb},
    Runtime{"libgomp.so", "OpenMP", Kind::openmp}, Runtime{"libomp.so", "OpenMP", Kind::openmp},
    Runtime{"libiomp5.so", "OpenMP", Kind::openmp}};

constexpr std::string_view kTasksLibrary = "libioweave_tasks.so";
constexpr size_t kMostCallers = 4;  ///< that are named

const Runtime* runtime_of(const LoadedFile& file) {
  const auto found = std::ranges::find_if(
      kRuntimes, [&](const Runtime& runtime) { return file.base().starts_with(runtime.library); });
  return found != kRuntimes.end() ? &*found : nullptr;
}

/// Collects the parts of a finding.
class Judgement {
 public:
  explicit Judgement(const std::vector<LoadedFile>& scope)
      : scope_(scope), libc_(first("libc.so")), nosv_(first("libnosv.so")) {
    for (const LoadedFile& file : scope_) {
      const Runtime* const runtime = &file != &scope_.front() ? runtime_of(file) : nullptr;
      if (runtime != nullptr) found_.push_back({&file, runtime});
    }
  }

  Finding finding(const std::string& path) {
    Finding finding;
    finding.subject = std::string(kTasksOf) + path;
    if (found_.empty()) {
      finding.usable = Usable::no;
      finding.cause = "no task runtime is among the " + std::to_string(scope_.size() - 1) +
                      " libraries that the loader would load; a runtime that the program opens "
                      "itself is not seen here";
      return finding;
    }
    name_runtimes();
    if (nosv_ != 0) {
      judge_order();
      judge_init();
    }
    judge_tasks_library();
    name_calls();
    finding.usable = cause_.empty() ? Usable::yes : Usable::degraded;
    finding.detail = std::move(detail_);
    finding.cause = std::move(cause_);
    finding.remedy = std::move(remedy_);
    return finding;
  }

 private:
  struct Found {
    const LoadedFile* file;
    const Runtime* runtime;
  };

  /// Returns the index of the first library whose name begins like this, or 0, the program.
  [[nodiscard]] size_t first(std::string_view name) const {
    for (size_t i = 1; i < scope_.size(); ++i) {
      if (scope_[i].base().starts_with(name)) return i;
    }
    return 0;
  }
  [[nodiscard]] bool has(Kind kind) const {
    return std::ranges::any_of(found_,
                               [=](const Found& found) { return found.runtime->kind == kind; });
  }
  [[nodiscard]] std::string name(size_t index) const {
    return index == 0 ? "the program" : std::string(scope_[index].base());
  }
  void fault(std::string_view cause, std::string_view remedy) {
    add_sentence(cause_, cause);
    add_sentence(remedy_, remedy);
  }

  void name_runtimes() {
    std::string list;
    for (const auto& [file, runtime] : found_) {
      list.append(list.empty() ? "" : ", ").append(runtime->name).append(" (");
      list.append(file->base()).append(")");
      if (file->path.empty()) {
        fault("the loader would not find " + std::string(file->base()),
              "set LD_LIBRARY_PATH to its folder");
      }
    }
    add_sentence(detail_, "runtime: " + list);
  }

  /// nOS-V replaces calls of the C library, and ends the program if it does not come first.
  void judge_order() {
    if (libc_ == 0 || nosv_ < libc_) {
      add_sentence(detail_, name(nosv_) + " stands before the C library, as it must");
      return;
    }
    const std::string& path = scope_[nosv_].path;
    fault(name(nosv_) + " stands behind " + name(libc_) +
              " in the order of symbol lookup: nOS-V ends the program when it is initialised",
          "preload it (LD_PRELOAD=" + (path.empty() ? name(nosv_) : path) +
              "), or link the program with -Wl,--no-as-needed -lnosv before other libraries: "
              "--as-needed drops it where the program itself calls nothing of nOS-V");
  }

  void judge_init() {
    for (size_t i = 0; i < scope_.size(); ++i) {
      const bool calls = scope_[i].imports("nosv_init");
      const Runtime* const runtime = i != 0 ? runtime_of(scope_[i]) : nullptr;
      // NODES calls it, which holds also if its file was not found.
      if (i != nosv_ && (calls || (runtime != nullptr && runtime->name == "NODES"))) {
        add_sentence(detail_, name(i) + " calls nosv_init()");
        return;
      }
    }
    const auto& needed = scope_.front().dynamic.needed;
    if (std::ranges::find(needed, scope_[nosv_].name) == needed.end()) {
      add_sentence(detail_,
                   "the program does not import nosv_init(), which it must call: it must look it "
                   "up with dlsym()");
      return;
    }
    fault("nothing in it calls nosv_init(), and nOS-V runs no task before that call",
          "its authors: call nosv_init() first, and nosv_shutdown() last on the same thread "
          "(nothing to do if they look it up with dlsym())");
  }

  /// Checks the place of the library in a program that is linked to it.
  void judge_tasks_library() {
    const size_t tasks = first(kTasksLibrary);
    if (tasks != 0 && libc_ != 0 && tasks > libc_) {
      fault(name(tasks) + " stands behind " + name(libc_) + ", so it takes no call over",
            "preload it, or link the program with -lioweave_tasks before -lc");
    }
  }

  void name_calls() {
    if (!has(Kind::nosv) && !has(Kind::alpi) && !has(Kind::tbb)) {
      add_sentence(detail_,
                   "its tasks cannot be paused, so libioweave_tasks.so does nothing for it "
                   "(iow_omp_begin() does)");
      return;
    }
    std::string callers;
    size_t count = 0;
    for (size_t i = 0; i < scope_.size(); ++i) {
      const std::string calls = i == 0 || !is_known(scope_[i]) ? calls_of(scope_[i]) : "";
      if (calls.empty() || ++count > kMostCallers) continue;
      callers.append(callers.empty() ? "" : ", and ").append(calls).append(" of ").append(name(i));
    }
    if (count > kMostCallers) {
      callers.append(", and calls of ").append(std::to_string(count - kMostCallers));
      callers.append(" more libraries");
    }
    const bool asks = !has(Kind::nosv) && !has(Kind::alpi);
    const std::string who =
        std::string(kTasksLibrary) + (asks ? " with IOWEAVE_TASKS=tbb" : "") + " ";
    add_sentence(detail_, callers.empty()
                              ? who +
                                    "would find nothing to take over: nothing here calls pread, "
                                    "pwrite, preadv, pwritev, fsync or fdatasync"
                              : who + "would take over " + callers);
  }

  /// Returns true for files whose calls are not those of tasks: the C library and its loader, task
  /// runtimes, and our own libraries.
  static bool is_known(const LoadedFile& file) {
    return runtime_of(file) != nullptr || file.is_c_library_or_ours();
  }
  static std::string calls_of(const LoadedFile& file) {
    std::string calls;
    for (const std::string_view call : kTaskCalls) {
      if (file.imports(call)) calls.append(calls.empty() ? "" : ", ").append(call);
    }
    return calls;
  }

  const std::vector<LoadedFile>& scope_;
  const size_t libc_;
  const size_t nosv_;
  std::vector<Found> found_;
  std::string detail_;
  std::string cause_;
  std::string remedy_;
};

}  // namespace

Finding judge_tasks(const std::string& path, const std::vector<LoadedFile>& scope) {
  return Judgement(scope).finding(path);
}

}  // namespace ioweave::cli
