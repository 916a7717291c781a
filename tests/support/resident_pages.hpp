#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ioweave::test {

/// Marks the pages of a range of a file whose data is in the page cache, and leaves the marks of
/// the others. The range begins with a page.
inline void mark_resident(int fd, uint64_t offset, uint64_t length, std::vector<bool>& pages) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  void* const map = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  EXPECT_NE(map, MAP_FAILED);
  std::vector<unsigned char> now((length + page - 1) / page);
  EXPECT_EQ(::mincore(map, length, now.data()), 0);
  ::munmap(map, length);
  pages.resize(now.size());
  for (size_t i = 0; i < now.size(); ++i) pages[i] = pages[i] || (now[i] & 1u) != 0;
}

/// How many pages of a range of a file are in the page cache. The range begins with a page.
inline uint64_t resident_pages(int fd, uint64_t offset, uint64_t length) {
  std::vector<bool> pages;
  mark_resident(fd, offset, length, pages);
  return static_cast<uint64_t>(std::ranges::count(pages, true));
}

}  // namespace ioweave::test
