#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "base/atomic_file.hpp"
#include "report.hpp"

namespace tiom {
namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

const char* short_name(Variant variant) {
  return variant == Variant::blocking ? "blocking" : "non-blocking";
}

std::string header(const Report& report) {
  std::string line =
      format("%-5s %7s %8s  %10s %7s", "mode", "block", "compute", "standalone", "of bound");
  for (const Variant variant : report.variants) {
    if (variant == Variant::standalone) continue;
    line += format("  %12s %15s %7s", short_name(variant), "(quartiles)", "of bound");
  }
  return line + "  bound by\n";
}

std::string rate_text(double mb_per_s, bool limited) {
  return format(mb_per_s < 100 ? "%.1f%s" : "%.0f%s", mb_per_s, limited ? "*" : " ");
}

/// Without the sign, which the column beside it has.
std::string percent_text(double speed_up) {
  const std::string text = speed_up_text(speed_up);
  return text.substr(0, text.find(' '));
}

std::string speed_up_columns(const Report& report, const CellResult& cell, Variant variant) {
  const std::vector<double> ratios = paired_speed_ups(cell, variant);
  const VariantResult* const result = cell.find(variant);
  if (ratios.empty() || result == nullptr) return format("  %12s %15s %7s", "-", "", "");
  const Quartiles speed_up = quartiles(ratios);
  const VariantSummary summary = summary_of(cell, *result, report.cores);
  const std::string spread =
      "(" + percent_text(speed_up.first) + ".." + percent_text(speed_up.third) + ")";
  const std::string median = speed_up_text(speed_up.median) + (summary.limited ? "*" : " ");
  return format("  %12s %15s %5.0f %%", median.c_str(), spread.c_str(), summary.near_bound * 100);
}

std::string row(const Report& report, const CellResult& cell) {
  const VariantResult& base = cell.variants.front();
  const VariantSummary summary = summary_of(cell, base, report.cores);
  std::string line =
      format("%-5s %7s %8s  %10s %5.0f %%", std::string(mode_name(cell.cell.mode)).c_str(),
             size_text(cell.cell.block_bytes).c_str(), duration_text(cell.cell.compute_ns).c_str(),
             rate_text(summary.mb_per_s.median, summary.limited).c_str(), summary.near_bound * 100);
  for (const Variant variant : report.variants) {
    if (variant != Variant::standalone) line += speed_up_columns(report, cell, variant);
  }
  return line + (summary.bound.by_device() ? "  device\n" : "  compute\n");
}

}  // namespace

std::string workload_text(const Options& options) {
  return format("%s, %s, O_DIRECT %s, %u series, %s a run, at most %s",
                options.write ? "write" : "read",
                std::string(pattern_name(options.pattern)).c_str(), options.direct ? "on" : "off",
                options.series, size_text(options.bytes).c_str(),
                duration_text(options.time_limit_ns).c_str());
}

std::string table_text(const Report& report) {
  std::string text = report.runtime + format(", %u workers; ", report.workers) +
                     workload_text(report.options) + "\n";
  text += "Standalone in MB/s, the others as speed-up over it: median of the pairs.\n";
  text += header(report);
  bool limited = false;
  for (const CellResult& cell : report.cells) {
    text += row(report, cell);
    for (const VariantResult& variant : cell.variants) {
      for (const RunFigures& run : variant.runs) limited |= run.limited;
    }
  }
  if (limited) text += "* a run reached the time limit and is rated by its rate\n";
  const std::string remark = load_remark(report.machine);
  return remark.empty() ? text : text + remark + "\n";
}

void write_text(const std::string& path, const std::string& text) {
  const int result =
      path == "-" ? ioweave::write_all(1, text) : ioweave::write_atomically(path, text);
  if (result != 0) {
    throw std::runtime_error("cannot write '" + path + "': " + std::strerror(-result));
  }
}

}  // namespace tiom
