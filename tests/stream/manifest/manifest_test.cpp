// Manifests: what is written is read, and what breaks a rule is refused with its line.
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "stream/manifest/manifest_reader.hpp"
#include "stream/manifest/manifest_writer.hpp"
#include "support/temp_dir.hpp"

namespace ioweave::stream {
namespace {

using test::TempDir;

constexpr const char* kHeader = R"({"ioweave_manifest":1,"page":4096,"targets":["a","b"]})"
                                "\n";

class Manifest : public ::testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  int open(bool relative_only = false) {
    int error = 0;
    why.clear();
    reader = ManifestReader::open(path, relative_only, error, why);
    EXPECT_EQ(reader == nullptr, error != 0);
    return error;
  }
  void refuse(const std::string& text, const std::string& words) {
    write(text);
    EXPECT_EQ(open(), -EINVAL) << text;
    EXPECT_NE(why.find(words), std::string::npos) << why << "\nfor " << text;
    EXPECT_NE(why.find(path), std::string::npos) << why;
  }
  std::vector<ManifestItem> items() {
    std::vector<ManifestItem> all;
    ManifestItem item;
    int status = 0;
    while ((status = reader->next(item, why)) == 1) {
      all.push_back(item);
    }
    EXPECT_EQ(status, 0) << why;
    return all;
  }

  TempDir dir;
  const std::string path = dir.file("manifest");
  std::string why;
  std::unique_ptr<ManifestReader> reader;
};

TEST_F(Manifest, TellsEveryItemThatWasAdded) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const size_t count = 1 + random() % 5;
    std::vector<std::string> targets;
    for (size_t i = 0; i < count; ++i) {
      targets.push_back((i == 3 ? "/elsewhere/\"\\\n\xC3\xA9" : "target.") + std::to_string(i));
    }
    const uint64_t page = 4096u << (random() % 3);
    ManifestWriter writer(targets, page);
    ASSERT_EQ(writer.open(path, 0600, why), 0) << why;
    std::vector<ManifestItem> added;
    std::vector<int64_t> next(count);
    uint64_t bytes = 1000;
    uint64_t total = 0;
    uint64_t lost = 0;
    for (uint64_t i = 0, n = random() % 2000; i < n; ++i) {
      bytes = random() % 50 == 0 ? random() % 100'000 : bytes;
      const size_t target = random() % 40 == 0 ? random() % count : i % count;
      const bool is_lost = random() % 60 == 0;
      added.push_back({i, is_lost ? ManifestItem::kLost : static_cast<uint32_t>(target),
                       is_lost ? 0 : next[target], bytes});
      writer.add(added.back());
      next[target] += static_cast<int64_t>(round_up(bytes, page));
      total += is_lost ? 0 : bytes;
      lost += is_lost ? 1 : 0;
      if (random() % 500 == 0) {
        ASSERT_EQ(writer.write(writer.take_text()), 0);
      }
    }
    writer.add_end();
    ASSERT_EQ(writer.write(writer.take_text()), 0);
    ASSERT_EQ(writer.finish(), 0);
    ASSERT_EQ(open(), 0) << why;
    EXPECT_EQ(reader->totals().items, added.size());
    EXPECT_EQ(reader->totals().bytes, total);
    EXPECT_EQ(reader->totals().lost, lost);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(reader->targets()[i], targets[i][0] == '/' ? targets[i] : dir.file(targets[i]));
    }
    EXPECT_TRUE(items() == added);
  }
}

TEST_F(Manifest, OfRegularItemsIsAsShortAsForOne) {
  ManifestWriter writer({"a", "b", "c"}, 4096);
  ASSERT_EQ(writer.open(path, 0600, why), 0) << why;
  for (uint64_t i = 0; i < 1'000'000; ++i) {
    writer.add({i, static_cast<uint32_t>(i % 3), static_cast<int64_t>(i / 3 * 8192), 5000});
  }
  writer.add_end();
  const std::string text = writer.take_text();
  EXPECT_LT(text.size(), 200u) << text;
  ASSERT_EQ(writer.write(text), 0);
  ASSERT_EQ(writer.finish(), 0);
  ASSERT_EQ(open(), 0) << why;
  EXPECT_EQ(reader->totals().items, 1'000'000u);
  EXPECT_EQ(reader->totals().bytes, 5'000'000'000u);
  EXPECT_TRUE(items().back() == (ManifestItem{999'999, 0, int64_t{333'333} * 8192, 5000}));
}

TEST_F(Manifest, HasItsNameOnlyOnceItIsFinished) {
  {
    ManifestWriter writer({"a"}, 4096);
    ASSERT_EQ(writer.open(path, 0600, why), 0);
    ManifestWriter other({"a"}, 4096);
    EXPECT_EQ(other.open(path, 0600, why), -EBUSY);
    EXPECT_NE(why.find(path), std::string::npos) << why;
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  write("left over");
  std::filesystem::rename(path, path + ".part");
  ManifestWriter writer({"a"}, 4096);
  ASSERT_EQ(writer.open(path, 0600, why), 0) << why;
  writer.add_end();
  ASSERT_EQ(writer.write(writer.take_text()), 0);
  ASSERT_EQ(writer.finish(), 0);
  EXPECT_EQ(open(), 0) << why;
  EXPECT_EQ(open(true), 0) << why;
}

TEST_F(Manifest, MayHaveBlanksAndNoItems) {
  write(
      "{ \"ioweave_manifest\" : 1, \"page\" :1, \"targets\": [\"\\u0061\\ud83d\\ude00\"] }\n"
      "[0, 0,  7, 10 , 2]\n[2,null, null,5]\n{\"items\":3, \"bytes\": 20,\"lost\":1}\n");
  ASSERT_EQ(open(), 0) << why;
  EXPECT_EQ(reader->targets()[0], dir.file("a\xF0\x9F\x98\x80"));
  const std::vector<ManifestItem> all = items();
  EXPECT_TRUE(all[1] == (ManifestItem{1, 0, 17, 10}));
  EXPECT_EQ(all[2].target, ManifestItem::kLost);
  write(std::string(kHeader) + "{\"items\":0,\"bytes\":0,\"lost\":0}\n");
  EXPECT_EQ(open(), 0) << why;
}

TEST_F(Manifest, ThatBreaksARuleIsRefusedWithItsLine) {
  const std::string header = kHeader;
  const std::string end = "{\"items\":1,\"bytes\":10,\"lost\":0}\n";
  refuse("", "line 1 is cut off");
  refuse("hello\n", "line 1 does not begin with");
  refuse("{\"ioweave_manifest\":2}\n", "version 2");
  refuse("{\"ioweave_manifest\":1,\"page\":0,\"targets\":[\"a\"]}\n", "\"page\"");
  refuse("{\"ioweave_manifest\":1,\"page\":4096,\"targets\":[]}\n", "not a string");
  refuse("{\"ioweave_manifest\":1,\"page\":4096,\"targets\":[\"\"]}\n", "empty");
  refuse("{\"ioweave_manifest\":1,\"page\":4096,\"targets\":[\"a\\u0000b\"]}\n", "null byte");
  refuse("{\"ioweave_manifest\":1,\"page\":4096,\"targets\":[\"\\ud800\"]}\n", "not a string");
  refuse("{\"ioweave_manifest\":1,\"page\":4096,\"targets\":[\"a\"]\n", "]}");
  for (const char* name : {"..", "../a", "b/../../a", "b/.."}) {
    refuse("{\"ioweave_manifest\":1,\"page\":4096,\"targets\":[\"" + std::string(name) + "\"]}\n",
           "leaves the folder");
  }
  std::string many = "{\"ioweave_manifest\":1,\"page\":4096,\"targets\":[\"a\"";
  for (int i = 0; i < 1024; ++i) {
    many += ",\"a\"";
  }
  refuse(many + "]}\n", "more than 1024");
  refuse(std::string(17 << 20, '{'), "longer than");
  refuse(header, "line 2 is cut off");
  refuse(header + "[0,0,0,10]\n", "line 3 is cut off");
  refuse(header + "[0,0,0,10]\n{\"items\":1,\"bytes\":10,\"lost\":0}", "line 3 is cut off");
  refuse(header + "[0,0,0,10]\n" + end + "\n", "more follows");
  refuse(header + "[0,0,0,10]\n" + end + end, "more follows");
  refuse(header + "[1,0,0,10]\n" + end, "item 1 where item 0 comes");
  refuse(header + "[0,0,0,10]\n[0,0,0,10]\n" + end, "line 3 has item 0 where item 1 comes");
  refuse(header + "[0,2,0,10]\n" + end, "target 2 of 2");
  refuse(header + "[0,4294967295,0,10]\n" + end, "target 4294967295 of 2");
  refuse(header + "[0,99999999999,0,10]\n" + end, "target 99999999999 of 2");
  refuse(header + "[0,0,0,10,0]\n" + end, "count of 0");
  refuse(header + "[0,null,null,10,2]\n" + end, "count of 2");
  refuse(header + "[0,0,-1,10]\n" + end, "none of the forms");
  refuse(header + "[0,0,null,10]\n" + end, "none of the forms");
  refuse(header + "[0,0,0,10,1,1]\n" + end, "none of the forms");
  refuse(header + "[0,0,0,1e9]\n" + end, "none of the forms");
  refuse(header + "\n" + end, "neither items nor the end");
  refuse(header + "[0,0,0," + std::string(200, '1') + "]\n" + end, "longer than 128");
  refuse(header + "[0,0,18446744073709551615,10]\n" + end, "an offset that no file has");
  refuse(header + "[0,0,9223372036854775800,10]\n" + end, "than there can be");
  refuse(header + "[0,0,0,18446744073709551615]\n" + end, "than there can be");
  refuse(header + "[0,0,0,9223372036854775807]\n[1,0,0,9223372036854775807]\n" + end,
         "than there can be");
  refuse(header + "[0,0,0,4096,18446744073709551615]\n" + end, "than there can be");
  refuse(header + "[0,0,0,4611686018427387904,5]\n" + end, "than there can be");
  refuse(header + "[0,0,0,0,18446744073709551615]\n" + end, "than there can be");
  refuse(header + "[0,0,0,9]\n" + end, "tells 1 items with 10 bytes");
  refuse(header + "[0,0,0,10]\n{\"items\":1,\"bytes\":10,\"lost\":1}\n", "of which 1 are lost");
}

TEST_F(Manifest, MayBeKeptToItsFolder) {
  write(
      "{\"ioweave_manifest\":1,\"page\":4096,\"targets\":[\"/etc/passwd\"]}\n"
      "{\"items\":0,\"bytes\":0,\"lost\":0}\n");
  EXPECT_EQ(open(false), 0) << why;
  EXPECT_EQ(open(true), -EINVAL);
  EXPECT_NE(why.find("relative_only"), std::string::npos) << why;
}

TEST_F(Manifest, MustBeARegularFile) {
  EXPECT_EQ(open(), -ENOENT);
  EXPECT_NE(why.find(path), std::string::npos);
  std::filesystem::create_directory(path);
  EXPECT_EQ(open(), -EINVAL);
}

/// Of a file that changes between the check and the reading.
TEST_F(Manifest, ThatChangesIsCheckedAgain) {
  std::string text = std::string(kHeader);
  for (int i = 0; i < 10'000; ++i) {
    text += "[" + std::to_string(i) + ",0," + std::to_string(i * 4096) + ",10]\n";
  }
  write(text + "{\"items\":10000,\"bytes\":100000,\"lost\":0}\n");
  ASSERT_EQ(open(), 0) << why;
  ManifestItem item;
  ASSERT_EQ(reader->next(item, why), 1);
  std::string changed = text;
  changed.replace(changed.find("[9000,0"), 7, "[9000,7");
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << changed;
  int status = 1;
  while ((status = reader->next(item, why)) == 1) {
  }
  EXPECT_EQ(status, -EINVAL);
  EXPECT_EQ(item.number, 8999u);
  EXPECT_NE(why.find("line 9002"), std::string::npos) << why;
}

}  // namespace
}  // namespace ioweave::stream
