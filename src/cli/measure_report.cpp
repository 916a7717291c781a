#include "cli/measure_report.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "cli/format.hpp"
#include "config/description.hpp"

namespace ioweave::cli {
namespace {

constexpr size_t kWidth = 100;
constexpr double kWarmUpFell = 0.8;
constexpr double kDrifted = 0.1;
constexpr double kWideSpread = 0.3;  ///< between lowest and highest, as a part of the median
constexpr double kFarFromFit = 0.1;
constexpr double kProcessorsBusy = 0.85;
constexpr double kCachedEnough = 0.05;

/// A number of MB/s for a file, four digits and more.
double rounded(double mb_per_s) {
  const double unit = mb_per_s < 1 ? 1e6 : mb_per_s < 100 ? 1e3 : 10;
  return std::max(std::round(mb_per_s * unit) / unit, 1e-6);
}

bool is_shared(const Measurement& measured) {
  return device::is_shared_file_system(measured.mount.type);
}

const char* scope_of(const Measurement& measured) {
  return is_shared(measured) ? "shared" : "node";
}

std::string how_text(const Measurement& measured) {
  const MeasureOptions& options = measured.options;
  return "files of " + config::size_text(options.bytes) +
         (options.direct ? ", O_DIRECT and fsync" : ", buffered and fsync") + ", " +
         std::to_string(options.repetitions) + " samples of " + printed("%g", options.seconds) +
         " s each";
}

std::string section(const std::string& title, const device::DeviceCurve& curve) {
  constexpr double kBars = 30;
  Table table;
  table.row({"streams", "MB/s", "lowest", "highest", "MB/s each", "fitted", ""});
  for (const device::CurvePoint& point : curve.points) {
    const auto bars = static_cast<size_t>(kBars * point.fitted / curve.peak_mb_per_s);
    const bool best = point.streams == curve.best_streams;
    table.row({std::to_string(point.streams), mb_text(point.median), mb_text(point.lowest),
               mb_text(point.highest), mb_text(point.median / point.streams), mb_text(point.fitted),
               std::string(bars, '=') + (best ? " best" : "")});
  }
  return title + "\n" + table.text();
}

std::string streams_text(unsigned streams) {
  return std::to_string(streams) + (streams == 1 ? " stream" : " streams");
}

std::string percent(double part) {
  return printed("%.0f %%", part * 100);
}

// ---- Remarks ------------------------------------------------------------------------------------

/// Of a file system that may be shared or not.
void remark_on_scope(const Measurement& measured, std::vector<std::string>& remarks) {
  const std::string& type = measured.mount.type;
  if (type.starts_with("fuse") || type == "9p" || type == "virtiofs" || type.empty()) {
    remarks.push_back("Whether " + (type.empty() ? "this file system" : type) +
                      " is shared by nodes cannot be told from its type: correct the scope if it "
                      "is.");
  }
}

void remark_on_time(const Measurement& measured, std::vector<std::string>& remarks) {
  const double warm_up = device::change_of(measured.warm_up);
  if (warm_up < kWarmUpFell) {
    remarks.push_back("Throughput fell by " + percent(1 - warm_up) +
                      " within the warm-up: the device, or a limit on it, starts fast and then "
                      "throttles. Where that had not ended, the figures are too high: measure "
                      "again with a longer --warm-up.");
  }
  const double drift = device::drift_of(measured.writes);
  if (drift < 1 - kDrifted) {
    remarks.push_back(
        "Throughput fell by " + percent(1 - drift) +
        " while it was measured: a cache that ran full, saved-up credit that was spent, or "
        "somebody else who began. What lasts is less than these figures: measure again with a "
        "longer --warm-up.");
  } else if (drift > 1 + kDrifted) {
    remarks.push_back("Throughput rose by " + percent(drift - 1) +
                      " while it was measured: somebody else may have ended. Measure again.");
  }
}

void remark_on_curve(const Measurement& measured, const std::vector<device::Sample>& samples,
                     const std::string& what, std::vector<std::string>& remarks) {
  const device::DeviceCurve curve = device::curve_of(samples);
  const auto wide = std::ranges::max_element(curve.points, {}, [](const device::CurvePoint& point) {
    return (point.highest - point.lowest) / point.median;
  });
  const double spread = (wide->highest - wide->lowest) / wide->median;
  if (spread > kWideSpread) {
    remarks.push_back("Samples of " + what + " with " + streams_text(wide->streams) +
                      " differ by " + percent(spread) +
                      " of their median: quieten the machine, or raise --seconds or "
                      "--repetitions.");
  }
  const auto far = std::ranges::max_element(curve.points, {}, [](const device::CurvePoint& point) {
    return std::abs(point.fitted / point.median - 1);
  });
  if (std::abs(far->fitted / far->median - 1) > kFarFromFit) {
    remarks.push_back("The median of " + what + " with " + streams_text(far->streams) + " is " +
                      percent(std::abs(far->fitted / far->median - 1)) +
                      " off a curve with one peak: noise, or a device with more than one.");
  }
  if (curve.points.size() > 1 && curve.best_streams == curve.points.back().streams) {
    remarks.push_back("The curve of " + what + " still rises at " +
                      streams_text(curve.best_streams) +
                      ": the best number may be above; try more with --streams.");
  }
  const unsigned cpus = std::max(measured.machine.cpus_allowed, 1u);
  for (const device::Sample& sample : samples) {
    if (sample.cpu_seconds < kProcessorsBusy * cpus * sample.seconds) continue;
    remarks.push_back("With " + streams_text(sample.streams) + " of " + what +
                      " the processors were busy all the time: they were the limit, not the "
                      "device.");
    break;
  }
}

nlohmann::ordered_json curve_json(const std::vector<device::Sample>& samples) {
  using Json = nlohmann::ordered_json;
  const device::DeviceCurve curve = device::curve_of(samples);
  Json points = Json::array();
  for (const device::CurvePoint& point : curve.points) {
    points.push_back({{"streams", point.streams},
                      {"lowest_mb_per_s", point.lowest},
                      {"median_mb_per_s", point.median},
                      {"highest_mb_per_s", point.highest},
                      {"fitted_mb_per_s", point.fitted}});
  }
  Json list = Json::array();
  for (const device::Sample& sample : samples) {
    list.push_back({{"streams", sample.streams},
                    {"repetition", sample.repetition},
                    {"start_s", sample.start_s},
                    {"seconds", sample.seconds},
                    {"bytes", sample.bytes},
                    {"cpu_seconds", sample.cpu_seconds},
                    {"mb_per_s", sample.mb_per_s()}});
  }
  return {{"best_streams", curve.best_streams},
          {"peak_mb_per_s", curve.peak_mb_per_s},
          {"drift", device::drift_of(samples)},
          {"points", std::move(points)},
          {"samples", std::move(list)}};
}

std::vector<std::pair<double, double>> fitted_curve(const device::DeviceCurve& curve) {
  std::vector<std::pair<double, double>> points;
  points.reserve(curve.points.size());
  for (const device::CurvePoint& point : curve.points) {
    points.emplace_back(point.streams, point.fitted);
  }
  return points;
}

std::string commented(const std::string& text) {
  std::string lines = "# ";
  for (const char c : wrapped(text, kWidth - 2, 0)) {
    lines += c;
    if (c == '\n') lines += "# ";
  }
  return lines + "\n";
}

}  // namespace

void remark_on_place(const std::string& type, std::vector<std::string>& remarks) {
  if (type == "tmpfs" || type == "ramfs") {
    remarks.push_back("This is " + type +
                      ": memory was measured, no device. Name a folder on the device.");
  } else if (type == "overlay") {
    remarks.emplace_back(
        "This is an overlay: measured was the device of its upper layer, with the overlay's own "
        "cost.");
  } else if (device::is_shared_file_system(type)) {
    remarks.push_back(
        type +
        " is shared by nodes, and was measured from this one alone: with streams on several nodes "
        "it may move more (this node's network is a limit of its own), and what others did "
        "meanwhile is in the figures.");
  }
}

std::string device_name(const Measurement& measured) {
  if (!measured.options.name.empty()) return measured.options.name;
  const std::string& mount = measured.mount.path;
  const std::string last = mount.substr(mount.rfind('/') + 1);
  return last.empty() ? "root" : last;
}

std::vector<std::string> measure_remarks(const Measurement& measured) {
  std::vector<std::string> remarks;
  remark_on_place(measured.mount.type, remarks);
  remark_on_scope(measured, remarks);
  remark_on_time(measured, remarks);
  remark_on_curve(measured, measured.writes, "writing", remarks);
  if (measured.reads.empty()) return remarks;
  remark_on_curve(measured, measured.reads, "reading", remarks);
  if (measured.still_cached > kCachedEnough) {
    remarks.push_back(percent(measured.still_cached) +
                      " of what was read lay in memory, and could not be dropped: the figures of "
                      "reading are not the device's. Try --direct.");
  } else {
    remarks.emplace_back(
        "Reads found the page cache empty; caches below it (a server's, a controller's, the host's "
        "of a virtual machine) cannot be emptied from here, and make reading look faster.");
  }
  return remarks;
}

std::string measure_text(const Measurement& measured) {
  const device::DeviceCurve curve = device::curve_of(measured.writes);
  std::string text = shown_name(measured.folder, kWidth) + " (" + measured.mount.type + " on " +
                     shown_name(measured.mount.path, kWidth) + "): " + how_text(measured) + "\n";
  text += section("Writing, all streams together", curve);
  if (!measured.reads.empty()) {
    text += section("Reading, all streams together", device::curve_of(measured.reads));
  }
  text += "Best: " + streams_text(curve.best_streams) + " (the fewest that write 97 % of " +
          mb_text(curve.peak_mb_per_s) + " MB/s, the peak of the fitted curve).\n";
  for (const std::string& remark : measure_remarks(measured)) {
    text += "- " + wrapped(remark, kWidth, 2) + "\n";
  }
  return text;
}

std::string measure_toml(const Measurement& measured) {
  const device::DeviceCurve curve = device::curve_of(measured.writes);
  std::string text = commented("ioweave measure, " + measured.date + ", " + measured.machine.host +
                               ", " + measured.mount.type + ": " + how_text(measured) +
                               ". Best: " + streams_text(curve.best_streams) + ".");
  for (const std::string& remark : measure_remarks(measured)) text += commented("- " + remark);
  config::Device described;
  described.name = device_name(measured);
  described.path = measured.folder;
  described.mb_per_s = curve.peak_mb_per_s;
  described.is_shared = is_shared(measured);
  described.curve = fitted_curve(curve);
  text += config::device_toml(described);
  if (!measured.reads.empty()) {
    text +=
        "# reading: " + config::curve_toml(fitted_curve(device::curve_of(measured.reads))) + "\n";
  }
  return text;
}

std::string measure_json(const Measurement& measured) {
  using Json = nlohmann::ordered_json;
  const MeasureOptions& options = measured.options;
  const device::DeviceCurve curve = device::curve_of(measured.writes);
  Json points = Json::array();
  for (const device::CurvePoint& point : curve.points) {
    points.push_back(Json::array({point.streams, rounded(point.fitted)}));
  }
  Json warm_up = Json::array();
  for (const device::Durable& entry : measured.warm_up) {
    warm_up.push_back({{"at_s", entry.at_s}, {"bytes", entry.bytes}});
  }
  Json report{{"type", "measure"},
              {"schema", "ioweave.measure/1"},
              {"date", measured.date},
              {"machine",
               {{"host", measured.machine.host},
                {"kernel", measured.machine.kernel},
                {"cpus_allowed", measured.machine.cpus_allowed}}},
              {"folder", measured.folder},
              {"mount", {{"path", measured.mount.path}, {"type", measured.mount.type}}},
              {"options",
               {{"streams", options.streams},
                {"seconds", options.seconds},
                {"repetitions", options.repetitions},
                {"file_bytes", options.bytes},
                {"warm_up_s", options.warm_up_s},
                {"direct", options.direct}}},
              {"device",
               {{"name", device_name(measured)},
                {"path", measured.folder},
                {"bandwidth", rounded(curve.peak_mb_per_s)},
                {"scope", scope_of(measured)},
                {"curve", std::move(points)}}},
              {"remarks", measure_remarks(measured)},
              {"write", curve_json(measured.writes)}};
  if (!measured.reads.empty()) report["read"] = curve_json(measured.reads);
  report["warm_up"] = std::move(warm_up);
  return report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ioweave::cli
