#pragma once

// The run file: what `ioweave run -o FILE` leaves behind and every later tool starts from. JSON
// lines, one object a line, each with a "type": first "run", then one "process" per process image,
// one "file" per path, last "summary". Python runtimes write the same schema with types of their
// own. A file without its summary is incomplete. docs/run-file.md is the schema; a reader ignores
// keys and types it does not know and takes a degrade reason it does not know for "other", so that
// all three may be added without a new version.

#include <string>
#include <string_view>

#include "stats/run_report.hpp"

namespace ioweave::stats {

inline constexpr std::string_view kRunSchema = "ioweave.run/2";
/// Is read as well: `hidden_s` was a guess from times in flight there, and never negative.
inline constexpr std::string_view kFirstRunSchema = "ioweave.run/1";

/// The whole run file as text. Bytes of names that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string run_file_text(const RunReport& report);

/// One object of type "report": the summary, the run and the files. What --json prints.
[[nodiscard]] std::string report_json(const RunReport& report);

/// Parses and checks a run file. On failure false and, in `why`, the line and what is wrong there.
[[nodiscard]] bool parse_run_file(std::string_view text, RunReport& report, std::string& why);

/// The same from a file.
[[nodiscard]] bool read_run_file(const std::string& path, RunReport& report, std::string& why);

}  // namespace ioweave::stats
