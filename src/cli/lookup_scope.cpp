#include "cli/lookup_scope.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "cli/program.hpp"

namespace ioweave::cli {
namespace {

constexpr size_t kMostFiles = 4096;
constexpr std::array kSystemFolders{"/lib64", "/usr/lib64", "/lib", "/usr/lib"};

std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  for (size_t at = 0; !text.empty() && at <= text.size();) {
    const size_t end = std::min(text.find_first_of(separators, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// The folder of a file, behind all links.
std::string folder_of(const std::string& path) {
  std::array<char, PATH_MAX> real{};
  const std::string found = realpath(path.c_str(), real.data()) != nullptr ? real.data() : path;
  const size_t slash = found.rfind('/');
  return slash == std::string::npos ? "." : found.substr(0, slash);
}

bool is_loadable(const std::string& path) {
  const ElfFacts facts = read_elf_facts(path);
  return facts.kind == ElfFacts::Kind::elf && facts.is_shared;
}

/// What ldconfig(8) has found: names and paths, a name maybe several times.
std::vector<std::pair<std::string, std::string>> read_cache(const std::string& file) {
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
  constexpr size_t kHeadBytes = 48;
  constexpr size_t kEntryBytes = 24;  // flags, name, path, version: 4 bytes each; hwcap: 8
  std::ifstream stream(file, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(stream), {}};
  std::vector<std::pair<std::string, std::string>> found;
  const size_t begin = all.find(kMagic);  // behind a cache of the older kind, where there is one
  if (begin == std::string::npos) return found;
  const std::string_view cache = std::string_view(all).substr(begin);
  const auto number = [&](size_t at) {
    uint32_t value = UINT32_MAX;
    if (at + sizeof value <= cache.size()) std::memcpy(&value, cache.data() + at, sizeof value);
    return value;
  };
  const auto text = [&](size_t at) {
    const std::string_view rest = at < cache.size() ? cache.substr(at) : std::string_view{};
    return std::string(rest.substr(0, rest.find('\0')));
  };
  const size_t entries = std::min<size_t>(number(kMagic.size()), cache.size() / kEntryBytes);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = kHeadBytes + i * kEntryBytes;
    found.emplace_back(text(number(entry + 4)), text(number(entry + 8)));
  }
  return found;
}

class Loader {
 public:
  Loader(const std::string& program, const LoaderVariables& variables, Imports imports)
      : imports_(imports),
        library_path_(split(variables.library_path, ":;")),
        cache_(read_cache(variables.cache)) {
    scope_.push_back({program, program, read_elf_dynamic(program, imports_), 0});
  }

  /// Adds what the file at `by` asks for, unless it is there.
  void load(const std::string& name, size_t by) {
    const auto is_it = [&](const LoadedFile& file) {
      return file.name == name || file.dynamic.soname == name;
    };
    if (name.empty() || std::ranges::any_of(scope_, is_it) || scope_.size() >= kMostFiles) return;
    LoadedFile file{name, find(name, by), {}, by};
    if (!file.path.empty()) file.dynamic = read_elf_dynamic(file.path, imports_);
    scope_.push_back(std::move(file));
  }

  /// The needs of all, breadth first: the loader's order.
  std::vector<LoadedFile> take_all() {
    for (size_t i = 0; i < scope_.size(); ++i) {
      const std::vector<std::string> needed = scope_[i].dynamic.needed;  // the scope grows
      for (const std::string& name : needed) load(name, i);
    }
    return std::move(scope_);
  }

 private:
  /// See "Rpath token expansion" and the order of searching in ld.so(8).
  [[nodiscard]] std::string find(const std::string& name, size_t by) const {
    if (name.find('/') != std::string::npos) return is_loadable(name) ? name : std::string{};
    std::vector<std::string> folders;
    if (scope_[by].dynamic.runpath.empty()) {
      for (size_t file = by;; file = scope_[file].loaded_by) {
        if (scope_[file].dynamic.runpath.empty()) add(scope_[file].dynamic.rpath, file, folders);
        if (file == 0) break;
      }
    }
    folders.insert(folders.end(), library_path_.begin(), library_path_.end());
    add(scope_[by].dynamic.runpath, by, folders);
    if (std::string found = in(folders, name); !found.empty()) return found;
    for (const auto& [cached, path] : cache_) {
      if (cached == name && is_loadable(path)) return path;
    }
    return in({kSystemFolders.begin(), kSystemFolders.end()}, name);
  }

  static std::string in(const std::vector<std::string>& folders, const std::string& name) {
    for (const std::string& folder : folders) {
      std::string path = (folder.empty() ? "." : folder) + "/" + name;
      if (is_loadable(path)) return path;
    }
    return {};
  }

  void add(const std::string& run_path, size_t file, std::vector<std::string>& folders) const {
    for (std::string& folder : split(run_path, ":")) {
      if (folder.find('$') != std::string::npos) {
        const std::string origin = folder_of(scope_[file].path);
        replace_all(folder, "$ORIGIN", origin);
        replace_all(folder, "${ORIGIN}", origin);
      }
      folders.push_back(std::move(folder));
    }
  }

  std::vector<LoadedFile> scope_;
  const Imports imports_;
  const std::vector<std::string> library_path_;
  const std::vector<std::pair<std::string, std::string>> cache_;
};

}  // namespace

LoaderVariables LoaderVariables::of_this_process() {
  LoaderVariables variables;
  if (const char* const value = std::getenv("LD_PRELOAD")) variables.preload = value;
  if (const char* const value = std::getenv("LD_LIBRARY_PATH")) variables.library_path = value;
  return variables;
}

std::vector<LoadedFile> lookup_scope(const std::string& program, const LoaderVariables& variables,
                                     Imports imports) {
  Loader loader(program, variables, imports);
  for (const std::string& name : split(variables.preload, ": ")) loader.load(name, 0);
  return loader.take_all();
}

std::optional<std::vector<LoadedFile>> scope_of_program(const std::string& path) {
  const Program program = inspect_file(path);
  if (program.followable != Followable::yes) return {};
  return lookup_scope(program.runs(), LoaderVariables::of_this_process());
}

bool LoadedFile::imports(std::string_view symbol) const noexcept {
  return std::ranges::find(dynamic.imports, symbol) != dynamic.imports.end();
}

bool LoadedFile::is_c_library_or_ours() const noexcept {
  constexpr std::array<std::string_view, 7> kNames{
      "libc.so", "libm.so", "libpthread.so", "librt.so", "libdl.so", "ld-linux", "libioweave"};
  return std::ranges::any_of(kNames,
                             [this](std::string_view begin) { return base().starts_with(begin); });
}

}  // namespace ioweave::cli
