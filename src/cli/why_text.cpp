#include "cli/why_text.hpp"

#include <array>
#include <string_view>
#include <vector>

#include "base/nearest_name.hpp"
#include "cli/format.hpp"
#include "config/run_config.hpp"

namespace ioweave::cli {
namespace {

using choice::Way;
using stats::CallClass;
using stats::ChoiceReport;
using stats::Degrade;
using stats::FileReport;

constexpr size_t kPathColumns = 80;

std::string times(double ratio) {
  return printed(ratio < 10 ? "%.2f" : "%.0f", ratio) + " times as fast as";
}

/// What is said of a way: how calls are made, and what doing so is called.
struct Said {
  std::string_view done;
  std::string_view noun;
};
// In the order of choice::kWayNames.
constexpr std::array<Said, choice::kWays> kSaid{
    {{"are the program's own calls", "plain calls"},
     {"go through the engine", "the engine"},
     {"go through the engine in pieces", "pieces"},
     {"are held back, and written later together", "holding back"},
     {"are read into large pages, and copied from there", "bouncing"}}};

/// Why the way in use is that.
std::string reason_of(const ChoiceReport& choice) {
  const ChoiceReport::OfWay& plain = choice.of_way(Way::plain);
  const ChoiceReport::OfWay& used = choice.of_way(choice.in_use);
  if (choice.in_use != Way::plain && plain.measured > 0) {
    return "compared, they were " + times(1 / plain.measured) + " plain calls";
  }
  if (choice.in_use != Way::plain) {
    return "expected to be " + times(used.expected) +
           " plain calls, as a profile or another file "
           "told; not compared here";
  }
  std::string text;
  bool is_examined = false;
  for (size_t i = 1; i < choice::kWays; ++i) {
    const ChoiceReport::OfWay& other = choice.of[i];
    const auto noun = std::string(kSaid[i].noun);
    if (other.measured > 0) {
      add_sentence(text, "compared, " + noun + " was " + times(other.measured) + " they are");
    } else if (other.examined > 0) {
      add_sentence(text, noun + " was tried, and given up at once");
    } else if (other.refused > 0) {
      add_sentence(text, noun + " was refused " + std::to_string(other.refused) + " times");
    }
    is_examined = is_examined || other.examined > 0 || other.refused > 0;
  }
  if (is_examined) return text;
  return "nothing else was tried: they took " + seconds_text(plain.seconds) +
         " in all, and something is tried after 64 calls and 0.025 s";
}

std::string pieces_text(const choice::Pieces& pieces) {
  return " of " + bytes_text(pieces.bytes) + ", " + std::to_string(pieces.at_once) + " at once";
}

std::string choice_text(const ChoiceReport& choice) {
  std::string text = "  Its " + calls_of_kind(choice.operation, choice.size_class) + " " +
                     std::string(kSaid[static_cast<size_t>(choice.in_use)].done) +
                     (choice.in_use == Way::pieces ? pieces_text(choice.pieces) : "") +
                     (choice.used_since_bytes > 0
                          ? ", since " + bytes_text(choice.used_since_bytes) + " were moved"
                          : "") +
                     ":\n  " + reason_of(choice) + ".\n";
  Table table;
  table.row({"way", "calls", "bytes", "MB/s", "compared", "expected", ""});
  for (size_t i = 0; i < choice::kWays; ++i) {
    const ChoiceReport::OfWay& way = choice.of[i];
    if (!way.is_usable && way.calls == 0) continue;
    const bool is_used = static_cast<Way>(i) == choice.in_use;
    table.row({std::string(choice::kWayNames[i]), std::to_string(way.calls), bytes_text(way.bytes),
               rate_text(way.bytes, way.seconds),
               is_used            ? "1"
               : way.measured > 0 ? printed("%.2f", way.measured)
                                  : "-",
               way.expected > 0 ? printed("%.2f", way.expected) : "-",
               way.refused > 0 ? std::to_string(way.refused) + " refused" : ""});
  }
  return text + table.text();
}

std::string calls_text(const FileReport& file, CallClass which) {
  const stats::CallTotals& totals = file.of(which);
  return bytes_text(totals.bytes) + " by " + std::to_string(totals.calls) + " calls in " +
         seconds_text(totals.seconds);
}

std::string reads_text(const FileReport& file) {
  if (file.prefetched_bytes > 0) {
    return "  " + bytes_text(file.prefetched_bytes) +
           " were brought into the page cache ahead of "
           "it, of which " +
           bytes_text(file.prefetched_used_bytes) + " were read.\n";
  }
  if (!config::overlaps(file.policy)) return "  Nothing is brought in ahead under this policy.\n";
  if (file.degrade == Degrade::none) {
    return "  Nothing was brought in ahead: its reads were too few or in no order, or found what "
           "they wanted in the page cache.\n";
  }
  return "  Nothing was brought in ahead: " +
         std::string(stats::kDegradeNames[static_cast<size_t>(file.degrade)]) + ".\n";
}

std::string writes_text(const FileReport& file) {
  if (file.early.bytes == 0) return {};
  return "  " + bytes_text(file.early.bytes) + " were written early, in " +
         std::to_string(file.early.cycles) + " cycles from one sync to the next; " +
         bytes_text(file.early.lost_bytes) + " of that for nothing.\n";
}

}  // namespace

std::string calls_of_kind(choice::Operation operation, uint32_t size_class) {
  const std::string calls = operation == choice::Operation::read ? "reads" : "writes";
  if (size_class == choice::kVectored) return calls + " with several buffers";
  if (size_class == choice::kClassBytes.size()) {
    return calls + " of more than " + bytes_text(choice::kClassBytes.back());
  }
  return calls + " of up to " + bytes_text(choice::kClassBytes[size_class]);
}

std::string large_pages_text(const stats::LargePagesReport& report) {
  using Verdict = choice::LargePages::Verdict;
  std::string text;
  bool is_known = false;
  for (const stats::LargePagesReport::OfKind& kind : report.kinds) {
    is_known = is_known || kind.verdict != Verdict::unknown;
    if (kind.verdict != Verdict::pays) continue;
    text += (text.empty() ? "" : ", ") + calls_of_kind(kind.operation, kind.size_class) +
            printed(" %.1f times as fast", kind.faster);
  }
  if (!text.empty()) return text;
  return is_known ? "which made no transfer faster" : "too few transfers to compare";
}

const FileReport* find_file(const stats::RunReport& report, const std::string& name,
                            std::string& why) {
  const FileReport* found = nullptr;
  std::vector<std::string_view> paths;
  for (const FileReport& file : report.files) {
    if (file.path == name) return &file;
    paths.push_back(file.path);
    const bool is_end = file.path.ends_with("/" + name);
    if (is_end && found != nullptr) {
      why = quoted_name(name) + " may be " + quoted_name(found->path) + " or " +
            quoted_name(file.path) + ": write more of the path";
      return nullptr;
    }
    if (is_end) found = &file;
  }
  if (found != nullptr) return found;
  why = "the run touched no file " + quoted_name(name);
  const std::string_view nearest = nearest_name(name, paths);
  if (!nearest.empty()) why += "; did you mean " + quoted_name(nearest) + "?";
  why += paths.empty() ? "; nor any other that was observed" : "; report -v lists its files";
  return nullptr;
}

std::string why_text(const stats::RunReport& report, const FileReport& file) {
  std::string text = shown_name(file.path, kPathColumns) + "  (policy " +
                     std::string(config::kRunPolicyNames[static_cast<size_t>(file.policy)]) +
                     (file.policy == report.config.policy ? "" : " by a rule") +
                     (file.file_system.empty() ? "" : ", " + file.file_system) + ")\n";
  const bool is_read = file.of(CallClass::read).calls > 0 || file.prefetched_bytes > 0;
  const bool is_written = file.of(CallClass::write).calls > 0 || file.early.bytes > 0;
  if (is_read) text += "  read " + calls_text(file, CallClass::read) + "\n" + reads_text(file);
  if (is_written) {
    text += "  written " + calls_text(file, CallClass::write) + "\n" + writes_text(file);
  }
  if (file.hidden_seconds != 0) {
    text += file.hidden_seconds > 0 ? "  That saved " + seconds_text(file.hidden_seconds) +
                                          ", by the paces with and without.\n"
                                    : "  That cost " + seconds_text(-file.hidden_seconds) +
                                          ", by the paces with and without.\n";
  }
  for (const ChoiceReport& choice : file.choices) text += choice_text(choice);
  const stats::LargePagesReport& large = report.totals.large_pages;
  if (file.degrade == Degrade::direct && large.bytes > 0) {
    text += "  Buffers of the run were laid in large pages (" + bytes_text(large.bytes) +
            "): " + large_pages_text(large) + ".\n";
  }
  if (file.choices.empty() && (is_read || is_written)) {
    text +=
        "  Its calls are the program's own: other ways are tried with O_DIRECT alone, under "
        "policies auto, sync and writes.\n";
  }
  return text;
}

}  // namespace ioweave::cli
