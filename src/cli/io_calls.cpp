#include "cli/io_calls.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/format.hpp"

namespace ioweave::cli {
namespace {

using engine::Finding;
using engine::Usable;

constexpr size_t kMostNames = 8;  ///< that are shown of one kind

/// Interfaces for I/O that the interposer does not replace.
struct Interface {
  std::string_view name;  ///< for people
  std::array<std::string_view, 8> begins;
  bool is_followed;  ///< from outside, by the position of the file
};

// io_uring's transfers are inline functions of liburing, so its queue gives it away.
constexpr std::array kInterfaces{
    Interface{"the C library's streams",
              {"fopen", "freopen", "fread", "fgets", "getline", "getdelim", "fscanf", "fwrite"},
              true},
    Interface{"POSIX aio", {"aio_read", "aio_write", "lio_listio"}, false},
    Interface{"native AIO", {"io_submit"}, false},
    Interface{"io_uring", {"io_uring_queue_init", "io_uring_submit", "io_uring_enter"}, false},
    Interface{"vmsplice", {"vmsplice"}, false}};

/// Calls that move bytes of a file, as far as the interposer replaces them.
constexpr auto kTransfers = std::to_array<std::string_view>(
    {"read",        "__read_chk",    "readv",      "pread",   "pread64",        "__pread_chk",
     "preadv",      "__pread64_chk", "preadv64",   "preadv2", "preadv64v2",     "write",
     "writev",      "pwrite",        "pwrite64",   "pwritev", "pwritev64",      "pwritev2",
     "pwritev64v2", "sendfile",      "sendfile64", "splice",  "copy_file_range"});

bool imports_of(const LoadedFile& file, const Interface& interface) {
  return std::ranges::any_of(file.dynamic.imports, [&](const std::string& symbol) {
    return std::ranges::any_of(interface.begins, [&](std::string_view begin) {
      return !begin.empty() && symbol.starts_with(begin);
    });
  });
}

void add_name(std::vector<std::string>& names, std::string_view name) {
  if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMostNames) {
    text += " and " + std::to_string(names.size() - kMostNames) + " more";
  }
  return text;
}

/// Calls, and the files that make them.
struct CallsOfFiles {
  std::vector<std::string> calls;
  std::vector<std::string> files;

  void add(std::string_view call, const LoadedFile& file) {
    add_name(calls, call);
    add_name(files, file.base());
  }
  /// A sentence: `is` what the calls are, and `how` they are made. Nothing where there are none.
  [[nodiscard]] std::string text(const std::string& is, const std::string& how = {}) {
    if (calls.empty()) return {};
    std::ranges::sort(calls);
    return is + ": " + listed(calls) + how + ", in " + listed(files);
  }
};

/// Which transfers of which files are observed, in a sentence; nothing where there are none.
std::string observed_calls(const std::vector<LoadedFile>& scope,
                           std::span<const std::string> observed) {
  CallsOfFiles found;
  for (const LoadedFile& file : scope) {
    if (file.is_c_library_or_ours()) continue;
    for (const std::string& symbol : file.dynamic.imports) {
      if (std::ranges::find(kTransfers, symbol) == kTransfers.end()) continue;
      if (std::ranges::find(observed, symbol) == observed.end()) continue;
      found.add(symbol, file);
    }
  }
  return found.text("observed");
}

/// Which calls are made past the C library, and by which files; nothing where there are none.
std::string raw_calls(const std::vector<LoadedFile>& scope) {
  CallsOfFiles found;
  for (const LoadedFile& file : scope) {
    if (file.is_c_library_or_ours()) continue;
    for (const std::string& call : file.raw_calls) found.add(call, file);
  }
  return found.text("not observed", ", by instructions of its own");
}

std::vector<std::string> files_with(const std::vector<LoadedFile>& scope,
                                    const Interface& interface) {
  std::vector<std::string> files;
  for (const LoadedFile& file : scope) {
    if (!file.is_c_library_or_ours() && imports_of(file, interface)) add_name(files, file.base());
  }
  return files;
}

}  // namespace

Finding judge_calls(const std::string& path, const std::vector<LoadedFile>& scope,
                    std::span<const std::string> observed) {
  Finding finding;
  finding.subject = "calls of " + path;
  finding.detail = observed_calls(scope, observed);
  for (const Interface& interface : kInterfaces) {
    const std::vector<std::string> files = files_with(scope, interface);
    if (files.empty()) continue;
    const std::string text = std::string(interface.name) + ", in " + listed(files);
    if (interface.is_followed) {
      add_sentence(finding.detail, "followed from outside: " + text);
    } else {
      add_sentence(finding.cause, "not observed: " + text);
    }
  }
  add_sentence(finding.cause, raw_calls(scope));
  if (!scope.empty() && scope.front().imports("syscall")) {
    add_sentence(finding.detail,
                 "the program calls syscall(2): which calls it makes by it cannot "
                 "be told, and none of them is observed");
  }
  if (finding.detail.empty() && finding.cause.empty()) finding.detail = "no I/O on files was found";
  if (!finding.cause.empty()) {
    finding.usable = Usable::degraded;
    finding.remedy =
        "nothing to mend: they work as without Ioweave, and their reads in order through the page "
        "cache are prefetched all the same; the rest is made no faster";
  }
  return finding;
}

}  // namespace ioweave::cli
