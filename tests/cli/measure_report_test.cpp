// What `ioweave measure` says of what it found.

#include "cli/measure_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ioweave::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr unsigned kRepetitions = 3;

Measurement on(const std::string& type) {
  Measurement measured;
  measured.options.folder = "data";
  measured.options.repetitions = kRepetitions;
  measured.folder = "/mnt/my data";
  measured.mount = {"/mnt/my data", type, "source"};
  measured.machine.host = "node7";
  measured.machine.cpus_allowed = 2;
  measured.date = "2026-01-31T12:00:00.000Z";
  double at_s = 0;
  for (unsigned repetition = 0; repetition < kRepetitions; ++repetition) {
    for (const auto& [streams, mb] : {std::pair{1u, 200u}, {2u, 380u}, {4u, 450u}, {8u, 300u}}) {
      measured.writes.push_back({streams, repetition, at_s++, 1, 0.1, mb * 1'000'000ull});
    }
  }
  return measured;
}

TEST(MeasureRemarks, AreNoneForACleanCurveOfALocalDisk) {
  EXPECT_THAT(measure_remarks(on("ext4")), IsEmpty());
}

TEST(MeasureRemarks, SayWhatTheFileSystemMeans) {
  EXPECT_THAT(measure_remarks(on("tmpfs")), Contains(HasSubstr("memory was measured")));
  EXPECT_THAT(measure_remarks(on("overlay")), Contains(HasSubstr("upper layer")));
  EXPECT_THAT(measure_remarks(on("lustre")), Contains(HasSubstr("from this one alone")));
  EXPECT_THAT(measure_remarks(on("fuse.thing")), Contains(HasSubstr("cannot be told")));
}

TEST(MeasureRemarks, SayThatTheRateFell) {
  Measurement measured = on("ext4");
  for (device::Sample& sample : measured.writes) {
    if (sample.start_s >= 6) sample.bytes /= 2;
  }
  EXPECT_THAT(measure_remarks(measured), Contains(HasSubstr("fell by 50 % while it was measured")));
  measured = on("ext4");
  for (int i = 1; i <= 10; ++i) measured.warm_up.push_back({0.1 * i, 1000});
  for (int i = 1; i <= 10; ++i) measured.warm_up.push_back({1.0 + i, 1000});
  EXPECT_THAT(measure_remarks(measured),
              Contains(AllOf(HasSubstr("within the warm-up"), HasSubstr("longer --warm-up"))));
}

TEST(MeasureRemarks, SayWhatTheCurveCannot) {
  Measurement measured = on("ext4");
  measured.writes[0].bytes *= 2;
  EXPECT_THAT(measure_remarks(measured), Contains(HasSubstr("with 1 stream differ by 100 %")));
  measured = on("ext4");
  for (device::Sample& sample : measured.writes) {
    if (sample.streams == 8) sample.bytes *= 2;
  }
  EXPECT_THAT(measure_remarks(measured), Contains(HasSubstr("still rises at 8 streams")));
  measured = on("ext4");
  for (device::Sample& sample : measured.writes) {
    if (sample.streams == 2) sample.bytes = 50'000'000;
  }
  EXPECT_THAT(measure_remarks(measured), Contains(HasSubstr("off a curve with one peak")));
  measured = on("ext4");
  for (device::Sample& sample : measured.writes) sample.cpu_seconds = 1.9;
  EXPECT_THAT(measure_remarks(measured), Contains(HasSubstr("processors were busy")));
}

TEST(MeasureRemarks, SayWhetherReadsCameFromMemory) {
  Measurement measured = on("ext4");
  measured.reads = measured.writes;
  EXPECT_THAT(measure_remarks(measured), Contains(HasSubstr("found the page cache empty")));
  measured.still_cached = 0.5;
  EXPECT_THAT(measure_remarks(measured),
              Contains(HasSubstr("50 % of what was read lay in memory")));
}

TEST(MeasureText, ShowsTheCurveAndItsBest) {
  const std::string text = measure_text(on("ext4"));
  EXPECT_THAT(text, HasSubstr("/mnt/my data (ext4 on /mnt/my data)"));
  EXPECT_THAT(text, HasSubstr("Best: 4 streams"));
  EXPECT_THAT(text, Not(HasSubstr("Reading")));
}

TEST(MeasureToml, IsADeviceWithItsCurve) {
  Measurement measured = on("lustre");
  measured.options.name = "the \"fast\" one\\\n";
  const std::string toml = measure_toml(measured);
  EXPECT_THAT(toml, HasSubstr("\n[[device]]\n"
                              "name = \"the \\\"fast\\\" one\\\\\\u000A\"\n"
                              "path = \"/mnt/my data\"\n"
                              "bandwidth = 450.0\n"
                              "scope = \"shared\"\n"
                              "curve = [[1, 200.0], [2, 380.0], [4, 450.0], [8, 300.0]]\n"));
  // Whatever else there is must be a comment.
  const std::string before = toml.substr(0, toml.find("[[device]]"));
  for (size_t at = 0; at < before.size(); at = before.find('\n', at) + 1) {
    EXPECT_EQ(before[at], '#') << before;
  }
}

TEST(MeasureToml, SlowDevicesKeepTheirDigits) {
  Measurement measured = on("ext4");
  for (device::Sample& sample : measured.writes) sample.bytes /= 10'000;
  EXPECT_THAT(measure_toml(measured), HasSubstr("[[1, 0.02], [2, 0.038], [4, 0.045], [8, 0.03]]"));
}

TEST(MeasureJson, KeepsEverySample) {
  Measurement measured = on("nfs4");
  measured.reads = measured.writes;
  const auto json = nlohmann::json::parse(measure_json(measured));
  EXPECT_EQ(json["schema"], "ioweave.measure/1");
  EXPECT_EQ(json["device"]["name"], "my data");
  EXPECT_EQ(json["device"]["scope"], "shared");
  EXPECT_EQ(json["device"]["curve"],
            nlohmann::json::parse("[[1, 200.0], [2, 380.0], [4, 450.0], [8, 300.0]]"));
  EXPECT_EQ(json["write"]["best_streams"], 4);
  for (const char* const what : {"write", "read"}) {
    ASSERT_EQ(json[what]["samples"].size(), 4 * kRepetitions);
    EXPECT_EQ(json[what]["samples"][1]["bytes"], 380'000'000);
    EXPECT_EQ(json[what]["samples"][1]["mb_per_s"], 380.0);
  }
}

TEST(MeasureName, OfTheRootIsRoot) {
  Measurement measured = on("ext4");
  measured.mount.path = "/";
  EXPECT_EQ(device_name(measured), "root");
}

}  // namespace
}  // namespace ioweave::cli
