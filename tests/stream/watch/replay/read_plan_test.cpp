// The text of plans: what is written is read back, and what is wrong is said with its line.

#include "stream/watch/replay/read_plan.hpp"

#include <random>
#include <string>
#include <vector>

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stats/text_file.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::stream {
namespace {

using test::TempDir;
using test::write_text;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<FileRange> all_of(const PlannedReads& reads) {
  std::vector<FileRange> all;
  for (uint64_t i = 0; i < reads.count(); ++i) all.push_back(reads.at(i));
  return all;
}

PlannedFile file_of(const std::string& name, const std::vector<FileRange>& reads) {
  PlannedFile file;
  file.name = name;
  file.size = 1 << 20;
  file.mtime_ns = 1'700'000'000'000'000'005;
  for (const FileRange& read : reads) EXPECT_TRUE(file.reads.add(read.offset, read.bytes));
  return file;
}

ReadPlan parsed(const std::string& text) {
  ReadPlan plan;
  std::string why;
  EXPECT_TRUE(parse_plan(text, plan, why)) << why;
  return plan;
}

std::string complaint(const std::string& text) {
  ReadPlan plan;
  std::string why;
  EXPECT_FALSE(parse_plan(text, plan, why)) << text;
  return why;
}

/// A plan with one file whose second line is `line`.
std::string with_line(const std::string& line) {
  return "ioweave-plan/1\nfile \"a\" size 9 mtime 1.000000000\n" + line + "\nend 1 files 1 reads\n";
}

// ---- PlannedReads

TEST(PlannedReads, EqualDistancesBecomeOneRun) {
  PlannedReads reads;
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_TRUE(reads.add(i * 8192, 4096));
  EXPECT_EQ(reads.runs().size(), 1u);
  EXPECT_EQ(reads.count(), 1000u);
  EXPECT_EQ(reads.bytes(), 4'096'000u);
  EXPECT_EQ(reads.at(999), (FileRange{999 * 8192, 4096}));
  EXPECT_EQ(reads.bytes_before(10), 40'960u);
  EXPECT_EQ(reads.jumps(), 999u);
}

TEST(PlannedReads, BackwardsToo) {
  PlannedReads reads;
  for (uint64_t i = 100; i > 0; --i) ASSERT_TRUE(reads.add(i * 4096, 4096));
  EXPECT_EQ(reads.runs().size(), 1u);
  EXPECT_EQ(reads.at(99), (FileRange{4096, 4096}));
}

TEST(PlannedReads, ReadsInOrderHaveNoJumps) {
  PlannedReads reads;
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(reads.add(i * 4096, 4096));
  EXPECT_EQ(reads.jumps(), 0u);
  ASSERT_TRUE(reads.add(0, 4096));
  EXPECT_EQ(reads.jumps(), 1u);
}

TEST(PlannedReads, WhatExceedsTheBoundsIsRefused) {
  PlannedReads reads;
  EXPECT_FALSE(reads.add(0, 0));
  EXPECT_FALSE(reads.add(0, PlannedReads::kMostBytes + 1));
  EXPECT_FALSE(reads.add(PlannedReads::kMostOffset, 1));
  EXPECT_FALSE(reads.add(UINT64_MAX, 4096));
  EXPECT_FALSE(reads.add(PlannedRun{0, 4096, 0, 4096}));
  EXPECT_FALSE(reads.add(PlannedRun{0, 4096, 3, -4096})) << "ends before the file";
  EXPECT_FALSE(reads.add(PlannedRun{0, 4096, 1u << 31, INT64_MAX}));
  EXPECT_FALSE(reads.add(PlannedRun{0, 4096, PlannedReads::kMostReads + 1, 0}));
  EXPECT_EQ(reads.count(), 0u);
}

// ---- Text

TEST(PlanText, IsForPeople) {
  ReadPlan plan;
  plan.files.push_back(file_of("data/a b.bin", {{0, 4096}, {65536, 100}}));
  plan.files.push_back(
      file_of("/abs", {{0, 10}, {20, 10}, {40, 10}, {30, 10}, {20, 10}, {10, 10}}));
  EXPECT_EQ(plan_text(plan),
            "ioweave-plan/1\n"
            "file \"data/a b.bin\" size 1048576 mtime 1700000000.000000005\n"
            "read 0 4096\n"
            "read 65536 100\n"
            "file \"/abs\" size 1048576 mtime 1700000000.000000005\n"
            "read 0 10 x3 +20\n"
            "read 30 10 x3 -10\n"
            "end 2 files 8 reads\n");
}

TEST(PlanText, NamesOfAnyBytesComeBack) {
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& name : {all, std::string("\xc3\xa4 \"x\\y\""), std::string("\n"),
                                  std::string("\\x41"), std::string("\xff")}) {
    ReadPlan plan;
    plan.files.push_back(file_of(name, {{0, 1}}));
    const std::string text = plan_text(plan);
    EXPECT_EQ(parsed(text).files.at(0).name, name);
    EXPECT_EQ(std::ranges::count(text, '\n'), 4) << "a name stays in its line";
  }
}

TEST(PlanText, TimesBefore1970ComeBack) {
  ReadPlan plan;
  plan.files.push_back(file_of("a", {{0, 1}}));
  for (const int64_t ns : {int64_t{-1}, int64_t{0}, int64_t{-1'500'000'000}, INT64_MAX,
                           int64_t{-9'000'000'000'000'000'000}}) {
    plan.files[0].mtime_ns = ns;
    EXPECT_EQ(parsed(plan_text(plan)).files.at(0).mtime_ns, ns);
  }
}

TEST(PlanText, RandomPlansComeBack) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    ReadPlan plan;
    for (uint64_t f = 0; f < random() % 4; ++f) {
      std::vector<FileRange> reads;
      uint64_t offset = random() % (1 << 20);
      uint64_t bytes = 1 + random() % 9000;
      uint64_t stride = random() % 3 == 0 ? bytes : random() % 20'000;
      for (uint64_t i = 0; i < 1 + random() % 300; ++i) {
        if (random() % 8 == 0) bytes = 1 + random() % 9000;
        if (random() % 8 == 0) stride = random() % 20'000;
        offset = random() % 8 == 0 ? random() % (uint64_t{1} << 40) : offset + stride;
        reads.push_back({offset, bytes});
      }
      plan.files.push_back(file_of("file " + std::to_string(f), reads));
    }
    const ReadPlan back = parsed(plan_text(plan));
    ASSERT_EQ(back.files.size(), plan.files.size());
    for (size_t f = 0; f < plan.files.size(); ++f) {
      EXPECT_EQ(all_of(back.files[f].reads), all_of(plan.files[f].reads));
      EXPECT_EQ(back.files[f].reads.jumps(), plan.files[f].reads.jumps());
      EXPECT_EQ(back.files[f].reads.bytes(), plan.files[f].reads.bytes());
      EXPECT_EQ(back.files[f].size, plan.files[f].size);
    }
    EXPECT_EQ(plan_text(back), plan_text(plan));
  }
}

TEST(PlanText, CommentsAndEmptyLinesAreIgnored) {
  const ReadPlan plan = parsed(with_line("\n# by hand\n  read   5  6  "));
  EXPECT_EQ(all_of(plan.files.at(0).reads), (std::vector<FileRange>{{5, 6}}));
}

// ---- What is wrong

TEST(PlanText, AMistakeIsSaidWithItsLine) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {with_line("read 1"), "line 3: 'read' is not followed by OFFSET BYTES"},
      {with_line("read -1 5"), "line 3: 'read' is not followed by OFFSET BYTES"},
      {with_line("read 1 5 x3"), "line 3: the bytes are not followed by 'xCOUNT +STRIDE'"},
      {with_line("read 1 5 3 +4"), "line 3: the bytes are not followed by 'xCOUNT +STRIDE'"},
      {with_line("read 1 5 x3 +4 9"), "line 3: has words behind its end"},
      {with_line("read 1 0"), "line 3: the read is empty"},
      {with_line("read 99999999999999999999 5"), "line 3: 'read' is not followed"},
      {with_line("read 1 5 x3 -4"), "line 3: the read is empty, or too large"},
      {with_line("write 1 5"), "line 3: is none of 'file', 'read' and 'end'"},
      {with_line("file \"a\" size 9 mtime 1.000000000"), "line 3: the file stands in the plan"},
      {with_line("file a size 9 mtime 1.000000000"), "line 3: 'file' is not followed by a name"},
      {with_line("file \"b size 9"), "line 3: 'file' is not followed by a name"},
      {with_line("file \"b\\q\" size 9"), "line 3: 'file' is not followed by a name"},
      {with_line("file \"b\\x0\" size 9"), "line 3: 'file' is not followed by a name"},
      {with_line("file \"b\\x00\" size 9"), "line 3: 'file' is not followed by a name"},
      {with_line("file \"\" size 9"), "line 3: the name of the file is empty"},
      {with_line("file \"b\" size x"), "line 3: the name is not followed by 'size BYTES'"},
      {with_line("file \"b\" size 9 mtime 5"), "line 3: the size is not followed by 'mtime"},
      {with_line("file \"b\" size 9 mtime 1.5"), "line 3: the size is not followed by 'mtime"},
      {"ioweave-plan/1\nread 1 5\n", "line 2: stands before the first 'file'"},
      {"ioweave-plan/1\nend 1 files 0 reads\n", "line 2: counts other files or reads"},
      {"ioweave-plan/1\nend 0 files 0 reads\nread 1 1\n", "line 3: stands behind the line 'end'"},
      {"ioweave-plan/1\n", "is cut off"},
      {"ioweave-plan/2\n", "is a plan of another version"},
      {"PNG", "is not a plan"},
  };
  for (const auto& [text, expected] : cases) EXPECT_THAT(complaint(text), StartsWith(expected));
}

TEST(PlanText, BrokenTextIsRefusedOrRead) {
  ReadPlan good;
  good.files.push_back(file_of("some file", {{0, 10}, {20, 10}, {40, 10}, {7, 3}}));
  good.files.push_back(file_of("x\"y", {{4096, 4096}, {0, 4096}}));
  const std::string text = plan_text(good);
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string broken = text;
    for (uint32_t i = 0; i <= random() % 4; ++i) {
      if (broken.empty()) break;
      const size_t at = random() % broken.size();
      const uint32_t kind = random() % 4;
      if (kind == 0) broken[at] = static_cast<char>(random());
      if (kind == 1) broken.erase(at, random() % 9);
      if (kind == 2) broken.insert(at, std::to_string(random()));
      if (kind == 3) broken.resize(at + 1);
    }
    ReadPlan plan;
    std::string why;
    const bool is_read = parse_plan(broken, plan, why);
    EXPECT_EQ(is_read, why.empty());
    refused += is_read ? 0 : 1;
    if (!is_read) continue;
    for (const PlannedFile& file : plan.files) {
      if (file.reads.count() == 0) continue;
      const FileRange last = file.reads.at(file.reads.count() - 1);
      EXPECT_LE(last.end(), PlannedReads::kMostOffset);
    }
  }
  EXPECT_GT(refused, 10'000);
}

TEST(ReadPlanFile, SaysWhatIsWrongAndTheWayOut) {
  const TempDir folder;
  ReadPlan plan;
  std::string why;
  EXPECT_FALSE(read_plan(folder.file("none"), plan, why));
  EXPECT_THAT(why, HasSubstr("No such file or directory; write one with 'ioweave run --record"));
  EXPECT_FALSE(read_plan(folder.path(), plan, why));
  EXPECT_THAT(why, HasSubstr(" is a directory"));
  EXPECT_FALSE(read_plan(write_text(folder, "empty", ""), plan, why));
  EXPECT_THAT(why, HasSubstr("is empty; write one"));
  EXPECT_FALSE(
      read_plan(write_text(folder, "no", "ioweave-plan/1\nend 0 files 0 reads\n"), plan, why));
  EXPECT_THAT(why, HasSubstr("names no reads"));
  const std::string wrong = write_text(folder, "wrong", with_line("read x"));
  EXPECT_FALSE(read_plan(wrong, plan, why));
  EXPECT_THAT(why, StartsWith(wrong + ", line 3: "));
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(read_plan(folder.file("pipe"), plan, why)) << "and does not wait for a writer";
  EXPECT_TRUE(read_plan(write_text(folder, "good", with_line("read 1 5")), plan, why)) << why;
}

}  // namespace
}  // namespace ioweave::stream
