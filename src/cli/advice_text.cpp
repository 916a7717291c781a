// What `ioweave advise` prints: the text for people, and JSON.

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include <nlohmann/json.hpp>

#include "cli/advice.hpp"
#include "cli/format.hpp"

namespace ioweave::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kWidth = 96;
constexpr std::array<std::string_view, 5> kLimitNames{
    "computation", "the device of the input", "the device of the output",
    "the one device of input and output", "processor time on all cores"};
constexpr std::array<std::string_view, 4> kWayNames{"prefetch", "write-behind", "both",
                                                    "I/O tasks"};

std::string_view name_of(Way way) {
  return kWayNames[static_cast<size_t>(way)];
}

std::string title_of(const Advice& advice, const Prediction& prediction) {
  std::string title(name_of(prediction.way));
  if (prediction.way == Way::tasks) return title + ", " + std::to_string(advice.cores) + " cores";
  if (prediction.way != Way::prefetch) {
    title += ", " + std::to_string(prediction.buffers) + " buffers";
  }
  if (prediction.devices > 1) title += ", " + std::to_string(prediction.devices) + " devices";
  return title;
}

/// The best on several devices, if they gain 5 % of the time beyond the best on one.
const Prediction* best_on_several(const Advice& advice, Way way) {
  const Prediction* const on_one = best_of_way(advice, way);
  const Prediction* best = nullptr;
  for (const Prediction& each : advice.predictions) {
    if (each.way != way || each.devices == 1) continue;
    if (best == nullptr || each.seconds < best->seconds * 0.99) best = &each;
  }
  const bool gains = best != nullptr && on_one != nullptr &&
                     best->seconds < on_one->seconds - model::kWorthIt * advice.plain_s;
  return gains ? best : nullptr;
}

void add_row(Table& table, const Advice& advice, const Prediction* prediction) {
  if (prediction == nullptr) return;
  const double gain = advice.gain(*prediction);
  std::string verdict = gain >= model::kWorthIt ? "worth it" : "not worth it";
  if (prediction->way == Way::tasks) {
    verdict = "at least, and only if no item needs another's result";
  }
  table.row({title_of(advice, *prediction), printed("%.3f s", prediction->seconds),
             printed("%+.1f %%", -100 * gain), verdict});
}

std::string phases_text(const Advice& advice) {
  Table table;
  table.row({"phase", "n", "read", "R", "C", "W", "written"});
  for (const model::Phase& phase : advice.phases) {
    const auto each = [&](double seconds) {
      return seconds > 0 ? printed("%.3f ms", 1e3 * seconds / phase.items) : std::string("-");
    };
    table.row({printed("%.2f", phase.begin_s) + printed(" to %.2f s", phase.end_s),
               printed("%.0f", phase.items), bytes_text(whole(phase.read_bytes)),
               each(phase.read_s), each(phase.compute_s), each(phase.write_s),
               bytes_text(whole(phase.write_bytes))});
  }
  return table.text();
}

std::string devices_text(const Advice& advice) {
  std::string text;
  if (advice.rates.read_bytes_per_s > 0) {
    text +=
        "  The input's device reads " + printed("%.0f MB/s", advice.rates.read_bytes_per_s / 1e6);
  }
  if (const auto points = advice.write_curve.points(); !points.empty()) {
    text += (text.empty() ? "  The output's device writes " : ", the output's writes ") +
            printed("%.0f MB/s", points.front().mb_per_s);
    if (points.size() > 1) {
      text += printed(" with %.0f", points.front().streams) +
              (points.front().streams == 1 ? " stream, " : " streams, ") +
              printed("%.0f MB/s", points.back().mb_per_s) +
              printed(" with %.0f", points.back().streams);
    }
  }
  return text.empty() ? text : text + ".\n";
}

std::string predictions_text(const Advice& advice) {
  Table table;
  table.row({"", "time", "change", ""});
  table.row({"as it is", printed("%.3f s", advice.plain_s), "", "observed"});
  for (const Way way : {Way::prefetch, Way::write_behind, Way::both, Way::tasks}) {
    add_row(table, advice, best_of_way(advice, way));
    add_row(table, advice, best_on_several(advice, way));
  }
  return table.text() + "  No overlap of these devices with one thread can take less than " +
         printed("%.3f s", advice.bound.seconds) + ": " +
         std::string(kLimitNames[static_cast<size_t>(advice.bound.limit)]) + " is the limit.\n";
}

std::string indented(const std::string& lines) {
  std::string text = "  ";
  for (size_t i = 0; i < lines.size(); ++i) {
    text += lines[i];
    if (lines[i] == '\n' && i + 1 < lines.size()) text += "  ";
  }
  return text;
}

std::string ranking_text(const stats::RunReport& report, const Advice& advice) {
  std::string text;
  for (const Prediction* const each : ranking(advice)) {
    text += (text.empty() ? "Do this: " : "Or: ") + title_of(advice, *each) +
            printed(", %.1f %% less time:\n", 100 * advice.gain(*each)) +
            indented(how_to(report, advice, *each));
  }
  if (!text.empty()) return text;
  double most = 0;
  for (const Prediction& each : advice.predictions) {
    if (each.way != Way::tasks && each.devices == 1) most = std::max(most, advice.gain(each));
  }
  return "Not worth it: no overlap is predicted to save 5 % of the time; the most is " +
         printed("%.1f %%", 100 * most) + printed(" (%.3f s).\n", most * advice.plain_s);
}

Json line_json(const model::Line& line) {
  return {{"latency_s", line.latency_s}, {"s_per_byte", line.s_per_byte}};
}

Json phases_json(const Advice& advice) {
  Json phases = Json::array();
  for (const model::Phase& phase : advice.phases) {
    phases.push_back({{"begin_s", phase.begin_s},
                      {"end_s", phase.end_s},
                      {"items", phase.items},
                      {"read_bytes", phase.read_bytes},
                      {"read_s", phase.read_s},
                      {"compute_s", phase.compute_s},
                      {"write_s", phase.write_s},
                      {"write_bytes", phase.write_bytes}});
  }
  return phases;
}

Json prediction_json(const Advice& advice, const Prediction& prediction) {
  Json object{{"way", name_of(prediction.way)}};
  if (prediction.lookahead_bytes > 0) object["lookahead_bytes"] = prediction.lookahead_bytes;
  if (prediction.way == Way::tasks) {
    object["cores"] = advice.cores;
  } else if (prediction.way != Way::prefetch) {
    object["buffers"] = prediction.buffers;
    object["devices"] = prediction.devices;
  }
  object["seconds"] = prediction.seconds;
  object["gain"] = advice.gain(prediction);
  return object;
}

/// Above 0: predicted longer than measured.
double error_of(const Verified& verified) {
  return verified.expected.seconds / verified.measured_s - 1;
}

}  // namespace

std::string advice_text(const stats::RunReport& report, const Advice& advice) {
  std::string text = "ioweave advise: " + shown_command(report.command, 80) + "\n" +
                     phases_text(advice) + devices_text(advice) + predictions_text(advice) +
                     ranking_text(report, advice);
  for (const std::string& remark : advice.remarks) {
    text += "- " + wrapped(remark, kWidth, 2) + "\n";
  }
  return text;
}

std::string verified_text(const Advice& advice) {
  if (!advice.verified) return {};
  const auto& [expected, measured_s, was_cold] = *advice.verified;
  Table table;
  table.row({"verified", "predicted", "measured", "error", ""});
  table.row({title_of(advice, expected), printed("%.3f s", expected.seconds),
             printed("%.3f s", measured_s), printed("%+.1f %%", 100 * error_of(*advice.verified)),
             was_cold ? "input dropped from the page cache before"
                      : "input in the page cache, as observed"});
  return table.text();
}

std::string advice_json(const stats::RunReport& report, const Advice& advice) {
  Json predictions = Json::array();
  for (const Prediction& each : advice.predictions) {
    predictions.push_back(prediction_json(advice, each));
  }
  Json best = Json::object();  // of each way, what the text shows
  for (const Way way : {Way::prefetch, Way::write_behind, Way::both, Way::tasks}) {
    const Prediction* const each = best_of_way(advice, way);
    if (each != nullptr) best[std::string(name_of(way))] = prediction_json(advice, *each);
  }
  Json ranked = Json::array();
  for (const Prediction* const each : ranking(advice)) {
    Json entry = prediction_json(advice, *each);
    entry["how"] = how_to(report, advice, *each);
    ranked.push_back(std::move(entry));
  }
  Json curve = Json::array();
  for (const auto& [streams, mb_per_s] : advice.write_curve.points()) {
    curve.push_back({streams, mb_per_s});
  }
  const bool is_worth_it = !ranked.empty();
  Json object{{"type", "advice"},
              {"schema", "ioweave.advice/1"},
              {"command", report.command},
              {"pid", advice.process.pid},
              {"cores", advice.cores},
              {"plain_s", advice.plain_s},
              {"bound_s", advice.bound.seconds},
              {"limit", kLimitNames[static_cast<size_t>(advice.bound.limit)]},
              {"read_file", advice.process.read_file},
              {"written_file", advice.process.written_file},
              {"one_device", advice.rates.one_device},
              {"read_mb_per_s", advice.rates.read_bytes_per_s / 1e6},
              {"write_curve", std::move(curve)},
              {"read", line_json(advice.read)},
              {"write", line_json(advice.write)},
              {"phases", phases_json(advice)},
              {"predictions", std::move(predictions)},
              {"best", std::move(best)},
              {"worth_it", is_worth_it},
              {"ranking", std::move(ranked)},
              {"remarks", advice.remarks}};
  if (advice.verified) {
    Json verified = prediction_json(advice, advice.verified->expected);
    verified["measured_s"] = advice.verified->measured_s;
    verified["error"] = error_of(*advice.verified);
    verified["was_cold"] = advice.verified->was_cold;
    object["verified"] = std::move(verified);
  }
  return object.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ioweave::cli
