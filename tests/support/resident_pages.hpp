#pragma once

#include <cstdint>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace ioweave::test {

/// Pages of a range of a file whose data is in the page cache. The range begins with a page.
inline uint64_t resident_pages(int fd, uint64_t offset, uint64_t length) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  void* const map = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  EXPECT_NE(map, MAP_FAILED);
  std::vector<unsigned char> pages((length + page - 1) / page);
  EXPECT_EQ(::mincore(map, length, pages.data()), 0);
  ::munmap(map, length);
  uint64_t resident = 0;
  for (const unsigned char flags : pages) resident += flags & 1u;
  return resident;
}

}  // namespace ioweave::test
