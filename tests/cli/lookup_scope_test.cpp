#include "cli/lookup_scope.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stats/text_file.hpp"

namespace ioweave::cli {
namespace {

using test::TempDir;
using test::write_text;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> names(const std::vector<LoadedFile>& scope) {
  std::vector<std::string> names;
  for (const LoadedFile& file : scope) names.emplace_back(file.base());
  return names;
}

/// A cache of ldconfig(8) with one library.
std::string cache_of(const std::string& name, const std::string& path) {
  const auto number = [](size_t value) {
    const auto narrow = static_cast<uint32_t>(value);
    return std::string(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  };
  constexpr size_t kStrings = 48 + 24;
  const std::string strings = name + '\0' + path + '\0';
  return "glibc-ld.so.cache1.1" + number(1) + number(strings.size()) + std::string(20, '\0') +
         number(3) + number(kStrings) + number(kStrings + name.size() + 1) + std::string(12, '\0') +
         strings;
}

TEST(LookupScope, IsBreadthFirstWithWhatIsPreloadedInFront) {
  const auto scope = lookup_scope(IOWEAVE_TASK_NODES, {.preload = IOWEAVE_OTHER_PRELOAD});
  const std::vector<std::string> found = names(scope);
  ASSERT_GE(found.size(), 5u);
  EXPECT_THAT(found[0], EndsWith("cli_task_nodes"));
  EXPECT_THAT(found[1], EndsWith("other_preload.so"));
  EXPECT_EQ(found[2], "libnodes.so.0");
  const auto at = [&](const char* name) {
    return std::find_if(found.begin(), found.end(),
                        [=](const std::string& each) { return each.starts_with(name); });
  };
  EXPECT_LT(at("libc.so"), at("libnosv.so"));  // the program's needs before those of its needs
  EXPECT_NE(at("libnosv.so"), found.end());
  EXPECT_EQ(std::count(found.begin(), found.end(), *at("libc.so")), 1);
  for (const LoadedFile& file : scope) EXPECT_THAT(file.path, Not(IsEmpty())) << file.name;
}

std::string path_of_nosv(const std::string& program, const LoaderVariables& variables) {
  for (const LoadedFile& file : lookup_scope(program, variables)) {
    if (file.base() == "libnosv.so.0") return file.path;
  }
  return {};
}

TEST(LookupScope, TheFoldersOfTheEnvironmentComeBeforeTheRunpath) {
  const TempDir folder;
  const std::string copy = folder.file("libnosv.so.0");
  std::filesystem::copy_file(IOWEAVE_FAKE_NOSV, copy);
  EXPECT_THAT(path_of_nosv(IOWEAVE_TASK_NOSV, {}), Not(StartsWith(folder.path())));
  EXPECT_EQ(path_of_nosv(IOWEAVE_TASK_NOSV, {.library_path = "/nonexistent:" + folder.path()}),
            copy);
}

TEST(LookupScope, TheOriginIsTheFolderOfTheProgramBehindLinks) {
  const TempDir folder;
  const TempDir elsewhere;
  const std::string program = folder.file("program");
  std::filesystem::copy_file(IOWEAVE_TASK_NOSV, program);
  std::filesystem::create_directory(folder.file("runtimes"));
  std::filesystem::copy_file(IOWEAVE_FAKE_NOSV, folder.file("runtimes/libnosv.so.0"));
  std::filesystem::create_symlink(program, elsewhere.file("link"));
  const ElfDynamic dynamic = read_elf_dynamic(program);
  ASSERT_THAT(dynamic.rpath + dynamic.runpath, HasSubstr("$ORIGIN"));
  EXPECT_THAT(path_of_nosv(elsewhere.file("link"), {}),
              EndsWith(folder.file("runtimes/libnosv.so.0")));
}

TEST(LookupScope, WhatOnlyTheCacheKnowsIsFound) {
  const TempDir folder;
  const std::string cache =
      write_text(folder, "cache", cache_of("libother.so.7", IOWEAVE_OTHER_PRELOAD));
  const auto scope =
      lookup_scope(IOWEAVE_STATIC_PROGRAM, {.preload = "libother.so.7", .cache = cache});
  ASSERT_GE(scope.size(), 2u);
  EXPECT_EQ(scope[1].path, IOWEAVE_OTHER_PRELOAD);
}

TEST(LookupScope, WhatIsNotFoundHasNoPath) {
  const TempDir folder;
  const std::string text = write_text(folder, "libtext.so", "no library");
  const auto scope = lookup_scope(IOWEAVE_STATIC_PROGRAM, {.preload = "libnowhere.so " + text});
  ASSERT_EQ(scope.size(), 3u);
  EXPECT_THAT(scope[1].path, IsEmpty());
  EXPECT_THAT(scope[2].path, IsEmpty());
}

TEST(LookupScope, ADamagedCacheIsNoCrash) {
  const TempDir folder;
  const std::string whole = cache_of("libother.so.7", IOWEAVE_OTHER_PRELOAD);
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::string cache = write_text(folder, "cache", whole.substr(0, length));
    (void)lookup_scope(IOWEAVE_STATIC_PROGRAM, {.preload = "libother.so.7", .cache = cache});
  }
  std::string wild = whole;
  for (size_t at = 20; at < 72; ++at) wild[at] = '\xff';
  const std::string cache = write_text(folder, "cache", wild);
  (void)lookup_scope(IOWEAVE_STATIC_PROGRAM, {.preload = "libother.so.7", .cache = cache});
}

TEST(ElfDynamic, ImportsAndNeedsAreThoseOfTheFile) {
  const ElfDynamic program = read_elf_dynamic(IOWEAVE_TASK_NOSV);
  EXPECT_THAT(program.imports, Contains("nosv_init"));
  EXPECT_THAT(program.imports, Contains("pread"));
  EXPECT_THAT(program.imports, Not(Contains("main")));
  EXPECT_THAT(program.needed, ElementsAre("libnosv.so.0", StartsWith("libc.so")));
  const ElfDynamic library = read_elf_dynamic(IOWEAVE_FAKE_NOSV);
  EXPECT_EQ(library.soname, "libnosv.so.0");
  EXPECT_THAT(library.imports, Not(Contains("nosv_init")));
}

TEST(ElfDynamic, DamagedFilesAreNeverACrash) {
  const TempDir folder;
  const std::string whole = test::read_text(IOWEAVE_TASK_NOSV);
  for (size_t length = 0; length < whole.size(); length += 509) {
    (void)read_elf_dynamic(write_text(folder, "cut", whole.substr(0, length)));
  }
  uint32_t seed = 1;
  const auto random = [&] { return seed = seed * 1664525 + 1013904223, seed >> 8; };
  for (int round = 0; round < 300; ++round) {
    std::string wild = whole;
    for (int i = 0; i < 40; ++i) wild[64 + random() % (wild.size() - 64)] = '\xff';
    for (int i = 0; i < 4; ++i) wild[64 + random() % 700] = static_cast<char>(random());
    (void)read_elf_dynamic(write_text(folder, "wild", wild));
  }
}

}  // namespace
}  // namespace ioweave::cli
