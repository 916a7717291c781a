#pragma once

// The run file: `ioweave run -o FILE` writes it, and every later tool reads it. It consists of JSON
// lines, one object a line, each with a "type": first "run", then a "process" for each process
// image and a "file" for each path, last "summary". Python runtimes write the same schema with
// types of their own. A file without its summary is incomplete. docs/run-file.md is the schema. A
// reader ignores keys and types that it does not know, and takes an unknown degrade reason for
// "other", so that all three may be added without a new version.

#include <string>
#include <string_view>

#include "stats/run_report.hpp"

namespace ioweave::stats {

inline constexpr std::string_view kRunSchema = "ioweave.run/2";
/// The older schema, which can be read, too. Its `hidden_s` was a guess from times in flight, and
/// never negative.
inline constexpr std::string_view kFirstRunSchema = "ioweave.run/1";

/// Returns the whole run file as text. Bytes of names that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string run_file_text(const RunReport& report);

/// Returns what --json prints: one object of type "report" with the summary, the run and the files.
[[nodiscard]] std::string report_json(const RunReport& report);

/// Parses and checks a run file. On failure returns false; `why` names the line and the mistake.
[[nodiscard]] bool parse_run_file(std::string_view text, RunReport& report, std::string& why);

/// Reads, parses and checks a run file.
[[nodiscard]] bool read_run_file(const std::string& path, RunReport& report, std::string& why);

}  // namespace ioweave::stats
