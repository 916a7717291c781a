// The libraries export the names of the table and no other: a name without a wrapper would be the C
// library's, one too many would take a program's own function from it.

#include <cstdio>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "calls/libc/wrapped_calls.hpp"

namespace ioweave::calls {
namespace {

#define IOWEAVE_TEXT(name, ...) #name,

/// What the dynamic symbol table of a built library defines.
std::set<std::string> read_exports(const std::string& library) {
  std::set<std::string> names;
  FILE* const symbols = popen((IOWEAVE_NM " -D -P --defined-only " + library).c_str(), "r");
  char name[256];
  while (symbols != nullptr && fscanf(symbols, "%255s%*[^\n]", name) == 1) {
    names.insert(name);
  }
  EXPECT_TRUE(symbols != nullptr && pclose(symbols) == 0) << IOWEAVE_NM " " << library;
  return names;
}

TEST(Exports, OfTheInterposerAreTheWrappedNames) {
  std::set<std::string> wrapped{IOWEAVE_WRAPPED_CALLS(IOWEAVE_TEXT, IOWEAVE_TEXT, IOWEAVE_TEXT)};
#if !defined(__x86_64__)
  wrapped.erase("syscall");
#endif
  EXPECT_EQ(read_exports(IOWEAVE_PRELOAD_LIBRARY), wrapped);
}

TEST(Exports, TheInterposerThatHoldsWritesExportsAll) {
  std::set<std::string> wrapped{IOWEAVE_ALL_CALLS(IOWEAVE_TEXT, IOWEAVE_TEXT, IOWEAVE_TEXT)};
#if !defined(__x86_64__)
  wrapped.erase("syscall");
#endif
  EXPECT_EQ(read_exports(IOWEAVE_PRELOAD_BEHIND_LIBRARY), wrapped);
}

TEST(Exports, OfTheTaskLibraryAreTheTaskCalls) {
  const std::set<std::string> wrapped{IOWEAVE_TASK_CALLS(IOWEAVE_TEXT, IOWEAVE_TEXT, IOWEAVE_TEXT)};
  EXPECT_EQ(read_exports(IOWEAVE_TASKS_LIBRARY), wrapped);
}

}  // namespace
}  // namespace ioweave::calls
