// One page without anything from elsewhere: no scripts, styles and pictures inside. It is
// well-formed as XML, too.

#include <cstdio>

#include "picture.hpp"
#include "report.hpp"
#include "sweep.hpp"

namespace tiom {
namespace {

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string color_text(const Color& color) {
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", color.red, color.green, color.blue);
  return text;
}

std::string svg_box(const Picture::Box& box) {
  std::string text = "<rect x=\"" + number(box.x) + "\" y=\"" + number(box.y) + "\" width=\"" +
                     number(box.width) + "\" height=\"" + number(box.height) + "\" fill=\"" +
                     color_text(box.fill) + "\"";
  if (box.tip.empty()) return text + "/>\n";
  return text + " class=\"cell\"><title>" + escaped(box.tip) + "</title></rect>\n";
}

std::string svg_text(const Picture::Text& text) {
  const char* const anchor = text.anchor == Picture::Anchor::start    ? "start"
                             : text.anchor == Picture::Anchor::middle ? "middle"
                                                                      : "end";
  return "<text x=\"" + number(text.x) + "\" y=\"" + number(text.y) + "\" font-size=\"" +
         number(text.size) + "\" text-anchor=\"" + anchor + "\"" +
         (text.bold ? " font-weight=\"bold\"" : "") + " fill=\"" + color_text(text.color) + "\">" +
         escaped(text.text) + "</text>\n";
}

std::string svg(const Picture& picture) {
  std::string text = "<svg width=\"" + number(picture.width) + "\" height=\"" +
                     number(picture.height) + "\" viewBox=\"0 0 " + number(picture.width) + " " +
                     number(picture.height) + "\" role=\"img\">\n";
  for (const Picture::Box& box : picture.boxes) text += svg_box(box);
  for (const Picture::Text& words : picture.texts) text += svg_text(words);
  return text + "</svg>\n";
}

std::string table_cell(const std::string& text, bool number_like = true) {
  return std::string(number_like ? "<td class=\"n\">" : "<td>") + escaped(text) + "</td>";
}

std::string printed(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string table_row(const Report& report, const CellResult& cell, const VariantResult& variant) {
  const VariantSummary summary = summary_of(cell, variant, report.cores);
  std::string text = "<tr>" + table_cell(std::string(mode_name(cell.cell.mode)), false) +
                     table_cell(size_text(cell.cell.block_bytes)) +
                     table_cell(duration_text(cell.cell.compute_ns)) +
                     table_cell(std::string(variant_name(variant.variant)), false);
  text += table_cell(printed("%.4g", summary.mb_per_s.median) + (summary.limited ? "*" : "")) +
          table_cell(printed("%.3g", summary.seconds.median));
  const std::vector<double> ratios = paired_speed_ups(cell, variant.variant);
  if (variant.variant == Variant::standalone || ratios.empty()) {
    text += "<td></td><td></td>";
  } else {
    const Quartiles ratio = quartiles(ratios);
    text += table_cell(speed_up_text(ratio.median)) +
            table_cell(speed_up_text(ratio.first) + " to " + speed_up_text(ratio.third));
  }
  text += table_cell(printed("%.0f %%", summary.near_bound * 100)) +
          table_cell(summary.bound.by_device() ? "device" : "computation", false);
  return text + "</tr>\n";
}

std::string table(const Report& report) {
  std::string text =
      "<table>\n<thead><tr><th>mode</th><th>block</th><th>compute</th><th>variant</th>"
      "<th>MB/s</th><th>seconds</th><th>speed-up</th><th>quartiles</th><th>of the bound</th>"
      "<th>bound by</th></tr></thead>\n<tbody>\n";
  for (const CellResult& cell : report.cells) {
    for (const VariantResult& variant : cell.variants) text += table_row(report, cell, variant);
  }
  return text + "</tbody>\n</table>\n";
}

std::string fact(const std::string& name, const std::string& value) {
  return "<dt>" + escaped(name) + "</dt><dd>" + escaped(value) + "</dd>\n";
}

std::string command_text(const Report& report) {
  std::string text = "ioweave tiom";
  for (const std::string& word : report.options.command) text += " " + word;
  return text;
}

std::string facts(const Report& report) {
  const Machine& machine = report.machine;
  const Calibration& calibration = report.calibration;
  return "<dl>\n" + fact("Command", command_text(report)) + fact("Date", machine.date) +
         fact("Runtime", report.runtime + ", " + std::to_string(report.workers) + " workers") +
         fact("Ioweave", "engine " + report.engine + ", tasks " + report.tasks) +
         fact("Work", workload_text(report.options)) + fact("Host", machine.host) +
         fact("Kernel", "Linux " + machine.kernel) +
         fact("Processor",
              machine.processor + ", " + std::to_string(machine.cores) + " may be used") +
         fact("File system", machine.file_system + " on " + machine.device) +
         fact("Calibration", "1 ms of computation is " + printed("%.0f", calibration.turns_per_ms) +
                                 " turns with " + std::to_string(calibration.threads) +
                                 " threads at once; spread of the pieces " +
                                 printed("%.1f", calibration.spread * 100) + " %, and 1 ms took " +
                                 printed("%.3f", calibration.checked_ms) + " ms when tried") +
         "</dl>\n";
}

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Task I/O Meter</title>
<style>
body { font: 15px/1.5 sans-serif; color: #18181b; background: #fff; margin: 2em auto;
       max-width: 1400px; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
p { max-width: 50em; }
.map { overflow-x: auto; }
svg { font-family: sans-serif; display: block; }
rect.cell:hover { stroke: #18181b; stroke-width: 2; }
svg text { pointer-events: none; }
table { border-collapse: collapse; font-size: 14px; }
th, td { padding: 2px 12px; text-align: left; border-bottom: 1px solid #e4e4e7; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 1.5em; }
dt { color: #5f6368; } dd { margin: 0; overflow-wrap: anywhere; }
</style>
</head>
<body>
<h1>Task I/O Meter</h1>
)";

constexpr const char* kReading = R"(<p>Each cell is one combination of block size and computation.
The first map of a mode is the bandwidth with plain system calls inside the tasks. The others are the
speed-up of task-aware I/O over it, the median of runs in pairs: white is no difference, green is
faster, red is slower. Rest the pointer on a cell for its figures.</p>
)";

constexpr const char* kBound = R"(<p>The bound of a run is the longer of its computation on all
cores and its bytes at the best bandwidth that the device has shown. 100 % cannot be beaten. A star
marks runs that reached the time limit and are rated by their rate.</p>
)";

}  // namespace

std::string html_text(const Report& report) {
  std::string text = kHead;
  text += "<p>" + escaped(heading_lines(report)[0]) + "; " + escaped(heading_lines(report)[1]) +
          "</p>\n" + kReading;
  if (const std::string remark = load_remark(report.machine); !remark.empty()) {
    text += "<p><strong>" + escaped(remark) + "</strong></p>\n";
  }
  for (const Mode mode : report.options.modes) {
    text += "<div class=\"map\">\n" + svg(mode_picture(report, mode)) + "</div>\n";
  }
  text += "<h2>Figures</h2>\n" + std::string(kBound) + table(report);
  text += "<h2>Machine</h2>\n" + facts(report);
  return text + "</body>\n</html>\n";
}

}  // namespace tiom
