#include "cli/why_text.hpp"

#include <array>
#include <string_view>
#include <vector>

#include "base/nearest_name.hpp"
#include "cli/format.hpp"
#include "config/glob.hpp"
#include "config/run_config.hpp"

namespace ioweave::cli {
namespace {

using choice::Way;
using stats::CallClass;
using stats::ChoiceReport;
using stats::Degrade;
using stats::EarlyHelp;
using stats::FileReport;
using stats::ReadHelp;

constexpr size_t kPathColumns = 80;

std::string times(double ratio) {
  return printed(ratio < 10 ? "%.2f" : "%.0f", ratio) + " times as fast";
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
    return "compared, they were " + times(1 / plain.measured) + " as plain calls";
  }
  if (choice.in_use != Way::plain) {
    return "expected to be " + times(used.expected) +
           " as plain calls, as a profile or another file "
           "told; not compared here";
  }
  std::string text;
  bool is_examined = false;
  for (size_t i = 1; i < choice::kWays; ++i) {
    const ChoiceReport::OfWay& other = choice.of[i];
    const auto noun = std::string(kSaid[i].noun);
    if (other.measured > 0) {
      add_sentence(text, "compared, " + noun + " was " + times(other.measured) + " as they are");
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

std::string words_of(ReadHelp why) {
  return std::string(stats::kReadHelpWords[static_cast<size_t>(why)]);
}

std::string words_of(EarlyHelp why) {
  return std::string(stats::kEarlyHelpWords[static_cast<size_t>(why)]);
}

/// "400 MB/s with help, 250 MB/s without it, computation included (1.60 times as fast)"; nothing
/// where help was not measured.
std::string paces_text(const stats::Paces& paces) {
  if (paces.helped_mb_per_s <= 0) return {};
  const std::string with_help = mb_text(paces.helped_mb_per_s) + " MB/s with help";
  if (paces.alone_mb_per_s <= 0) return with_help + ", not compared";
  const double faster = paces.helped_mb_per_s / paces.alone_mb_per_s;
  return with_help + ", " + mb_text(paces.alone_mb_per_s) +
         " MB/s without it, computation included (" +
         (faster >= 1 ? times(faster) : "slower by " + percent_text(1 / faster - 1)) + ")";
}

std::string behind_colon(const std::string& text) {
  return text.empty() ? "" : ": " + text;
}

/// Since when bytes of a file were brought in ahead, and why, or why no more of them were.
std::string helped_text(const stats::ReadHelpReport& help) {
  if (help.why == ReadHelp::replayed) return "  The plan that was replayed did that.\n";
  if (help.why == ReadHelp::unknown || help.since_bytes == 0) return {};
  const std::string since = "  Help began when " + bytes_text(help.since_bytes) + " were read";
  const std::string paces = paces_text(help.paces);
  if (help.why == ReadHelp::budget) {
    return since + ", and was held back by the bandwidth of its [[device]]" + behind_colon(paces) +
           ".\n";
  }
  if (help.why == ReadHelp::helped) {
    const bool is_compared = help.paces.alone_mb_per_s > 0;
    return since + (is_compared ? ", and was compared" : ", since " + words_of(help.why)) +
           behind_colon(paces) + ".\n";
  }
  return since + ", and has ended: " + words_of(help.why) +
         behind_colon(help.why == ReadHelp::slower ? paces : "") + ".\n";
}

std::string reads_text(const FileReport& file) {
  if (file.prefetched_bytes > 0) {
    return "  " + bytes_text(file.prefetched_bytes) +
           " were brought into the page cache ahead of "
           "it, of which " +
           bytes_text(file.prefetched_used_bytes) + " were read.\n" + helped_text(file.read_help);
  }
  if (!config::overlaps(file.policy)) return "  Nothing is brought in ahead under this policy.\n";
  const bool tells_degrade =
      file.degrade != Degrade::none && !stats::is_decided(file.read_help.why);
  return "  Nothing was brought in ahead: " +
         (tells_degrade ? std::string(stats::kDegradeNames[static_cast<size_t>(file.degrade)])
                        : words_of(file.read_help.why)) +
         ".\n";
}

/// Why nothing of a file was written early. The watcher may not have seen one that it would not
/// help.
EarlyHelp not_early_reason(const FileReport& file) {
  const EarlyHelp why = file.early_help.why;
  if (why != EarlyHelp::not_followed) return why;
  const std::string& kind = file.file_system;
  if (!kind.empty() && kind != "ext4" && kind != "xfs") return EarlyHelp::file_system;
  const bool is_direct = file.degrade == Degrade::direct || !file.choices.empty();
  return is_direct ? EarlyHelp::waits : why;
}

/// What is said of a file of which nothing was written early; nothing where that is not known.
std::string not_early_text(const stats::RunReport& report, const FileReport& file) {
  const stats::EarlyHelpReport& help = file.early_help;
  if (help.why == EarlyHelp::unknown) return {};
  if (!config::overlaps(file.policy)) return "  Nothing is written early under this policy.\n";
  if (report.config.early_writeback == config::EarlyWriteback::never) {
    return "  Nothing was written early: the setting early_writeback is never.\n";
  }
  return "  Nothing was written early: " + words_of(not_early_reason(file)) +
         (help.why == EarlyHelp::slower ? behind_colon(paces_text(help.paces)) : "") + ".\n";
}

std::string early_text(const FileReport& file) {
  const stats::EarlyHelpReport& help = file.early_help;
  std::string text = "  " + bytes_text(file.early.bytes) + " were written early, in " +
                     std::to_string(file.early.cycles) +
                     (file.early.cycles == 1 ? " cycle" : " cycles") +
                     " from one sync to the next; " + bytes_text(file.early.lost_bytes) +
                     " of that for nothing.\n";
  const std::string paces = paces_text(help.paces);
  if (help.why == EarlyHelp::early && help.paces.alone_mb_per_s > 0) {
    text += "  Of files of its folder, the quickest were written at " + paces + ".\n";
  } else if (help.why != EarlyHelp::early && help.why != EarlyHelp::unknown) {
    text += "  In the end nothing was: " + words_of(help.why) +
            behind_colon(help.why == EarlyHelp::slower ? paces : "") + ".\n";
  }
  return text;
}

/// What policy `behind` does about a file, and who chose it.
std::string held_text(const stats::RunReport& report, const FileReport& file) {
  if (file.policy != config::RunPolicy::behind) return {};
  const uint32_t rule = config::matching_rule(report.config, file.path);
  const std::string by =
      rule == config::kNoRule
          ? "the policy of the run"
          : "the rule for '" + without_controls(report.config.rule[rule].glob) + "'";
  if (file.degrade != Degrade::none) {
    return "  Its writes should be held back, by " + by + ", and are the program's own calls: " +
           std::string(stats::kDegradeNames[static_cast<size_t>(file.degrade)]) + ".\n";
  }
  return "  Its writes may be held back, by " + by + "; of all files of the run " +
         std::to_string(report.behind.calls) + " were.\n";
}

std::string writes_text(const stats::RunReport& report, const FileReport& file) {
  return held_text(report, file) +
         (file.early.bytes > 0 ? early_text(file) : not_early_text(report, file));
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
  const stats::ReadHelpReport& help = file.read_help;
  const bool has_reads = file.of(CallClass::read).calls > 0;
  const bool is_read = has_reads || file.prefetched_bytes > 0 || help.read_bytes > 0;
  const bool is_written = file.of(CallClass::write).calls > 0 || file.early.bytes > 0;
  if (is_read) {
    text += "  read " +
            (has_reads ? calls_text(file, CallClass::read)
                       : bytes_text(help.read_bytes) + ", by no observed call") +
            "\n" + reads_text(file);
  }
  if (is_written) {
    text += "  written " + calls_text(file, CallClass::write) + "\n" + writes_text(report, file);
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
