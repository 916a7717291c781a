// How files are cut for the PPIS paper's programs.
#include "chunk_loop.hpp"

#include <gtest/gtest.h>

#include "numbers.hpp"

namespace apps {
namespace {

TEST(ChunkLoop, ChunksFollowEachOther) {
  const std::vector<Chunk> chunks = cut(1000, 300);
  ASSERT_EQ(chunks.size(), 4u);
  EXPECT_EQ(chunks[3].offset, 900u);
  EXPECT_EQ(chunks[3].bytes, 100u);
  EXPECT_TRUE(cut(0, 300).empty());
}

TEST(ChunkLoop, SharesCoverAChunkInWholeGranules) {
  for (const uint64_t bytes : {0u, 1u, 64u, 65u, 1000u, 6400u}) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      uint64_t next = 5000;
      for (int rank = 0; rank < ranks; ++rank) {
        const Chunk share = share_of({5000, bytes}, 64, rank, ranks);
        ASSERT_EQ(share.offset, next);
        ASSERT_TRUE(share.bytes % 64 == 0 || share.offset + share.bytes == 5000 + bytes);
        next += share.bytes;
      }
      EXPECT_EQ(next, 5000 + bytes) << ranks << " ranks";
    }
  }
}

TEST(ChunkLoop, ModesHaveTheirNames) {
  for (const char* name : {"mpiio", "normal", "pp", "ppis", "weighted", "auto"}) {
    EXPECT_STREQ(name_of(parse_read_mode(name)), name);
  }
  EXPECT_THROW(parse_read_mode("PPIS"), UsageError);
}

}  // namespace
}  // namespace apps
