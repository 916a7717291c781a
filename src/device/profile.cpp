#include "device/profile.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/proc_text.hpp"
#include "device/curve.hpp"

namespace ioweave::device {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "ioweave-device-profile/1";
constexpr const char* kDirect = "direct";
constexpr const char* kBuffered = "buffered";
constexpr const char* kRandom = "random";
constexpr const char* kSequential = "sequential";

double median_over(const std::vector<LoadSample>& samples,
                   const std::function<double(const LoadSample&)>& value) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const LoadSample& sample : samples) values.push_back(value(sample));
  return values.empty() ? 0 : median_of(std::move(values));
}

double rate(uint64_t bytes, const LoadSample& sample) {
  return static_cast<double>(bytes) / 1e6 / sample.seconds;
}

Json json_of(const LoadResult& result) {
  const Load& load = result.load;
  Json samples = Json::array();
  for (const LoadSample& sample : result.samples) {
    samples.push_back({{"read_bytes", sample.read_bytes},
                       {"written_bytes", sample.written_bytes},
                       {"seconds", sample.seconds},
                       {"cpu_seconds", sample.cpu_seconds}});
  }
  Json text{{"way", way_name(load.way)},
            {"cache", load.direct ? kDirect : kBuffered},
            {"pattern", load.random ? kRandom : kSequential},
            {"read_percent", load.read_percent},
            {"block_bytes", load.block_bytes},
            {"depth", load.depth}};
  if (!result.failure.empty()) text["failure"] = result.failure;
  if (!result.samples.empty()) {
    text["mb_per_s"] = result.mb_per_s();
    text["read_mb_per_s"] = result.read_mb_per_s();
    text["write_mb_per_s"] = result.write_mb_per_s();
    text["cpu_us_per_transfer"] = result.cpu_us_per_transfer();
  }
  text["samples"] = std::move(samples);
  return text;
}

// ---- Reading: a file of somebody's, so nothing of it is trusted --------------------------------

/// A mistake in the text; parse_profile() catches it.
struct Mistake {
  std::string what;
};

const Json& member(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end()) {
    throw Mistake{"it lacks '" + std::string(name) + "'"};
  }
  return *found;
}

std::string text_of(const Json& object, const char* name) {
  const Json& value = member(object, name);
  if (!value.is_string()) throw Mistake{"'" + std::string(name) + "' is not a text"};
  return value.get<std::string>();
}

double number_of(const Json& object, const char* name, double least, double most) {
  const Json& value = member(object, name);
  if (!value.is_number() || value.get<double>() < least || value.get<double>() > most) {
    throw Mistake{"'" + std::string(name) + "' is not a number within its bounds"};
  }
  return value.get<double>();
}

uint64_t count_of(const Json& object, const char* name, uint64_t least, uint64_t most) {
  const Json& value = member(object, name);
  if (!value.is_number_unsigned() || value.get<uint64_t>() < least ||
      value.get<uint64_t>() > most) {
    throw Mistake{"'" + std::string(name) + "' is not a whole number within its bounds"};
  }
  return value.get<uint64_t>();
}

const Json& list_of(const Json& object, const char* name) {
  const Json& value = member(object, name);
  if (!value.is_array()) throw Mistake{"'" + std::string(name) + "' is not a list"};
  return value;
}

bool is_first(const Json& object, const char* name, const char* first, const char* second) {
  const std::string word = text_of(object, name);
  if (word != first && word != second) {
    throw Mistake{"'" + std::string(name) + "' is neither '" + first + "' nor '" + second + "'"};
  }
  return word == first;
}

IoWay way_of(const Json& object) {
  const std::string name = text_of(object, "way");
  for (const IoWay way : kIoWays) {
    if (way_name(way) == name) return way;
  }
  throw Mistake{"there is no way '" + name + "'"};
}

constexpr uint64_t kMostBytes = uint64_t{1} << 60;
constexpr double kMostSeconds = 1e9;

LoadResult result_from(const Json& object) {
  LoadResult result;
  Load& load = result.load;
  load.way = way_of(object);
  load.direct = is_first(object, "cache", kDirect, kBuffered);
  load.random = is_first(object, "pattern", kRandom, kSequential);
  load.read_percent = static_cast<unsigned>(count_of(object, "read_percent", 0, 100));
  load.block_bytes = count_of(object, "block_bytes", 1, kMostBytes);
  load.depth = static_cast<unsigned>(count_of(object, "depth", 1, 1u << 20));
  if (object.contains("failure")) result.failure = text_of(object, "failure");
  for (const Json& sample : list_of(object, "samples")) {
    result.samples.push_back(
        {count_of(sample, "read_bytes", 0, kMostBytes),
         count_of(sample, "written_bytes", 0, kMostBytes),
         number_of(sample, "seconds", std::numeric_limits<double>::min(), kMostSeconds),
         number_of(sample, "cpu_seconds", 0, kMostSeconds)});
  }
  return result;
}

Profile profile_from(const Json& object) {
  if (text_of(object, "schema") != kSchema) {
    throw Mistake{"its schema is '" + text_of(object, "schema") + "', not '" + kSchema + "'"};
  }
  Profile profile;
  profile.date = text_of(object, "date");
  const Json& machine = member(object, "machine");
  profile.host = text_of(machine, "host");
  profile.kernel = text_of(machine, "kernel");
  profile.cpus = static_cast<uint32_t>(count_of(machine, "cpus", 0, 1u << 20));
  profile.path = text_of(object, "path");
  const Json& mount = member(object, "mount");
  profile.mount_path = text_of(mount, "path");
  profile.file_system = text_of(mount, "type");
  profile.by = text_of(object, "by");
  profile.file_bytes = count_of(object, "file_bytes", 1, kMostBytes);
  profile.block_bytes = count_of(object, "block_bytes", 1, kMostBytes);
  profile.seconds = number_of(object, "seconds", 0, kMostSeconds);
  for (const Json& each : list_of(object, "unusable")) {
    profile.unusable.push_back(
        {way_of(each), is_first(each, "cache", kDirect, kBuffered), text_of(each, "why")});
  }
  for (const Json& each : list_of(object, "results")) profile.results.push_back(result_from(each));
  return profile;
}

}  // namespace

std::string_view way_name(IoWay way) noexcept {
  switch (way) {
    case IoWay::psync:
      return "psync";
    case IoWay::uring:
      return "io_uring";
    case IoWay::sqpoll:
      return "io_uring+sqpoll";
    case IoWay::iopoll:
      return "io_uring+iopoll";
  }
  return "";
}

double LoadResult::mb_per_s() const {
  return median_over(samples, [](const LoadSample& each) { return rate(each.bytes(), each); });
}

double LoadResult::read_mb_per_s() const {
  return median_over(samples, [](const LoadSample& each) { return rate(each.read_bytes, each); });
}

double LoadResult::write_mb_per_s() const {
  return median_over(samples,
                     [](const LoadSample& each) { return rate(each.written_bytes, each); });
}

double LoadResult::cpu_us_per_transfer() const {
  return median_over(samples, [this](const LoadSample& each) {
    const double transfers =
        static_cast<double>(each.bytes()) / static_cast<double>(load.block_bytes);
    return transfers > 0 ? each.cpu_seconds * 1e6 / transfers : 0;
  });
}

double LoadResult::spread() const {
  const double middle = mb_per_s();
  if (middle <= 0) return 0;
  double least = std::numeric_limits<double>::infinity();
  double greatest = 0;
  for (const LoadSample& sample : samples) {
    least = std::min(least, rate(sample.bytes(), sample));
    greatest = std::max(greatest, rate(sample.bytes(), sample));
  }
  return (greatest - least) / middle;
}

const LoadResult* result_of(const Profile& profile, const Load& load) noexcept {
  const auto found = std::ranges::find(profile.results, load, &LoadResult::load);
  return found == profile.results.end() ? nullptr : &*found;
}

const LoadResult* measured_of(const Profile& profile, Load load, IoWay way) noexcept {
  load.way = way;
  const LoadResult* const result = result_of(profile, load);
  return result == nullptr || result->samples.empty() ? nullptr : result;
}

std::string profile_json(const Profile& profile) {
  Json unusable = Json::array();
  for (const UnusableWay& each : profile.unusable) {
    unusable.push_back({{"way", way_name(each.way)},
                        {"cache", each.direct ? kDirect : kBuffered},
                        {"why", each.why}});
  }
  Json results = Json::array();
  for (const LoadResult& result : profile.results) results.push_back(json_of(result));
  const Json text{
      {"schema", kSchema},
      {"date", profile.date},
      {"machine", {{"host", profile.host}, {"kernel", profile.kernel}, {"cpus", profile.cpus}}},
      {"path", profile.path},
      {"mount", {{"path", profile.mount_path}, {"type", profile.file_system}}},
      {"by", profile.by},
      {"file_bytes", profile.file_bytes},
      {"block_bytes", profile.block_bytes},
      {"seconds", profile.seconds},
      {"unusable", std::move(unusable)},
      {"results", std::move(results)}};
  return text.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<Profile> parse_profile(std::string_view text, std::string& why) {
  const Json parsed = Json::parse(text, nullptr, false);
  if (parsed.is_discarded()) {
    why = "it is not JSON";
    return std::nullopt;
  }
  try {
    return profile_from(parsed);
  } catch (const Mistake& mistake) {
    why = mistake.what;
    return std::nullopt;
  }
}

int read_profile(const std::string& path, Profile& profile, std::string& why) {
  constexpr size_t kMostText = 64u << 20;
  std::string text;
  if (const int error = read_proc_text(path.c_str(), kMostText, text)) return error;
  std::optional<Profile> read = parse_profile(text, why);
  if (!read) return -EBADMSG;
  profile = std::move(*read);
  return 0;
}

}  // namespace ioweave::device
