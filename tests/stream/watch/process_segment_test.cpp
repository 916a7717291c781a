#include "stream/watch/process_segment.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_dir.hpp"

namespace ioweave::stream {
namespace {

using stats::FileRecord;
using stats::Segment;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kMiB = 1u << 20;

// ---- Patterns -----------------------------------------------------------------------------------

Places places_at(std::vector<Places::Place> last, uint64_t read_bytes = 0) {
  Places places;
  places.count = static_cast<uint32_t>(last.size());
  places.read_bytes = read_bytes;
  places.last = std::move(last);
  return places;
}

TEST(PatternOf, ReadsBackToBackAreASequentialReaderAtTheirEnd) {
  const auto pattern = pattern_of(places_at({{0, 100}, {100, 200}, {300, 50}}));
  ASSERT_TRUE(pattern);
  EXPECT_EQ(pattern->offset, 350u);
  EXPECT_EQ(pattern->stride, 0);
}

TEST(PatternOf, EqualDistancesAreAStride) {
  const auto pattern = pattern_of(places_at({{9, 1}, {kMiB, 10}, {3 * kMiB, 10}, {5 * kMiB, 20}}));
  ASSERT_TRUE(pattern);
  EXPECT_EQ(pattern->offset, 5 * kMiB);
  EXPECT_EQ(pattern->stride, static_cast<int64_t>(2 * kMiB));
  EXPECT_EQ(pattern->record_bytes, 20u);
}

TEST(PatternOf, BackwardsToo) {
  const auto pattern = pattern_of(places_at({{9000, 10}, {6000, 10}, {3000, 10}}));
  ASSERT_TRUE(pattern);
  EXPECT_EQ(pattern->offset, 3000u);
  EXPECT_EQ(pattern->stride, -3000);
  EXPECT_EQ(pattern->record_bytes, 10u);
}

TEST(PatternOf, SeeksTellTheRecordByWhatWasReadBetween) {
  // Two calls of read(2) for each record.
  Places places = places_at({{0, 0}, {8 * kMiB, 0}, {16 * kMiB, 0}, {24 * kMiB, 0}}, 8 * kMiB);
  places.read_calls = 8;
  const auto pattern = pattern_of(places);
  ASSERT_TRUE(pattern);
  EXPECT_EQ(pattern->offset, 24 * kMiB);
  EXPECT_EQ(pattern->stride, static_cast<int64_t>(8 * kMiB));
  EXPECT_EQ(pattern->record_bytes, 2 * kMiB);
}

TEST(PatternOf, TheRecordIsTheSameBeforeAndAfterTheReadBehindASeek) {
  const std::vector<Places::Place> seeks{{0, 0}, {8 * kMiB, 0}, {16 * kMiB, 0}};
  Places before = places_at(seeks, 4 * kMiB);
  before.read_calls = 2;
  Places after = places_at(seeks, 6 * kMiB);
  after.read_calls = 3;
  ASSERT_TRUE(pattern_of(before));
  ASSERT_TRUE(pattern_of(after));
  EXPECT_EQ(pattern_of(before)->record_bytes, 2 * kMiB);
  EXPECT_EQ(pattern_of(after)->record_bytes, 2 * kMiB);
}

TEST(PatternOf, OtherPlacesHaveNone) {
  EXPECT_FALSE(pattern_of(places_at({})));
  EXPECT_FALSE(pattern_of(places_at({{0, 10}})));
  EXPECT_FALSE(pattern_of(places_at({{0, 10}, {10, 10}}))) << "fewer than three";
  EXPECT_FALSE(pattern_of(places_at({{0, 10}, {5000, 10}, {700, 10}}))) << "random";
  EXPECT_FALSE(pattern_of(places_at({{5, 10}, {5, 10}, {5, 10}}))) << "the same";
  EXPECT_FALSE(pattern_of(places_at({{0, 100}, {50, 100}, {100, 100}}))) << "overlapping";
  EXPECT_FALSE(pattern_of(places_at({{0, 0}, {1000, 0}, {2000, 0}}))) << "seeks without reads";
}

TEST(PatternOf, AnyNumbersAreSurvived) {
  const uint64_t numbers[] = {0, 1, 1ul << 62, INT64_MAX, 1ul << 63, UINT64_MAX};
  for (const uint64_t a : numbers) {
    for (const uint64_t b : numbers) {
      for (const uint64_t c : numbers) {
        const auto pattern = pattern_of(places_at({{a, b}, {a + c, b}, {a + 2 * c, b}}, b));
        if (pattern && pattern->stride != 0) {
          EXPECT_GT(pattern->record_bytes, 0u);
        }
        Places uncounted = places_at({{a, 0}, {a + c, 0}, {a + 2 * c, 0}}, b);
        uncounted.count = 0;
        uncounted.read_calls = c;
        (void)pattern_of(uncounted);
      }
    }
  }
}

// ---- Segments -----------------------------------------------------------------------------------

constexpr pid_t kProcess = 4711;

class ProcessSegmentTest : public ::testing::Test {
 protected:
  ProcessSegmentTest() : segment_(std::make_unique<Segment>()) {
    segment_->magic = stats::kSegmentMagic;
    segment_->version = config::kLayoutVersion;
    segment_->bytes = sizeof(Segment);
    segment_->files = 4;
  }

  FileRecord& record(size_t i) {
    segment_->file[i].state = 2;
    return segment_->file[i];
  }
  [[nodiscard]] std::string path(int image = 0) const {
    return directory_.file(std::to_string(kProcess) + "-" + std::to_string(image) + ".segment");
  }
  /// The first bytes of the segment.
  void write(size_t bytes = sizeof(Segment), int image = 0) const {
    std::ofstream(path(image), std::ios::binary)
        .write(reinterpret_cast<const char*>(segment_.get()), static_cast<long>(bytes));
  }
  [[nodiscard]] std::vector<uint32_t> placed() const {
    ProcessSegment segment(directory_.path(), kProcess);
    (void)segment.refresh();
    return segment.placed_records();
  }

  test::TempDir directory_;
  std::unique_ptr<Segment> segment_;
};

TEST_F(ProcessSegmentTest, PlacesOfItsRecordsAreToldOldestFirst) {
  FileRecord& file = record(2);
  file.device = 11;
  file.inode = 12;
  file.call[0].bytes.owned = 900;
  file.call[0].bytes.shared = 100;
  file.call[0].calls.owned = 10;
  for (uint64_t i = 0; i < 10; ++i) stats::note_place(file, i * 1000, i + 1);
  write();
  ProcessSegment segment(directory_.path(), kProcess);
  ASSERT_TRUE(segment.refresh());
  EXPECT_THAT(segment.placed_records(), ElementsAre(2));
  const std::optional<Places> places = segment.places_of(2);
  ASSERT_TRUE(places);
  EXPECT_EQ(places->id.device, 11u);
  EXPECT_EQ(places->id.inode, 12u);
  EXPECT_EQ(places->count, 10u);
  EXPECT_EQ(places->read_bytes, 1000u);
  EXPECT_EQ(places->read_calls, 10u);
  ASSERT_EQ(places->last.size(), FileRecord::kPlaces);
  for (uint64_t i = 0; i < FileRecord::kPlaces; ++i) {
    EXPECT_EQ(places->last[i].offset, (i + 2) * 1000);
    EXPECT_EQ(places->last[i].bytes, i + 3);
  }
}

TEST_F(ProcessSegmentTest, AFewPlacesAreToldAsTheyAre) {
  for (uint64_t i = 0; i < 3; ++i) stats::note_place(record(1), i, 7);
  write();
  ProcessSegment segment(directory_.path(), kProcess);
  ASSERT_TRUE(segment.refresh());
  EXPECT_EQ(segment.places_of(1)->last.size(), 3u);
  EXPECT_THAT(segment.places_of(3)->last, IsEmpty());
}

TEST_F(ProcessSegmentTest, RecordsInUseWithThreePlacesAreTold) {
  for (uint64_t i = 0; i < 3; ++i) {
    stats::note_place(record(0), i, 7);  // files beyond the capacity
    stats::note_place(record(1), i, 7);
    stats::note_place(record(3), i, 7);
    stats::note_place(record(7), i, 7);  // beyond `files`
    if (i < 2) stats::note_place(record(2), i, 7);
  }
  segment_->file[3].state = 1;  // being filled
  write();
  EXPECT_THAT(placed(), ElementsAre(1));
}

TEST_F(ProcessSegmentTest, ANewerImageTakesTheOldOnesPlace) {
  for (uint64_t i = 0; i < 3; ++i) stats::note_place(record(1), i, 7);
  write();
  ProcessSegment segment(directory_.path(), kProcess);
  ASSERT_TRUE(segment.refresh());
  EXPECT_THAT(segment.placed_records(), ElementsAre(1));
  segment_->file[1].places = 0;
  write(sizeof(Segment), 1);
  ASSERT_TRUE(segment.refresh());
  EXPECT_THAT(segment.placed_records(), IsEmpty());
}

TEST_F(ProcessSegmentTest, WithoutADirectoryOrAFileThereIsNone) {
  ProcessSegment nowhere("", kProcess);
  EXPECT_FALSE(nowhere.refresh());
  EXPECT_THAT(nowhere.placed_records(), IsEmpty());
  EXPECT_FALSE(nowhere.places_of(1));
  ProcessSegment absent(directory_.path(), kProcess);
  EXPECT_FALSE(absent.refresh());
  EXPECT_FALSE(absent.places_of(1));
}

TEST_F(ProcessSegmentTest, ATruncatedFileGivesNothing) {
  for (uint64_t i = 0; i < 3; ++i) stats::note_place(record(1), i, 7);
  const size_t first = offsetof(Segment, file);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{8}, size_t{12}, first - 1, first,
                             first + sizeof(FileRecord), first + 4 * sizeof(FileRecord) - 1}) {
    write(bytes);
    EXPECT_THAT(placed(), IsEmpty()) << bytes;
  }
  write(first + 4 * sizeof(FileRecord));
  EXPECT_THAT(placed(), ElementsAre(1));
}

TEST_F(ProcessSegmentTest, AFileThatIsTruncatedLaterGivesNothing) {
  for (uint64_t i = 0; i < 3; ++i) stats::note_place(record(1), i, 7);
  write();
  ProcessSegment segment(directory_.path(), kProcess);
  ASSERT_TRUE(segment.refresh());
  ASSERT_TRUE(segment.places_of(1));
  ASSERT_EQ(truncate(path().c_str(), 100), 0);
  EXPECT_FALSE(segment.places_of(1));
  EXPECT_THAT(segment.placed_records(), IsEmpty());
}

TEST_F(ProcessSegmentTest, RecordsThatDoNotExistGiveNothing) {
  write();
  ProcessSegment segment(directory_.path(), kProcess);
  ASSERT_TRUE(segment.refresh());
  EXPECT_FALSE(segment.places_of(Segment::kFiles));
  EXPECT_FALSE(segment.places_of(UINT32_MAX));
}

TEST_F(ProcessSegmentTest, ForeignFilesGiveNothing) {
  for (uint64_t i = 0; i < 3; ++i) stats::note_place(record(1), i, 7);
  segment_->magic = 1;
  write();
  EXPECT_THAT(placed(), IsEmpty());
  segment_->magic = stats::kSegmentMagic;
  segment_->version = config::kLayoutVersion + 1;
  write();
  EXPECT_THAT(placed(), IsEmpty());
}

TEST_F(ProcessSegmentTest, ACountBeyondTheCapacityIsCutToIt) {
  for (uint64_t i = 0; i < 3; ++i) stats::note_place(record(Segment::kFiles - 1), i, 7);
  segment_->files = UINT32_MAX;
  write();
  EXPECT_THAT(placed(), ElementsAre(Segment::kFiles - 1));
}

TEST_F(ProcessSegmentTest, OtherKindsOfFilesGiveNothingAndNobodyWaits) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_THAT(placed(), IsEmpty());
  ASSERT_EQ(unlink(path().c_str()), 0);
  ASSERT_EQ(mkdir(path().c_str(), 0700), 0);
  EXPECT_THAT(placed(), IsEmpty());
  ASSERT_EQ(rmdir(path().c_str()), 0);
  ASSERT_EQ(symlink("/etc/passwd", path().c_str()), 0);
  ProcessSegment segment(directory_.path(), kProcess);
  EXPECT_FALSE(segment.refresh());
}

}  // namespace
}  // namespace ioweave::stream
